/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatches frames from the host. */
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "freeze.h"
#include "lease.h"
#include "resume.h"
#include "still.h"
#include "agent/guest/clock.h"
#include "agent/core/learn.h"
#include "agent/core/log.h"
#include "agent/guest/net.h"
#include "agent/core/guest_env.h"
#include "agent/core/proc.h"
#include "agent/guest/quota.h"
#include "agent/guest/ca.h"
#include "agent/core/util.h"

#define PING_MAX 64u

/* Has the machine a time of its own, which the host does not set right? */
static bool has_own_clock(const struct agent *a)
{
	return a->exact & PROTO_EXACT_CLOCK;
}

/* One that it had before, it has still: it was copied. */
static void begin_clock(struct agent *a, const struct proto_setup *s)
{
	const bool anew = !has_own_clock(a) || a->clock_ns != s->clock_ns;
	int r = 0;

	a->exact = s->exact;
	a->clock_ns = s->clock_ns;
	if (a->env->guest && has_own_clock(a) && anew)
		r = clock_begin(s->clock_ns);
	if (r < 0)
		log_line("setting the clock: %s", strerror(-r));
}

/* Sets what was copied along with the machine. Failures are told and survived: a run without the
 * right host name is better than none. */
static void renew_machine(struct agent *a, uint64_t realtime_ns, struct proto_str name)
{
	int r;

	if (a->env->jail && name.len)
		(void)clock_name(name.data, name.len);
	if (!a->env->guest)
		return;
	r = has_own_clock(a) ? 0 : clock_set(realtime_ns);
	if (r < 0)
		log_line("setting the clock: %s", strerror(-r));
	r = clock_stir(a->env->random_fd, a->seed, sizeof(a->seed));
	if (r < 0)
		log_line("adding entropy: %s", strerror(-r));
	r = name.len ? clock_name(name.data, name.len) : 0;
	if (r == 0 && name.len)
		r = net_name(name.data, name.len);
	if (r < 0)
		log_line("setting the host name: %s", strerror(-r));
}

static int on_hello(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	uint32_t version = get_u32(in);
	uint32_t generation = get_u32(in);
	uint64_t realtime_ns = get_u64(in);
	struct proto_str name;
	uint8_t entropy[PROTO_ENTROPY];

	get_bytes(in, entropy, sizeof(entropy));
	name = get_str(in, 256);
	if (!get_end(in) || version < PROTO_VERSION_OLDEST)
		return -EPROTO;
	memcpy(a->seed, entropy, sizeof(a->seed));
	renew_machine(a, realtime_ns, name);
	/* Everything under way was requested on a connection that is gone. */
	freeze_forget(a);
	conn_renew(&a->conn, generation);
	log_tracing(h->flags & PROTO_F_TRACE);
	a->traced = 0;
	log_trace("greeted");
	a->ready.due = a->warm.due = false;
	run_abandon(&a->run);
	if (h->flags & PROTO_F_COPY)
		jobs_let_go(&a->jobs);
	jobs_abandon(&a->jobs);
	packer_stop(&a->packer);
	unpacker_stop(&a->unpacker);
	locks_clear(&a->files.locks);
	if (h->flags & PROTO_F_COPY)
		files_renew(&a->files);
	/* What follows from a seed goes on from where it was. */
	a->seed_due = !a->chance.on && a->spares.active->state != INTERP_NONE &&
		      a->spares.active->state != INTERP_ENDING && a->run.state != RUN_KILLING;
	a->hello = (struct debt){true, h->id};
	return 0;
}

static int on_ping(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct proto_str data = get_rest(in);
	struct frame *f;

	if (data.len > PING_MAX)
		return -EPROTO;
	f = frame_new(PROTO_PONG, h->id, data.len);
	if (!f)
		return -ENOMEM;
	put_bytes(&f->out, data.data, data.len);
	conn_send(&a->conn, f);
	return 0;
}

static int on_clock(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	const uint64_t delta_ns = get_u64(in);
	struct frame *f;
	int r = 0;

	if (!get_end(in))
		return -EPROTO;
	/* Outside of a guest the clock is the host's own. */
	if (a->env->guest && !has_own_clock(a))
		r = clock_step((int64_t)delta_ns);
	if (r < 0)
		log_line("setting the clock: %s", strerror(-r));
	f = frame_new(PROTO_CLOCK_OK, h->id, 8);
	if (!f)
		return -ENOMEM;
	put_u64(&f->out, clock_now());
	conn_send(&a->conn, f);
	return 0;
}

static int on_trust(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct proto_str data = get_rest(in);
	int r;

	(void)h;
	if (data.len > PROTO_TRUST_MAX)
		return -EPROTO;
	r = ca_write(data.data, data.len, a->env->guest);
	if (r < 0)
		log_line("certificates: %s", strerror(-r));
	return 0;
}

/* Has the interpreter replaced; READY comes when the new one is. */
static void restart(struct agent *a, uint32_t id)
{
	a->ready = (struct debt){true, id};
	a->retried = false;
	a->loss.due = false;
	agent_restart(a);
}

static int on_setup(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct proto_setup s;
	bool changed;
	int r = proto_setup_unpack(in, &s);

	if (r < 0)
		return r;
	freeze_end(a);
	if (a->run.state != RUN_NONE || a->ready.due || a->warm.due) {
		conn_send_failed(&a->conn, h->id, EBUSY, "SETUP while something is under way");
		return 0;
	}
	r = quota_set(a->env, s.files_bytes, s.tmp_bytes, s.files_inodes, s.tmp_inodes);
	if (r < 0) {
		conn_send_failed(&a->conn, h->id, -r, "setting the size of the working directory");
		return 0;
	}
	r = interp_configure(a->env, &a->config, &s, &changed);
	if (r == 0 && s.exact & PROTO_EXACT_SEED)
		r = chance_begin(&a->chance, s.seed, s.before);
	else if (r == 0)
		chance_end(&a->chance);
	a->spares.none = a->chance.on;
	begin_clock(a, &s);
	if (r < 0) {
		conn_send_failed(&a->conn, h->id, -r, "language or environment");
	} else if (changed) {
		spare_drop(&a->spares);
		restart(a, h->id);
	} else {
		a->ready = (struct debt){true, h->id};
		a->retried = false;
	}
	return 0;
}

static int on_reset(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	if (!get_end(in))
		return -EPROTO;
	freeze_end(a);
	packer_stop(&a->packer);
	unpacker_stop(&a->unpacker);
	/* One that is being set up has had nothing to do yet: no fresher one could be had, and the READY that
	 * is due says so. Whoever took a clone need not wait for that before he asks. */
	if (a->run.state == RUN_NONE && a->ready.due && !a->warm.due) {
		jobs_ending(&a->jobs, PROTO_HOW_KILLED); /* these may have begun already */
		return 0;
	}
	if (a->run.state != RUN_NONE || a->warm.due) {
		conn_send_failed(&a->conn, h->id, EBUSY, "RESET while something is under way");
		return 0;
	}
	/* Whoever asks for a reset wants to be rid of what earlier runs left behind, and may have to
	 * be: with a fork bomb in the background no interpreter would start. */
	restart(a, h->id);
	jobs_ending(&a->jobs, PROTO_HOW_KILLED);
	killer_start(&a->sweeper, NULL, 0);
	return 0;
}

static int on_warm(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	if (!get_end(in))
		return -EPROTO;
	if (a->run.state != RUN_NONE || a->warm.due) {
		conn_send_failed(&a->conn, h->id, EBUSY, "WARM while something is under way");
		return 0;
	}
	a->warm = (struct debt){true, h->id};
	a->retried = false;
	a->spares.active->warm = false; /* once more, if it was */
	return 0;
}

static int on_run(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct proto_run req;
	int r = proto_run_unpack(in, &req);

	if (r < 0)
		return r;
	if (proto_is_job(h->id))
		return -EPROTO;
	log_tracing(req.flags & PROTO_RUN_TRACE);
	a->traced = h->id;
	r = run_submit(&a->run, h->id, &req);
	log_trace("%u bytes of code have arrived", req.code.len);
	/* It may put something where interpreters look when they start. */
	a->config.loads_other = a->config.loads_other || !(req.flags & PROTO_RUN_TRIAL);
	if (r < 0) {
		log_line("run %u: %s", h->id, strerror(-r));
		run_send_refused(&a->conn, h->id);
	}
	return 0;
}

static int on_author(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	const struct proto_str name = get_str(in, PROTO_ORIGIN_MAX);

	if (!get_end(in) || !name.len)
		return -EPROTO;
	origin_author(&a->files.origin, h->id, name);
	return 0;
}

static int on_learn(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	int r;

	(void)h;
	if (!get_end(in))
		return -EPROTO;
	r = learn_begin(a->env);
	if (r < 0)
		log_line("learning what is used: %s", strerror(-r));
	return 0;
}

static int on_job(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct proto_job req;
	int r = proto_job_unpack(in, &req);

	return r < 0 ? r : jobs_start(&a->jobs, h->id, &req);
}

static int on_job_forget(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct job *j = jobs_find(&a->jobs, h->id);

	if (!get_end(in) || !proto_is_job(h->id))
		return -EPROTO;
	if (j) /* else it has just gone by itself */
		job_forget(j);
	return 0;
}

static int on_job_window(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct job *j = jobs_find(&a->jobs, h->id);
	const uint32_t window = get_u32(in);

	if (!get_end(in) || !proto_is_job(h->id))
		return -EPROTO;
	if (j)
		job_resize(j, window);
	return 0;
}

static int on_stdin(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct proto_str data = get_rest(in);
	struct job *j = jobs_find(&a->jobs, h->id);

	if (data.len > PROTO_DATA_MAX || (h->flags & ~PROTO_F_EOF))
		return -EPROTO;
	/* It may be for a run that ended while the frame was on its way. */
	if (!j && h->id != a->run.id)
		return 0;
	conn_hurry(&a->conn); /* a writer to a running program waits for its answer */
	return stdin_frame(j ? &j->in : &a->run.in, data, h->flags & PROTO_F_EOF);
}

static int on_signal_frame(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct job *j = jobs_find(&a->jobs, h->id);
	uint32_t sig = get_u32(in);
	bool begun = a->run.state != RUN_WAITING;

	if (!get_end(in))
		return -EPROTO;
	if (j)
		return job_signal(j, sig);
	if (sig != PROTO_INTERRUPT && sig != PROTO_KILL)
		return proto_is_job(h->id) ? 0 : -EPROTO;
	if (h->id != a->run.id)
		return 0;
	run_signal(&a->run, (enum proto_signal)sig);
	/* Whether it had begun nobody outside can know: after a kill, all state is gone. */
	if (!begun && sig == PROTO_KILL) {
		a->loss.due = false;
		if (a->spares.active->used)
			agent_restart(a);
	}
	return 0;
}

static int on_credit(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct job *j = jobs_find(&a->jobs, h->id);
	uint32_t bytes = get_u32(in);

	if (!get_end(in))
		return -EPROTO;
	if (j)
		job_credit(j, bytes);
	else if (h->id == a->run.id)
		run_credit(&a->run, bytes);
	return 0;
}

/* Processor time since boot, all but idle and waiting. */
static uint64_t cpu_used_us(void)
{
	uint64_t tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	char text[256], *p = text + 4;
	uint64_t ticks = 0;

	/* "cpu  user nice system idle iowait irq softirq ..." */
	if (proc_text("/proc/stat", text, sizeof(text)) > 0 && strncmp(text, "cpu ", 4) == 0) {
		for (int i = 0; i < 7; i++) {
			uint64_t v = strtoull(p, &p, 10);

			ticks += i == 3 || i == 4 ? 0 : v;
		}
	}
	return ticks * tick;
}

static uint64_t jail_cpu_us(int who)
{
	struct rusage ru;

	if (getrusage(who, &ru) < 0)
		return 0;
	return timeval_us(&ru.ru_utime) + timeval_us(&ru.ru_stime);
}

/* In a jail /proc/meminfo and /proc/stat are the host's. What counts against the limit is memory of
 * processes that is no file's, and files in memory; processor time is that of all that were here. */
static void jail_usage(const struct agent *a, const struct proc_set *set, struct proto_usage *u)
{
	uint64_t used = u->files_used / 1024;

	u->cpu_us = jail_cpu_us(RUSAGE_SELF) + jail_cpu_us(RUSAGE_CHILDREN);
	for (size_t i = 0; i < set->n; i++) {
		clockid_t clock;

		used += proc_private_kib(set->v[i].pid);
		if (clock_getcpuclockid(set->v[i].pid, &clock) == 0)
			u->cpu_us += clock_us(clock);
	}
	u->mem_total_kib = a->env->memory_kib;
	u->mem_available_kib = used < a->env->memory_kib ? a->env->memory_kib - used : 0;
}

static int on_usage(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct proto_usage u = {0};
	struct proc_set set = {0};
	struct frame *f;

	if (!get_end(in))
		return -EPROTO;
	if (!a->env->jail) {
		u.mem_total_kib = proc_number("/proc/meminfo", "MemTotal:", 10);
		u.mem_available_kib = proc_number("/proc/meminfo", "MemAvailable:", 10);
		u.cpu_us = cpu_used_us();
	}
	files_space(&a->files, &u);
	if (proc_children(&set) == 0) {
		for (size_t i = 0; i < set.n; i++)
			u.processes += set.v[i].live;
	}
	if (a->env->jail)
		jail_usage(a, &set, &u);
	proc_set_clear(&set);
	f = frame_new(PROTO_USAGE_REPLY, h->id, 128);
	if (!f)
		return -ENOMEM;
	proto_usage_pack(&f->out, &u);
	conn_send(&a->conn, f);
	return 0;
}

static int on_shutdown(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	(void)h;
	if (!get_end(in))
		return -EPROTO;
	loop_stop(&a->loop, 0);
	return 0;
}

static int on_freeze(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	const uint32_t how = get_u32(in);

	if (!get_end(in))
		return -EPROTO;
	switch (how) {
	case PROTO_THAW: freeze_end(a); return 0;
	case PROTO_FREEZE_ALL: freeze_ask(a, h->id, h->flags & PROTO_F_WHO); return 0;
	case PROTO_FREEZE_PREPARE: freeze_prepare(a, h->id); return 0;
	case PROTO_THAW_CHECKED: freeze_end_checked(a, h->id); return 0;
	default: return -EPROTO;
	}
}

/* Is there anything under way, of which a copy would know the half? */
static bool is_busy(const struct agent *a)
{
	return a->run.state != RUN_NONE || a->hello.due || a->ready.due || a->warm.due ||
	       a->frozen.due || a->sweeper.active || jobs_active(&a->jobs);
}

static int on_point(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	struct frame *f;
	bool busy;

	if (!get_end(in))
		return -EPROTO;
	f = frame_new(PROTO_POINTED, h->id, 4);
	if (!f)
		return -ENOMEM;
	busy = is_busy(a);
	put_u32(&f->out, busy ? EBUSY : 0);
	if (busy)
		conn_send(&a->conn, f);
	else
		conn_send_last(&a->conn, f);
	return 0;
}

static int on_lease(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	if (!get_end(in))
		return -EPROTO;
	lease_ask(a, h->id);
	return 0;
}

static int on_rest(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	if (!get_end(in))
		return -EPROTO;
	still_ask(a, h->id);
	return 0;
}

static int on_wake(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	const uint64_t realtime_ns = get_u64(in);
	int r = 0;

	(void)h;
	if (!get_end(in))
		return -EPROTO;
	if (a->env->guest && !has_own_clock(a))
		r = clock_set(realtime_ns);
	if (r < 0)
		log_line("setting the clock: %s", strerror(-r));
	return 0;
}

static int on_resume(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	const uint32_t version = get_u32(in), number = get_u32(in);

	if (!get_end(in) || version < PROTO_VERSION_OLDEST || !conn_has_sent(&a->conn, number))
		return -EPROTO;
	log_trace("another host goes on");
	a->tells_who = false; /* an older one does not understand that */
	return resume_answer(a, h->id);
}

static int on_files(struct agent *a, const struct proto_header *h, const uint8_t *payload)
{
	struct proto_in answer;
	uint64_t handle = 0;
	uint32_t error = 0;
	struct frame *reply;
	int r = files_request(&a->files, h, payload, &reply);

	if (r < 0)
		return r;
	if (reply) {
		answer =
			(struct proto_in){reply->out.data, reply->out.data + reply->out.len, false};
		error = get_u32(&answer);
		handle = h->type == PROTO_F_OPEN ? get_u64(&answer) : 0;
		watch_drain(&a->files.watch);
		conn_send(&a->conn, reply);
	}
	if (a->files.leased && !error)
		files_note(&a->files, &a->conn, h, payload, handle);
	return 0;
}

static int on_watch(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	const uint32_t on = get_u32(in);

	(void)h;
	if (!get_end(in) || on > 1)
		return -EPROTO;
	watch_set(&a->files.watch, on);
	return 0;
}

static int on_pack(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	const uint64_t bytes = get_u64(in);
	const uint32_t entries = get_u32(in);

	if (!get_end(in))
		return -EPROTO;
	packer_start(&a->packer, h->id, bytes, entries,
		     h->flags & (PROTO_F_NUMBERS | PROTO_F_ORIGINS));
	return 0;
}

static int on_unpack(struct agent *a, const struct proto_header *h, struct proto_in *in)
{
	const struct proto_str data = get_rest(in);

	if (h->flags & PROTO_F_FIRST) {
		if (data.len || h->flags != PROTO_F_FIRST)
			return -EPROTO;
		unpacker_start(&a->unpacker, h->id);
		return 0;
	}
	if (h->flags & ~PROTO_F_EOF)
		return -EPROTO;
	return unpacker_data(&a->unpacker, h->id, data, h->flags & PROTO_F_EOF);
}

typedef int (*frame_fn)(struct agent *a, const struct proto_header *h, struct proto_in *in);

static const frame_fn handlers[] = {
	[PROTO_HELLO] = on_hello,
	[PROTO_PING] = on_ping,
	[PROTO_SETUP] = on_setup,
	[PROTO_RUN] = on_run,
	[PROTO_STDIN] = on_stdin,
	[PROTO_SIGNAL] = on_signal_frame,
	[PROTO_CREDIT] = on_credit,
	[PROTO_RESET] = on_reset,
	[PROTO_USAGE] = on_usage,
	[PROTO_SHUTDOWN] = on_shutdown,
	[PROTO_WARM] = on_warm,
	[PROTO_CLOCK] = on_clock,
	[PROTO_TRUST] = on_trust,
	[PROTO_FREEZE] = on_freeze,
	[PROTO_LEASE] = on_lease,
	[PROTO_JOB] = on_job,
	[PROTO_JOB_FORGET] = on_job_forget,
	[PROTO_JOB_WINDOW] = on_job_window,
	[PROTO_WATCH] = on_watch,
	[PROTO_PACK] = on_pack,
	[PROTO_UNPACK] = on_unpack,
	[PROTO_REST] = on_rest,
	[PROTO_WAKE] = on_wake,
	[PROTO_POINT] = on_point,
	[PROTO_RESUME] = on_resume,
	[PROTO_AUTHOR] = on_author,
	[PROTO_LEARN] = on_learn,
};

static int on_frame(struct conn *c, const struct proto_header *h, const uint8_t *payload)
{
	struct agent *a = container_of(c, struct agent, conn);
	struct proto_in in = {payload, payload + h->length, false};
	int r = -EPROTO;

	if (!proto_keeps_lease(h->type))
		lease_drop(a);
	still_drop(a);
	if (h->type < ARRAY_SIZE(handlers) && handlers[h->type])
		r = handlers[h->type](a, h, &in);
	else if (h->type >= PROTO_F_LOOKUP && h->type <= PROTO_F_ORIGIN)
		r = on_files(a, h, payload);
	if (r < 0)
		log_line("frame %s (%u) of %u bytes: %s", proto_type_name(h->type), h->type,
			 h->length, strerror(-r));
	return r;
}

int server_run(struct agent *a)
{
	a->conn.on_frame = on_frame;
	return loop_run(&a->loop);
}
