/* SPDX-License-Identifier: Apache-2.0 */
/* What every daemon sets up, the first one and its heirs. See daemon.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon_internal.h"
#include "fs/session/quota.h"
#include "fs/config/learn.h"
#include "fs/session/session.h"
#include "fs/session/traces.h"
#include "mount.h"
#include "fs/tree/report.h"
#include "vm/base/log.h"
#include "vm/confine.h"
#include "vm/policy/job.h"
#include "vm/order/policy.h"
#include "vm/spawn/spawner.h"

void daemon_prepare_fuse(struct daemon *d)
{
	d->fs->tell_confinement = confine_tell;
	d->fs->shown = owner_choose(d->conf.allow_other);
	d->fuse.ended = daemon_on_unmounted;
	d->fuse.data = d;
}

static void confine_daemon(struct daemon *d)
{
	char audit[PATH_MAX];
	const struct confine_spec spec = {
		.cache_dir = d->conf.vm.cache_dir,
		.shared_dir = d->conf.vm.shared_dir,
		.runtime_dir = d->runtime_dir,
		.spool_dir = d->conf.spool_dir,
		.agent = d->conf.vm.agent,
		.state_dir = d->keeper ? d->conf.state_dir : NULL,
		.notify = d->conf.notify,
		.audit_dir = audit_directory(d->fs->audit, audit),
	};
	const char *step;
	char why[256];
	int e = confine(&spec, &step);

	if (e == 0)
		return;
	snprintf(why, sizeof(why), "cannot confine itself: %s: %s", step, strerror(-e));
	daemon_die(d, why);
}

static void on_vm_event(void *data, const char *kind, const char *words)
{
	struct fs *fs = data;

	events_add(&fs->events, NULL, kind, words);
}

static void on_spent(void *data, uid_t owner, uint64_t us, uint64_t bytes)
{
	struct fs *fs = data;

	if (us)
		quota_cpu_add(fs, owner, us);
	if (bytes)
		quota_net_add(fs, owner, bytes);
}

static const struct vm_events vm_events = {.event = on_vm_event, .spent = on_spent};

static void die_of(struct daemon *d, const struct problem *p)
{
	char why[2048];

	snprintf(why, sizeof(why), "sessions cannot be kept: %s%s%s", p->cause, *p->fix ? ". " : "",
		 p->fix);
	daemon_die(d, why);
}

void daemon_open_store(struct daemon *d)
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

static enum audit_how how_audited(const struct daemon *d)
{
	return !d->heir ? AUDIT_FIRST : d->revival.revives ? AUDIT_REVIVES : AUDIT_TAKES_OVER;
}

static void start_machinery(struct daemon *d)
{
	_cleanup_free_ char *resource = traces_resource(d->conf.mountpoint);
	struct vm_config cfg = d->conf.vm;
	char why[1024];
	int e;

	cfg.runtime_dir = d->runtime_dir;
	cfg.policy = d->policy;
	cfg.trace.resource = resource;
	cfg.heir = d->heir;
	cfg.ca = d->fs->netenv.ca.data;
	cfg.ca_len = d->fs->netenv.ca.len;
	cfg.ca_path = d->fs->netenv.ca_path;
	e = mount_init(d->fs, &d->loop, &d->conf);
	if (e < 0) {
		snprintf(why, sizeof(why), "spool directory %s: %s", d->conf.spool_dir,
			 strerror(-e));
		daemon_die(d, why);
	}
	if (d->conf.action == CONF_MOUNT &&
	    audit_open(d->fs, &d->conf, how_audited(d), why, sizeof(why)) < 0)
		daemon_die(d, why);
	e = vm_new(&d->loop, d->spawner, &cfg,
		   d->conf.action == CONF_MOUNT ? &vm_events : &prefetch_events, d->fs, &d->fs->vm);
	if (e < 0) {
		snprintf(why, sizeof(why), "cannot set up sandboxes: %s", strerror(-e));
		daemon_die(d, why);
	}
	if (d->conf.keep && d->conf.action == CONF_MOUNT)
		open_keeper(d);
}

static int by_name(const void *a, const void *b)
{
	const struct conf_template *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* In an order that does not change when an image brings a template along: the heir has to permit the same. */
static size_t put_views(const struct conf *conf, struct policy_view *views,
			struct vm_path learning[][VM_PATHS_MAX])
{
	size_t n = conf->ntemplates;

	const struct conf_template *t[CONF_TEMPLATES_MAX];

	for (size_t i = 0; i < conf->ntemplates; i++)
		t[i] = &conf->template[i];
	qsort((void *)t, conf->ntemplates, sizeof(t[0]), by_name);
	for (size_t i = 0; i < conf->ntemplates; i++) {
		const struct sandbox_spec *spec = &t[i]->settings.spec;

		views[i] = (struct policy_view){
			.path = spec->paths,
			.npaths = spec->npaths,
			.work = spec->work,
		};
	}
	for (size_t i = 0; conf->limits.allow_learn && i < conf->ntemplates; i++) {
		const struct sandbox_spec *spec = &t[i]->settings.spec;

		views[n++] = (struct policy_view){
			.path = learning[i],
			.npaths = learn_view(spec, &conf->learn, learning[i]),
			.work = spec->work,
		};
	}
	return n;
}

/* What the configuration permits the spawner to start. Return: 0 or -ENOMEM. */
static int permit(struct daemon *d)
{
	const struct conf *conf = &d->conf;
	const size_t n = conf->ntemplates;
	_cleanup_free_ struct policy_view *views = calloc(2 * n + 1, sizeof(*views));
	_cleanup_free_ struct vm_path(*learning)[VM_PATHS_MAX] = calloc(n + 1, sizeof(*learning));
	struct vm_config vm = conf->vm;
	struct policy_config cfg = {
		.vm = &vm,
		.state_dir = conf->state_dir,
		.spool_dir = conf->spool_dir,
		.max_memory_mb = conf->limits.max_memory_mb,
		.max_cpus = conf->limits.max_cpus,
		.max_processes = conf->limits.max_processes,
		.others = conf->allow_other,
		.view = views,
	};
	int r = views && learning ? 0 : -ENOMEM;

	vm.runtime_dir = d->runtime_dir;
	vm.ca_path = d->fs->netenv.ca_path;
	if (r == 0)
		cfg.nviews = put_views(conf, views, learning);
	policy_prepare(vm.cache_dir, vm.publish);
	if (r == 0)
		r = policy_new(&cfg, &d->policy);
	return r;
}

void daemon_find_rules(struct daemon *d)
{
	struct problem p;
	char why[1024];

	if (d->conf.limits.allow_learn && !d->conf.learn.npaths &&
	    learn_find(d->conf.learn_paths, &d->conf.learn, &p) < 0)
		daemon_die(d, p.cause);
	if (netenv_init(&d->fs->netenv, &d->conf, why, sizeof(why)) < 0)
		daemon_die(d, why);
	if (permit(d) < 0)
		daemon_die(d, "out of memory");
}

int daemon_seal(struct daemon *d)
{
	int fd = -1;

	if (d->conf.action == CONF_MOUNT && d->conf.survive) {
		fd = revival_seal(&d->conf);
		if (fd < 0)
			daemon_die(d, "the configuration can't be kept for the next daemon");
	}
	return fd;
}

void daemon_prepare_survival(struct daemon *d)
{
	d->survival = (struct survival){
		.loop = &d->loop,
		.fs = d->fs,
		.fuse = &d->fuse,
		.spawner = d->spawner,
		.succession = &d->succession,
	};
}

void daemon_survive(struct daemon *d)
{
	/* The next one could not have the key: it comes from a program that is run before anything is confined. */
	if (d->conf.keep && d->conf.vm.key_command)
		log_warn("with key_command nothing survives the daemon");
	else
		survival_new(&d->survival);
}

/* The loop, and what runs on it. */
void daemon_start_loop(struct daemon *d)
{
	static const int signums[ARRAY_SIZE(d->signals)] = {SIGTERM, SIGINT, SIGHUP};

	if (confine_rings() < 0)
		daemon_die(d, "cannot confine itself: io_uring");
	uv_loop_init(&d->loop);
	for (size_t i = 0; i < ARRAY_SIZE(signums); i++) {
		uv_signal_init(&d->loop, &d->signals[i]);
		d->signals[i].data = d;
		uv_signal_start(&d->signals[i], daemon_on_signal, signums[i]);
	}
	uv_timer_init(&d->loop, &d->stop_timer);
	d->stop_timer.data = d;
	start_machinery(d);
	spawner_watch(d->spawner, daemon_on_spawner_died, d);
	d->succession = (struct succession){
		.loop = &d->loop,
		.fs = d->fs,
		.fuse = &d->fuse,
		.spawner = d->spawner,
		.keeper = d->keeper,
		.survival = &d->survival,
	};
	if (policy_sum(d->policy, d->succession.permitted) < 0)
		daemon_die(d, "out of memory");
	if (d->conf.action == CONF_MOUNT)
		devfuse_attach(&d->fuse, &d->loop, d->conf.mountpoint);
	survival_start(&d->survival);
	confine_daemon(d);
}
