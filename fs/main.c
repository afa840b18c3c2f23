/* SPDX-License-Identifier: Apache-2.0 */
/* xsbxfs: start, event loop, shutdown. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "vm/confine.h"
#include "vm/base/rlimit.h"
#include "vm/base/log.h"
#include "vm/base/path.h"
#include "vm/policy/job.h"
#include "vm/spawn/heir_wire.h"
#include "vm/spawn/policy.h"
#include "vm/spawn/registry.h"
#include "vm/base/remove.h"
#include "vm/spawn/spawner.h"
#include "fs/files/files.h"
#include "fs/fuse/devfuse.h"
#include "fs/keep/keeper.h"
#include "fs/keep/store.h"
#include "background.h"
#include "mount.h"
#include "fs/session/spec.h"
#include "mountpoint.h"
#include "prefetch.h"
#include "revival.h"
#include "succession.h"
#include "survival.h"
#include "takeover.h"
#include "fs/handover/handover.h"
#include "fs/tree/report.h"
#include "fs/session/session.h"

/*
 * Theory of operation
 * -------------------
 * Start, in this order, because each step needs the previous ones: read the configuration; move to the
 * background (the parent waits until the file system is mounted); claim the runtime directory and clean
 * up after a killed instance; make the policy of what may be started, and fork the spawner with it
 * (vm/spawn/policy.c), while the process is small and has not read any untrusted data. That is as far as this process
 * comes: from here on it is the guard (vm/spawn/guard.c), and waits for the daemon's end, whose status is its own.
 * The daemon, the spawner's child, mounts, creates the loop and struct vm; finally it drops all rights that are not
 * needed any more (vm/confine.c).
 *
 * Shutdown is always the same, whatever causes it (SIGTERM, SIGINT, unmount, death of the spawner):
 * sessions end and all waiting requests are answered, the sandboxes are closed, the mount is detached,
 * the loop ends, the daemon exits, the spawner removes what is left of it and exits, and then the guard.
 */

#define STOP_AFTER_MS 5000 /* the end waits no longer than this for sandboxes */
#define COMMIT_ROUNDS 12   /* ... of that time, for changes that are being made on the host */

struct daemon {
	uv_loop_t loop;
	uv_signal_t signals[3];
	uv_timer_t stop_timer;
	struct devfuse fuse;
	struct fs *fs;
	struct conf conf;
	struct spawner *spawner;
	struct policy *policy; /* that it has */
	struct succession succession;
	struct survival survival;
	struct revival revival;
	char *const *argv;  /* as this program was called */
	bool heir;	    /* there is another daemon, or was, whose mount this is to take over */
	struct store store; /* until it is the keeper's */
	struct keeper *keeper; /* NULL: no session is kept */
	char *runtime_dir;
	int lock;   /* the spawner has it as well; whoever ends last gives it up */
	int parent; /* waits there, or -1: see background_enter() */
	bool stopping;
	bool kept;	 /* sessions were put to sleep, or there was none to keep */
	bool over;	 /* no signals and timers any more */
	unsigned rounds; /* that the end has waited for commits */
	struct prefetch prefetch;
	int status; /* of the process */
};

static void die(struct daemon *d, const char *why)
{
	log_error("%s", why);
	if (d->heir) { /* nothing is ours */
		if (d->spawner)
			spawner_refuse(d->spawner, why);
		_exit(1);
	}
	background_failed(d->parent, why);
	if (d->fuse.mounted)
		spawner_unmount(d->spawner);
	if (d->spawner) { /* which puts in order what is left */
		spawner_stop(d->spawner);
		exit(1);
	}
	if (d->lock >= 0)
		remove_tree_at_once(d->runtime_dir);
	path_leave_shared(d->conf.vm.runtime_dir);
	exit(1);
}

/* ---- the end ---- */

static void unmount(struct daemon *d)
{
	devfuse_unmount(&d->fuse);
	if (d->over)
		return;
	d->over = true;
	for (size_t i = 0; i < ARRAY_SIZE(d->signals); i++)
		uv_close((uv_handle_t *)&d->signals[i], NULL);
	/* What is left to wait for, if anything, is a disk: until the timer's time is up. */
	uv_unref((uv_handle_t *)&d->stop_timer);
}

static void on_vm_closed(void *data)
{
	struct daemon *d = data;

	d->fs->vm = NULL;
	unmount(d);
}

static void on_stop_timer(uv_timer_t *timer)
{
	struct daemon *d = timer->data;
	const bool commits = d->fs->vm && workdir_under_way(d->fs->vm);

	if (commits && d->rounds++ < COMMIT_ROUNDS) {
		log_info("waiting for a commit, whose changes are being made");
		uv_timer_start(&d->stop_timer, on_stop_timer, STOP_AFTER_MS, 0);
		return;
	}
	if (commits)
		log_error(
			"a commit did not end in time: a part of its changes is made, each file of "
			"it whole");
	else if (d->fs->vm)
		log_warn("some sandboxes did not end in time; the spawner kills them");
	else
		log_warn("a disk did not answer in time");
	unmount(d);
	uv_stop(&d->loop);
}

/* Sessions are asleep, where they are kept. */
static void on_kept(void *data)
{
	struct daemon *d = data;

	d->kept = true;
	survival_close(&d->survival);
	mount_stop(d->fs);
	uv_timer_start(&d->stop_timer, on_stop_timer, STOP_AFTER_MS, 0);
	vm_close(d->fs->vm, on_vm_closed, d);
}

static void stop(struct daemon *d, const char *why)
{
	if (d->stopping)
		return;
	d->stopping = true;
	log_info("ending: %s", why);
	prefetch_close(&d->prefetch);
	succession_close(&d->succession);
	if (d->keeper)
		keeper_end(d->keeper, false, on_kept, d);
	else
		on_kept(d);
}

/* An end that nobody asked for: the exit status says so. */
static void fail(struct daemon *d, const char *why)
{
	if (!d->stopping)
		d->status = 1;
	stop(d, why);
}

static void on_spawner_died(void *data)
{
	struct daemon *d = data;

	fail(d, "the spawner died");
	if (d->keeper && !d->kept)
		keeper_end(d->keeper, true, on_kept, d);
}

static void on_signal(uv_signal_t *handle, int signum)
{
	struct daemon *d = handle->data;

	if (!d->stopping && d->conf.action != CONF_MOUNT)
		d->status = 128 + signum;
	if (d->stopping && d->keeper && !d->kept)
		keeper_end(d->keeper, false, on_kept, d); /* he is in a hurry */
	stop(handle->data, signum == SIGINT ? "interrupted" : "terminated");
}

static void on_prefetched(void *data, bool failed)
{
	struct daemon *d = data;

	d->status = failed;
	stop(d, failed ? "not everything is ready" : "everything is ready");
}

static void on_unmounted(void *data, int err, const char *why)
{
	if (err < 0)
		fail(data, why);
	else
		stop(data, why);
}

/* ---- the start ---- */

static void prepare_fuse(struct daemon *d)
{
	d->fs->tell_confinement = confine_tell;
	d->fs->shown = owner_choose(d->conf.allow_other);
	d->fuse.ended = on_unmounted;
	d->fuse.data = d;
}

static void mount_fuse(struct daemon *d)
{
	const char *why;

	prepare_fuse(d);
	if (devfuse_mount(&d->fuse, d->fs, &d->conf, d->spawner, &why) < 0)
		die(d, why);
}

/* Tells the parent, or the file --notify names, that the mount is there. */
static void announce(struct daemon *d)
{
	int fd;

	if (d->conf.notify) {
		fd = open(d->conf.notify, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0 || write(fd, "s", 1) != 1)
			log_warn("%s: %s", d->conf.notify, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	if (d->parent >= 0)
		spawner_log(d->spawner);
	background_ready(d->parent);
}

static void confine_daemon(struct daemon *d)
{
	const struct confine_spec spec = {
		.cache_dir = d->conf.vm.cache_dir,
		.runtime_dir = d->runtime_dir,
		.spool_dir = d->conf.spool_dir,
		.agent = d->conf.vm.agent,
		.state_dir = d->keeper ? d->conf.state_dir : NULL,
		.notify = d->conf.notify,
	};
	const char *step;
	char why[256];
	int e = confine(&spec, &step);

	if (e == 0)
		return;
	snprintf(why, sizeof(why), "cannot confine itself: %s: %s", step, strerror(-e));
	die(d, why);
}

static void on_vm_event(void *data, const char *kind, const char *words)
{
	struct fs *fs = data;

	events_add(&fs->events, NULL, kind, words);
}

static const struct vm_events vm_events = {.event = on_vm_event};

static void die_of(struct daemon *d, const struct problem *p)
{
	char why[2048];

	snprintf(why, sizeof(why), "sessions cannot be kept: %s%s%s", p->cause, *p->fix ? ". " : "",
		 p->fix);
	die(d, why);
}

/* Not before there is the spawner, which must not have the lock; nor behind the mount, for this may be refused, or wait. */
static void open_store(struct daemon *d)
{
	struct problem p = {0};
	const int r = d->heir ? store_open_heir(d->conf.state_dir, &d->store, &p)
			      : store_open(d->conf.state_dir, &d->store, &p);

	if (r < 0)
		die_of(d, &p);
}

static void open_keeper(struct daemon *d)
{
	struct problem p = {0};

	if (keeper_open(d->fs, &d->store, &d->keeper, &p) < 0)
		die_of(d, &p);
}

static void start_machinery(struct daemon *d)
{
	struct vm_config cfg = d->conf.vm;
	char why[1024];
	int e;

	cfg.runtime_dir = d->runtime_dir;
	cfg.policy = d->policy;
	cfg.ca = d->fs->netenv.ca.data;
	cfg.ca_len = d->fs->netenv.ca.len;
	cfg.ca_path = d->fs->netenv.ca_path;
	e = mount_init(d->fs, &d->loop, &d->conf);
	if (e < 0) {
		snprintf(why, sizeof(why), "spool directory %s: %s", d->conf.spool_dir,
			 strerror(-e));
		die(d, why);
	}
	e = vm_new(&d->loop, d->spawner, &cfg,
		   d->conf.action == CONF_MOUNT ? &vm_events : &prefetch_events, d->fs, &d->fs->vm);
	if (e < 0) {
		snprintf(why, sizeof(why), "cannot set up sandboxes: %s", strerror(-e));
		die(d, why);
	}
	if (d->conf.keep && d->conf.action == CONF_MOUNT)
		open_keeper(d);
}

/* What the configuration permits the spawner to start. Return: 0 or -ENOMEM. */
static int permit(struct daemon *d)
{
	const struct conf *conf = &d->conf;
	const size_t n = conf->ntemplates;
	_cleanup_free_ struct policy_view *views = calloc(n + 1, sizeof(*views));
	struct vm_config vm = conf->vm;
	const struct policy_config cfg = {
		.vm = &vm,
		.max_memory_mb = conf->limits.max_memory_mb,
		.max_cpus = conf->limits.max_cpus,
		.max_processes = conf->limits.max_processes,
		.others = conf->allow_other,
		.view = views,
		.nviews = n,
	};
	int r = views ? 0 : -ENOMEM;

	vm.runtime_dir = d->runtime_dir;
	vm.ca_path = d->fs->netenv.ca_path;
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct sandbox_spec *spec = &conf->template[i].settings.spec;

		views[i] = (struct policy_view){
			.path = spec->paths,
			.npaths = spec->npaths,
			.work = spec->work,
			.image = spec->image_view ? spec->image : NULL,
		};
	}
	policy_prepare(vm.cache_dir);
	if (r == 0)
		r = policy_new(&cfg, &d->policy);
	return r;
}

/* What sandboxes may have of the host. */
static void find_rules(struct daemon *d)
{
	char why[1024];

	if (netenv_init(&d->fs->netenv, &d->conf, why, sizeof(why)) < 0)
		die(d, why);
	if (permit(d) < 0)
		die(d, "out of memory");
}

/* What those go by who may have to go on. Return: that, or -1: nobody will. */
static int seal(struct daemon *d)
{
	int fd = -1;

	if (d->conf.action == CONF_MOUNT && d->conf.survive) {
		fd = revival_seal(&d->conf);
		if (fd < 0)
			die(d, "the configuration can't be kept for the next daemon");
	}
	return fd;
}

/* It is forked with all that it may ever be asked for, and believes nothing else. Goes on in the daemon. */
static void start_spawner(struct daemon *d)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0); /* of its own: this is the daemon's */
	_cleanup_close_ int conf = -1;		    /* likewise */
	struct spawner_rules rules = {
		.job = policy_job,
		.runtime_dir = d->runtime_dir,
		.argv = d->argv,
		.cwd = cwd,
		.lock = d->lock,
		.background = d->parent >= 0,
		.deaths = d->conf.max_deaths,
	};

	find_rules(d);
	conf = seal(d);
	rules.conf = conf >= 0 ? conf : 0;
	rules.data = d->policy;
	if (d->conf.action == CONF_MOUNT)
		rules.mountpoint = d->conf.mountpoint;
	if (spawner_start(&rules, &d->spawner) < 0)
		die(d, "cannot fork the spawner");
}

/* What is needed while the mount is there must not lie below it. */
static void check_mountpoint(struct daemon *d)
{
	const struct conf *c = &d->conf;
	const struct mountpoint_use uses[] = {
		{"xsbxfs itself", "/proc/self/exe", false},
		{"the agent", c->vm.agent, false},
		{"xsbxfs-store", c->vm.store.program, false},
		{"QEMU", c->vm.qemu, false},
		{"the builder of images", c->vm.image_builder, false},
		{"the installer of packages", c->vm.packages.dir, false},
		{"the cache", c->vm.cache_dir, true},
		{"the directory of long outputs", c->spool_dir, true},
		{"the runtime directory", c->vm.runtime_dir, true},
		{"the directory of what is kept", c->keep ? c->state_dir : NULL, true},
		{"the system", "/usr", false},
		{"the system", "/etc", false},
		{"the system", "/dev", false},
		{"the system", "/proc", true},
		{"the system", "/sys", true},
	};
	char why[1024];

	if (mountpoint_check(c->mountpoint, uses, ARRAY_SIZE(uses), why, sizeof(why)) < 0)
		die(d, why);
}

static void prepare_survival(struct daemon *d)
{
	d->survival = (struct survival){
		.loop = &d->loop,
		.fs = d->fs,
		.fuse = &d->fuse,
		.spawner = d->spawner,
		.succession = &d->succession,
	};
}

static void survive(struct daemon *d)
{
	prepare_survival(d);
	/* The next one could not have the key: it comes from a program that is run before anything is confined. */
	if (d->conf.keep && d->conf.vm.key_command)
		log_warn("with key_command nothing survives the daemon");
	else
		survival_new(&d->survival);
}

/* The loop, and what runs on it. */
static void start_loop(struct daemon *d)
{
	static const int signums[ARRAY_SIZE(d->signals)] = {SIGTERM, SIGINT, SIGHUP};

	if (confine_rings() < 0)
		die(d, "cannot confine itself: io_uring");
	uv_loop_init(&d->loop);
	for (size_t i = 0; i < ARRAY_SIZE(signums); i++) {
		uv_signal_init(&d->loop, &d->signals[i]);
		d->signals[i].data = d;
		uv_signal_start(&d->signals[i], on_signal, signums[i]);
	}
	uv_timer_init(&d->loop, &d->stop_timer);
	d->stop_timer.data = d;
	start_machinery(d);
	spawner_watch(d->spawner, on_spawner_died, d);
	d->succession = (struct succession){
		.loop = &d->loop,
		.fs = d->fs,
		.fuse = &d->fuse,
		.spawner = d->spawner,
		.keeper = d->keeper,
	};
	if (policy_sum(d->policy, d->succession.permitted) < 0)
		die(d, "out of memory");
	if (d->conf.action == CONF_MOUNT)
		devfuse_attach(&d->fuse, &d->loop, d->conf.mountpoint);
	survival_start(&d->survival);
	confine_daemon(d);
}

static void start(struct daemon *d)
{
	const bool mounts = d->conf.action == CONF_MOUNT;
	char why[1024];

	rlimit_raise_files();
	signal(SIGPIPE, SIG_IGN);
	if (mounts)
		check_mountpoint(d);
	signal(SIGXFSZ, SIG_IGN); /* a file of output that may not grow is an error like others */
	/* Without a mount, the cache stands for it: it is filled by one at a time. */
	if (mountpoint_claim(d->conf.vm.runtime_dir,
			     mounts ? d->conf.mountpoint : d->conf.vm.cache_dir, &d->runtime_dir,
			     &d->lock, why, sizeof(why)) < 0)
		die(d, why);
	registry_reap(d->runtime_dir);
	if (mounts && mountpoint_prepare(d->conf.mountpoint, why, sizeof(why)) < 0)
		die(d, why);
	start_spawner(d);
	if (mounts && d->conf.keep)
		open_store(d);
	if (mounts)
		mount_fuse(d);
	if (mounts && d->conf.survive)
		survive(d);
	start_loop(d);
	if (d->keeper)
		keeper_load(d->keeper);
	if (mounts) {
		devfuse_serve(&d->fuse);
		succession_await(&d->succession);
	}
	/* Whoever hears of the mount may kill this at once. */
	turn_now(&d->survival.turn);
	if (mounts)
		announce(d);
	if (mounts)
		spec_prepare(d->fs);
	else
		prefetch_start(&d->prefetch);
}

/* ---- the start of an heir, see succession.h ---- */

/* With all that the daemon before has had, or has left; then this is the daemon. */
static void load(struct daemon *d)
{
	char why[1024];

	if (d->revival.revives) {
		prepare_survival(d);
		survival_resume(&d->survival, steal_ptr(d->revival.estate));
		start_loop(d);
		if (revival_load(&d->revival, &d->succession, &d->survival.turn, why, sizeof(why)) <
		    0)
			die(d, why);
		survival_go(&d->survival);
		return;
	}
	start_loop(d);
	if (succession_load(&d->succession, why, sizeof(why)) < 0)
		die(d, why);
	if (d->conf.survive) {
		survive(d);
		survival_start(&d->survival);
	}
}

/* The spawner takes it only while nothing that was inherited has been read. */
static void bequeath(struct daemon *d)
{
	_cleanup_close_ int conf = seal(d);

	if (conf >= 0 && spawner_conf(d->spawner, conf) < 0)
		die(d, "the spawner does not answer");
}

/* Until it is the daemon, it opens what it needs, and changes nothing: the mount is another's. */
static void inherit(struct daemon *d)
{
	const char *words;
	int r;

	prctl(PR_SET_NAME, "xsbxfs-daemon");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	r = spawner_inherit(&d->spawner);
	if (r == -EOPNOTSUPP)
		die(d, "the process that starts sandboxes is of another version, and lives as long "
		       "as the mount; unmount to upgrade");
	if (r < 0)
		die(d, "the spawner is not understood");
	if (!d->revival.revives)
		bequeath(d);
	d->runtime_dir = mountpoint_directory(d->conf.vm.runtime_dir, d->conf.mountpoint);
	if (!d->runtime_dir)
		die(d, "out of memory");
	find_rules(d);
	if (d->conf.keep && d->conf.vm.key_command)
		die(d, "with key_command a mount can't be taken over; unmount to upgrade");
	if (d->conf.keep)
		open_store(d);
	prepare_fuse(d);
	if (devfuse_inherit(&d->fuse, d->fs, &d->conf, d->spawner, HEIR_FD_CONNECTION, &words) < 0)
		die(d, words);
	load(d);
	d->heir = false;
	if (!d->conf.foreground)
		spawner_log(d->spawner);
	if (d->revival.revives)
		revival_tell(&d->revival, &d->succession);
	if (d->keeper)
		keeper_go(d->keeper);
	handover_go(d->fs);
	if (d->revival.last) {
		devfuse_own(&d->fuse);
		fail(d, "the daemon died too often");
		return;
	}
	devfuse_replay(&d->fuse);
	files_replayed(d->fs);
	mount_go_on(d->fs);
	turn_now(&d->survival.turn);
	devfuse_serve(&d->fuse);
	succession_await(&d->succession);
	spec_prepare(d->fs);
}

static int run(struct daemon *d)
{
	bool idle;

	d->fs = calloc(1, sizeof(*d->fs));
	if (!d->fs) {
		log_error("out of memory");
		return 1;
	}
	d->prefetch.fs = d->fs;
	d->prefetch.done = on_prefetched;
	d->prefetch.data = d;
	if (d->heir) {
		inherit(d);
	} else {
		d->parent = d->conf.foreground ? -1 : background_enter();
		start(d);
		if (d->fuse.mounted)
			log_info("mounted on %s", d->conf.mountpoint);
	}
	uv_run(&d->loop, UV_RUN_DEFAULT);

	uv_close((uv_handle_t *)&d->stop_timer, NULL);
	uv_run(&d->loop, UV_RUN_NOWAIT);

	/* With the mount's memory a thread may still have to do that waits for a disk. */
	idle = mount_fini(d->fs);
	idle = keeper_close(d->keeper) && idle;
	devfuse_free(&d->fuse);
	survival_free(&d->survival);
	spawner_stop(d->spawner);
	policy_free(d->policy);
	uv_loop_close(&d->loop);
	if (!idle)
		_exit(d->status); /* which does not wait for the thread, as exit(3) does */
	free(d->runtime_dir);
	free(d->fs);
	conf_clear(&d->conf);
	return d->status;
}

/* ---- without a mount ---- */

static int prefetch(struct daemon *d)
{
	const char *name;

	if (prefetch_choose(&d->conf, &name) < 0) {
		fprintf(stderr, "xsbxfs: there is no template \"%s\"\n", name);
		return 2;
	}
	return run(d);
}

/* One process makes everything ready and says what there is, and the other writes it to the file. */
static int export(struct daemon *d)
{
	char *items[CONF_TEMPLATES_MAX * 3 + 2], line[512];
	int fds[2], status = 0;
	size_t n = 0;
	FILE *in;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		log_error("cannot start: %s", strerror(errno));
		return 1;
	}
	if (pid == 0) {
		close(fds[0]);
		d->prefetch.items = fdopen(fds[1], "w");
		exit(d->prefetch.items ? prefetch(d) : 1);
	}
	close(fds[1]);
	in = fdopen(fds[0], "r");
	while (in && n < ARRAY_SIZE(items) && fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		items[n] = strdup(line);
		n += items[n] != NULL;
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	return prefetch_export(&d->conf, items, n);
}

static int check(const struct conf *conf)
{
	struct buf out = {0};
	bool failed = false;

	if (report_check(conf, &out, &failed) < 0)
		failed = true;
	log_printable(out.data, out.len, true);
	fwrite(out.data, 1, out.len, stdout);
	buf_clear(&out);
	return failed;
}

/* An heir has the mount's command line, behind a word of its own. */
static bool is_heir(struct daemon *d, int *argc, char **argv)
{
	if (*argc < 2)
		return false;
	revival_init(&d->revival, argv[1]);
	if (!d->revival.revives && strcmp(argv[1], HEIR_OPTION) != 0)
		return false;
	memmove(&argv[1], &argv[2], (size_t)(*argc - 1) * sizeof(*argv));
	(*argc)--;
	return true;
}

/* An heir that can't even read its configuration. That is understood by a spawner of another version as well. */
static void refuse(struct daemon *d, const char *why)
{
	const int r = spawner_inherit(&d->spawner);

	if (r == 0 || r == -EOPNOTSUPP)
		spawner_refuse(d->spawner, why);
}

static int configure(struct daemon *d, int argc, char *argv[], char *ret_why, size_t why_size)
{
	int r;

	if (!d->revival.revives)
		return conf_load(&d->conf, argc, argv, ret_why, why_size);
	r = revival_open(&d->revival, ret_why, why_size);
	return r < 0 ? r : revival_configure(&d->conf, argc, argv, ret_why, why_size);
}

int main(int argc, char *argv[])
{
	static struct daemon d = {.lock = -1, .parent = -1, .fuse.watch.fd = -1};
	char why[1024];

	d.heir = is_heir(&d, &argc, argv);
	d.argv = argv;
	if (configure(&d, argc, argv, why, sizeof(why)) < 0) {
		log_printable(why, strlen(why), false);
		if (d.heir)
			refuse(&d, why);
		fprintf(stderr, "xsbxfs: %s\n", why);
		return 2;
	}
	log_open(d.conf.debug			   ? LOG_LEVEL_DEBUG
		 : d.conf.log_level != LOG_NLEVELS ? d.conf.log_level
		 : d.conf.action == CONF_MOUNT	   ? LOG_LEVEL_INFO
						   : LOG_LEVEL_WARN);
	log_set_format(d.conf.log_format);
	log_to_journal(log_is_journal(STDERR_FILENO, getenv("JOURNAL_STREAM")));
	switch (d.conf.action) {
	case CONF_HELP: fputs(conf_usage, stdout); return 0;
	case CONF_VERSION: printf("xsbxfs %s\n", XSBX_VERSION); return 0;
	case CONF_CHECK: return check(&d.conf);
	case CONF_PREFETCH: return prefetch(&d);
	case CONF_EXPORT: return export(&d);
	case CONF_IMPORT: return prefetch_import(&d.conf);
	case CONF_TAKEOVER: return takeover(&d.conf);
	case CONF_MOUNT: return run(&d);
	}
	assert(0);
	return 1;
}
