/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: combines its parts, and tracks pending answers. */
#include "agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "freeze.h"
#include "lease.h"
#include "still.h"
#include "agent/run/ipc.h"
#include "agent/run/killer.h"
#include "agent/core/log.h"
#include "agent/core/guest_env.h"
#include "agent/core/proc.h"
#include "agent/core/proc_signal.h"
#include "agent/guest/clock.h"
#include "agent/guest/quota.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * Event handlers only record what happened: frames record pending answers (`struct debt`), the
 * interpreter and the run their states. Before each wait, agent_advance() examines all of it
 * and takes the next step, so the order of events does not matter: a RUN that arrives while the
 * interpreter is starting waits, HELLO is answered when the interpreter has received its new seed,
 * and an interpreter that has died is replaced at once.
 *
 * An interpreter that cannot be started, or dies as soon as it is ready, is not restarted until
 * one is requested.
 */

#define LOG_FRAME    (16u << 10)
#define KMSG_DELAY   300000u  /* the boot log can wait until the first run is under way */
#define BLAME_US     5000000u /* memory is still short so soon after a run was ended for it */
#define STEADY_US    1000000u /* an interpreter that lived for so long is worth restarting */
#define NOFILE_AGENT 1048576u

static void send_ready(struct agent *a, struct debt *d)
{
	struct frame *f = frame_new(PROTO_READY, d->id, DRIVER_VERSION + 16);

	log_trace("ready");
	d->due = false;
	if (!f)
		return;
	put_str(&f->out, proto_cstr(a->spares.active->version));
	put_u64(&f->out, a->spares.active->start_us);
	conn_send(&a->conn, f);
}

static void send_failed(struct agent *a, struct debt *d, int error, const char *what)
{
	d->due = false;
	conn_send_failed(&a->conn, d->id, error, what);
}

static void send_hello_ok(struct agent *a)
{
	struct frame *f = frame_new(PROTO_HELLO_OK, a->hello.id, 256);
	struct utsname u;

	a->hello.due = false;
	if (!f)
		return;
	uname(&u);
	put_u32(&f->out, PROTO_VERSION);
	put_u32(&f->out, a->conn.generation);
	put_u64(&f->out, clock_us(CLOCK_BOOTTIME));
	put_str(&f->out, proto_cstr(u.release));
	conn_send(&a->conn, f);
	if (a->kmsg.fd >= 0 && !a->kmsg.events)
		loop_arm(&a->loop, &a->kmsg_timer, KMSG_DELAY);
}

/* Answers all that waits for an interpreter: there is none. */
static void agent_fail(struct agent *a, int error, const char *what)
{
	log_line("%s: %s", what, strerror(error));
	if (a->ready.due)
		send_failed(a, &a->ready, error, what);
	if (a->warm.due)
		send_failed(a, &a->warm, error, what);
	if (a->run.state == RUN_WAITING)
		run_refuse(&a->run);
}

/* Return: false if there is none in reserve. */
static bool take_spare(struct agent *a)
{
	const enum spare_taken taken = spare_take(&a->spares, a->warm.due);

	if (taken != SPARE_TAKEN)
		return taken == SPARE_SOON;
	log_trace("a spare interpreter is taken");
	/* What was ready before a snapshot, or is a copy, has the randomness of others. */
	if (!a->seed_due)
		a->seed_due = getrandom(a->seed, sizeof(a->seed), 0) == sizeof(a->seed);
	a->idle_since = now_us();
	return true;
}

/* No interpreter: start one if it is wanted. */
static void advance_none(struct agent *a)
{
	const char *step;
	int r;

	if (a->ready.due || a->warm.due || a->run.state == RUN_WAITING)
		a->wanted = true;
	if (!a->wanted || a->run.state == RUN_KILLING || a->sweeper.active)
		return;
	a->wanted = a->config.language >= 0;
	if (!a->wanted) {
		agent_fail(a, EINVAL, "no SETUP has named a language");
		return;
	}
	if (take_spare(a))
		return;
	a->seed_due = false; /* a new process has new randomness */
	r = interp_start(a->spares.active, INTERP_ACTIVE, &step);
	log_trace("the interpreter starts, process %d", (int)a->spares.active->pid);
	chance_interp(&a->chance, a->spares.active->pid);
	if (r < 0) {
		a->wanted = false;
		agent_fail(a, -r, step);
	}
}

/* Can the seed travel with the run that waits? */
static bool takes_seed(const struct agent *a)
{
	return a->seed_due && a->run.state == RUN_WAITING && !a->warm.due &&
	       a->spares.active->can_seed;
}

/* A run begins: with the randomness, and at the time, that it would have in another sandbox. Return: whether `seed` is for the
 * interpreter. */
static bool begin_exactly(struct agent *a)
{
	int r = 0;

	if (a->run.trial)
		return false;
	if (a->env->guest && a->exact & PROTO_EXACT_FIXED)
		r = clock_begin(a->clock_ns);
	if (r < 0)
		log_line("setting the clock: %s", strerror(-r));
	return chance_run(&a->chance, a->run.id, a->seed);
}

/* An idle interpreter: give it what waits for one. A new seed comes before everything else, or along
 * with a run. */
static void advance_idle(struct agent *a)
{
	const uint8_t *seed = NULL;
	int r = 0;

	if (takes_seed(a)) {
		seed = a->seed;
		a->seed_due = false;
	}
	if (a->seed_due) {
		a->seed_due = false;
		a->seeding = true;
		r = interp_seed(a->spares.active, a->seed);
	} else if (a->warm.due) {
		if (spare_warm(&a->spares))
			send_ready(a, &a->warm);
	} else if (a->run.state == RUN_WAITING && interp_listens(a->spares.active)) {
		run_begin(&a->run, begin_exactly(a) ? a->seed : seed);
	}
	if (r < 0) {
		log_line("cannot talk to the interpreter: %s", strerror(-r));
		interp_give_up(a->spares.active);
	}
}

/* Does what can be done now towards what is owed. */
static void agent_advance(struct agent *a)
{
	/* A run that waits takes the seed along: nothing could come before that. */
	bool seeded;

	jobs_advance(&a->jobs);
	freeze_advance(a);
	if (a->freezer.state != FREEZER_THAWED) {
		still_advance(a);
		return; /* an interpreter that is stopped answers nobody */
	}
	if (a->loss.due && a->run.state == RUN_WAITING) {
		a->loss.due = false;
		run_gone(&a->run, &a->loss);
	}
	seeded = (!a->seed_due && !a->seeding) || takes_seed(a);
	if (a->spares.active->state == INTERP_NONE)
		advance_none(a);
	/* A run that HELLO abandoned has to be gone, or the next RUN would find the place taken. */
	if (a->hello.due && seeded && !a->jobs.n &&
	    (a->run.state == RUN_NONE || a->run.state == RUN_WAITING))
		send_hello_ok(a);
	if (a->spares.active->state == INTERP_IDLE && a->ready.due && seeded)
		send_ready(a, &a->ready);
	if (a->spares.active->state == INTERP_IDLE)
		advance_idle(a);
	/* It may have become the zygote, of which there is to be a copy. */
	spare_advance(&a->spares);
	lease_advance(a);
	still_advance(a);
}

static void on_interp_ready(struct interp *i)
{
	struct agent *a = i->owner;

	if (i == a->spares.active) {
		interp_set_rank(i, INTERP_ACTIVE);
		a->idle_since = now_us();
	} else {
		spare_on_ready(&a->spares);
	}
	log_line("%s is ready after %u ms", i->version, (unsigned)(i->start_us / 1000));
}

static void on_interp_done(struct interp *i, enum driver_type what, int status)
{
	struct agent *a = i->owner;

	if (i != a->spares.active)
		spare_on_done(&a->spares, i, what, status);
	else if (what == DRIVER_RUN)
		run_on_done(&a->run, status);
	else if (what == DRIVER_SEED)
		a->seeding = false;
	else if (what == DRIVER_WARM && status == 0)
		i->warm = true;
	else if (a->warm.due)
		send_failed(a, &a->warm, EIO, "warming the interpreter up");
}

/* The active interpreter died on its way up. What SIGKILL ends there was out of memory, most likely, or too slow on a busy
 * host, and that may be over by now: it is tried once more. */
static void died_on_the_way(struct agent *a, const struct interp *i, const char *when,
			    int wait_status)
{
	char what[96];

	if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL && !a->retried) {
		a->retried = true;
		return;
	}
	if (i->killed)
		snprintf(what, sizeof(what), "the interpreter was ended %s, for it took too long",
			 when);
	else
		snprintf(what, sizeof(what), "the interpreter ended %s, %s %d", when,
			 WIFSIGNALED(wait_status) ? "signal" : "status",
			 WIFSIGNALED(wait_status) ? WTERMSIG(wait_status)
						  : WEXITSTATUS(wait_status));
	a->wanted = false;
	agent_fail(a, EIO, what);
}

/* Has state gone that the next run would rely on? */
static bool is_loss(const struct agent *a, const struct interp *i)
{
	if (a->run.state == RUN_ACTIVE)
		return i->unread;
	if (a->run.state == RUN_KILLING || a->run.state == RUN_DRAINING)
		return false; /* its result says so */
	return i->holds && !a->restart;
}

static void on_interp_death(struct interp *i, enum interp_state was, int wait_status,
			    const struct rusage *ru)
{
	struct agent *a = i->owner;
	bool turn = was == INTERP_BUSY && i->doing == DRIVER_RUN;

	if (i != a->spares.active) {
		spare_on_death(&a->spares, i, was, wait_status);
		return;
	}
	a->seeding = false;
	a->seed_due = false;
	if (!turn && !i->killed)
		interp_log_end("the interpreter", was, wait_status);
	if (is_loss(a, i))
		loss_note_death(&a->loss, wait_status, i->killed, run_saw_oom(&a->run));
	if (a->run.state == RUN_ACTIVE && i->unread) {
		a->loss.due = false;
		run_gone(&a->run, &a->loss);
	}
	run_on_death(&a->run, wait_status, ru);
	if (was == INTERP_BUSY && i->doing == DRIVER_WARM && a->warm.due)
		died_on_the_way(a, i, "while warming up", wait_status);
	/* A reset kills an idle or starting one on purpose. */
	if (was == INTERP_STARTING && !a->restart && i->rank == INTERP_SPARE) {
		spare_fail(&a->spares, a->spares.zygote, "its copy ended before it was ready");
	} else if (was == INTERP_STARTING && !a->restart) {
		died_on_the_way(a, i, "before it was ready", wait_status);
	}
	if (was == INTERP_IDLE && !i->killed && now_us() - a->idle_since < STEADY_US)
		a->wanted = false;
	a->restart = false;
}

void agent_restart(struct agent *a)
{
	a->restart =
		a->spares.active->state != INTERP_NONE; /* also if it is ending: nobody misses it */
	interp_kill(a->spares.active);
}

static void on_swept(struct killer *k)
{
	const struct agent *a = container_of(k, struct agent, sweeper);

	/* On a host they would be others'. */
	if (a->env->guest || a->env->jail)
		ipc_clear();
	/* agent_advance() goes on */
}

static void on_signal(struct loop_source *s, uint32_t events)
{
	struct agent *a = container_of(s, struct agent, signals);
	struct signalfd_siginfo si;
	struct rusage ru;
	int status;
	pid_t pid;

	(void)events;
	while (read(s->fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo != SIGCHLD && getpid() != 1)
			loop_stop(&a->loop, 0);
	}
	while ((pid = wait4(-1, &status, WNOHANG, &ru)) > 0) {
		size_t n = 0;

		if (proc_untrace(pid, status))
			continue;
		while (n < ARRAY_SIZE(a->spares.slots) &&
		       !interp_reaped(&a->spares.slots[n], pid, status, &ru))
			n++;
		if (n == ARRAY_SIZE(a->spares.slots) && !jobs_reaped(&a->jobs, pid, status))
			run_on_orphan(&a->run, pid, &ru);
	}
}

static void on_kmsg(struct loop_source *s, uint32_t events)
{
	struct agent *a = container_of(s, struct agent, kmsg);
	int r = 1;

	(void)events;
	for (int n = 0; n < 64 && r > 0; n++)
		r = log_kernel(s->fd);
	if (r < 0)
		loop_close(&a->loop, s);
}

/* Too much was asked of the memory: by the run, or, when ending one did not help, by what earlier ones
 * have left behind, which may be processes and may be files. The working directory is not touched. */
static void on_memory_spent(struct swap_guard *g)
{
	struct agent *a = container_of(g, struct agent, guard);
	bool again = now_us() - a->blamed < BLAME_US;

	if (again || a->run.state != RUN_ACTIVE) {
		quota_wipe(a->env);
		jobs_ending(&a->jobs, PROTO_HOW_OOM);
	}
	if (a->run.state == RUN_ACTIVE)
		a->blamed = now_us();
	if (run_out_of_memory(&a->run, again) || a->sweeper.active)
		return;
	log_line("what earlier runs left behind takes more memory than there is");
	if (a->spares.active->holds)
		loss_note(&a->loss, PROTO_GONE_OOM, 0);
	agent_restart(a);
	killer_start(&a->sweeper, NULL, 0);
}

static void on_kmsg_timer(struct loop_timer *t)
{
	struct agent *a = container_of(t, struct agent, kmsg_timer);

	if (loop_watch(&a->loop, &a->kmsg, EPOLLIN) < 0)
		close_fd(&a->kmsg.fd);
}

static void send_log(struct agent *a)
{
	struct frame *f;
	size_t n = log_pending();

	if (!n || !a->conn.open || a->hello.due || conn_full(&a->conn))
		return;
	f = frame_new(PROTO_LOG, 0, n < LOG_FRAME ? n : LOG_FRAME);
	if (!f)
		return;
	f->out.len = log_take(f->out.data, f->out.cap);
	conn_send(&a->conn, f);
}

/* Each line goes out in its turn, behind what it is about; where the connection is full it does not. */
static void send_traced(void *data, uint64_t us, const char *text)
{
	struct agent *a = data;
	const uint32_t len = (uint32_t)strnlen(text, PROTO_TRACED_MAX);
	struct frame *f;

	if (!a->conn.open || conn_full(&a->conn))
		return;
	f = frame_new(PROTO_TRACED, a->traced, 12 + len);
	if (!f)
		return;
	put_u64(&f->out, us);
	put_str(&f->out, (struct proto_str){text, len});
	conn_send(&a->conn, f);
}

static bool before_wait(struct loop *l)
{
	struct agent *a = container_of(l, struct agent, loop);
	int r = conn_receive(&a->conn);

	if (r == 0) {
		agent_advance(a);
		packer_advance(&a->packer);
		unpacker_advance(&a->unpacker);
		send_log(a);
		r = conn_transmit(&a->conn);
	}
	if (r < 0)
		loop_stop(l, r == -EPIPE ? 0 : r);
	/* Nothing else wakes streams that wait for room. */
	if (!conn_full(&a->conn)) {
		run_resume(&a->run);
		jobs_resume(&a->jobs);
		watch_resume(&a->files.watch);
	}
	return conn_more(&a->conn) || packer_can(&a->packer) || unpacker_can(&a->unpacker);
}

static int signals_init(struct agent *a)
{
	static const int handled[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&set);
	for (size_t n = 0; n < ARRAY_SIZE(handled); n++)
		sigaddset(&set, handled[n]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	a->signals = (struct loop_source){.ready = on_signal};
	a->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->signals.fd < 0)
		return -errno;
	return loop_watch(&a->loop, &a->signals, EPOLLIN);
}

static bool is_quiet(const struct spares *s)
{
	const struct agent *a = container_of(s, const struct agent, spares);

	return a->run.state == RUN_NONE && !a->ready.due && !a->warm.due;
}

static void on_changed(struct spares *s)
{
	container_of(s, struct agent, spares)->run.interp = s->active;
}

static void interps_init(struct agent *a)
{
	chance_init(&a->chance, &a->loop);
	a->config.language = -1;
	a->config.chance = &a->chance.end;
	a->spares.loop = &a->loop;
	a->spares.quiet = is_quiet;
	a->spares.changed = on_changed;
	for (size_t n = 0; n < ARRAY_SIZE(a->spares.slots); n++) {
		a->spares.slots[n] = (struct interp){.loop = &a->loop,
						     .env = a->env,
						     .config = &a->config,
						     .owner = a,
						     .ctl.fd = -1,
						     .out.fd = -1,
						     .bell = -1,
						     .rest.file = -1,
						     .on_ready = on_interp_ready,
						     .on_done = on_interp_done,
						     .on_death = on_interp_death};
	}
	a->spares.lazy = a->env->jail;
	spare_init(&a->spares);
}

static void parts_init(struct agent *a)
{
	interps_init(a);
	a->run.loop = &a->loop;
	a->run.conn = &a->conn;
	a->run.interp = a->spares.active;
	a->run.env = a->env;
	a->run.signals = &a->signals;
	a->run.files = &a->files;
	run_init(&a->run);
	a->jobs.loop = &a->loop;
	a->jobs.conn = &a->conn;
	a->jobs.env = a->env;
	a->jobs.config = &a->config;
	a->jobs.files = &a->files;
	a->jobs.signals = &a->signals;
	jobs_init(&a->jobs);
	a->sweeper.loop = &a->loop;
	a->sweeper.done = on_swept;
	freeze_init(a);
	a->kmsg = (struct loop_source){.fd = a->env->kmsg_fd, .ready = on_kmsg};
	a->kmsg_timer.fire = on_kmsg_timer;
	a->guard = (struct swap_guard){
		.loop = &a->loop, .swap = a->env->swap, .spent = on_memory_spent};
	a->loop.before_wait = before_wait;
}

int agent_init(struct agent *a, const struct guest_env *env, int fd, bool local,
	       const char **ret_step)
{
	struct rlimit nofile = {NOFILE_AGENT, NOFILE_AGENT};
	int r;

	a->env = env;
	log_trace_to(send_traced, a);
	parts_init(a);
	umask(0);
	/* Each file the host has open is a descriptor of ours, as are those that it last looked at. */
	if (setrlimit(RLIMIT_NOFILE, &nofile) < 0 && getrlimit(RLIMIT_NOFILE, &nofile) == 0) {
		nofile.rlim_cur = nofile.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &nofile);
	}
	*ret_step = "event loop";
	r = loop_init(&a->loop);
	if (r == 0)
		r = signals_init(a);
	if (r < 0)
		return r;
	swap_guard_init(&a->guard);
	*ret_step = "working directory";
	packer_init(&a->packer, &a->files, &a->conn);
	unpacker_init(&a->unpacker, &a->files, &a->conn);
	r = files_init(&a->files, env, &a->loop, &a->conn);
	if (r < 0)
		return r;
	*ret_step = "connection to the host";
	return conn_init(&a->conn, &a->loop, fd, local);
}

void agent_fini(struct agent *a)
{
	log_trace_to(NULL, NULL);
	proc_exempt(0, 0);
	killer_all();
	for (size_t n = 0; n < ARRAY_SIZE(a->spares.slots); n++)
		interp_fini(&a->spares.slots[n]);
	interp_config_fini(&a->config);
	chance_end(&a->chance);
	run_fini(&a->run);
	jobs_fini(&a->jobs);
	packer_stop(&a->packer);
	unpacker_stop(&a->unpacker);
	files_fini(&a->files);
	conn_fini(&a->conn);
	swap_guard_fini(&a->guard);
	loop_close(&a->loop, &a->signals);
	loop_fini(&a->loop);
}
