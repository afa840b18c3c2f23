/* SPDX-License-Identifier: Apache-2.0 */
/* A run's way through a sandbox: code and input in, output and result out. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "vm/jail/cgroup_stat.h"
#include "internal.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

#define OUTPUT_WINDOW	(1u << 20)   /* bytes of output under way at most */
#define STDIN_QUEUE_MAX (512u << 10) /* bytes of input queued at most */
#define LATE_MS		25000u	     /* what the agent may take on top of a run's own time */
#define QUIET_MS \
	200 /* after a run, before the guest is asked what it uses: the next run comes first */

#define STATUS_KILLED 137

/* ---- the end of a run ---- */

/* Ends the active run. Callbacks may start the next one. */
static void finish(struct sandbox *s, struct vm_result *result)
{
	const uint32_t id = s->turn.id;

	result->reached = s->turn.reached;
	/* Whoever waits for RUNNING hears of it before the end. */
	if (s->reported == SANDBOX_READY && s->state == SANDBOX_RUNNING)
		sandbox_work(s);
	memset(&s->turn, 0, sizeof(s->turn));
	slots_release(&s->vm->slots, &s->slot);
	if (s->vm->slots.waiting)
		context_wake(&s->vm->ctx);
	if (s->state == SANDBOX_RUNNING)
		sandbox_set_state(s, SANDBOX_READY);
	s->events->exit(s->data, id, result);
}

static void outcome_known(struct vm_result *r, enum vm_outcome outcome)
{
	r->outcome = outcome;
	r->fresh = true;
	r->status = outcome == VM_TIMEOUT ? 124 : STATUS_KILLED;
}

void turn_abandon(struct sandbox *s)
{
	struct vm_result r = {.outcome = s->turn.sent ? VM_LOST : VM_REFUSED, .fresh = true};

	if (!s->turn.id)
		return;
	if (s->asked)
		problem_set(&r.problem, "closed", "", "the sandbox was closed %s",
			    s->turn.sent ? "during the run" : "before the run began");
	else
		r.problem = s->problem;
	if (s->turn.settled)
		outcome_known(&r, s->turn.outcome);
	finish(s, &r);
}

static_assert(LATE_MS > PROTO_GIVE_UP_MS, "an agent that gives up is heard");

/* On a busy host, or with a fork bomb in it, a sandbox has a lot to do before the end, and an agent that
 * is late is not a silent one. It gives up by itself, and says so, before it is LATE_MS late. */
void turn_overdue(struct sandbox *s)
{
	struct problem p;

	if (!s->turn.id) {
		if (s->usage_stale)
			sandbox_ask_usage(s);
		return;
	}
	if (s->turn.held && !s->turn.late) { /* it could not: what it had printed was in its way */
		sandbox_hold(s, false);
		s->turn.late = true;
		sandbox_deadline(s, LATE_MS);
		return;
	}
	s->turn.settled = true;
	s->turn.outcome = s->turn.killing ? VM_KILLED : VM_TIMEOUT;
	problem_set(&p, "agent-silent", "Reset the session; what the run had written is kept.",
		    "the agent in the sandbox was to end the run, and has not for %u s",
		    LATE_MS / 1000);
	sandbox_fail(s, &p);
}

void turn_out_of_memory(struct sandbox *s)
{
	if (!s->turn.sent)
		return; /* it never ran */
	s->turn.settled = true;
	s->turn.outcome = VM_OOM;
}

/* How many of its processes were killed for want of memory so far; 0 where nobody counts. */
static uint64_t oom_kills(const struct sandbox *s)
{
	struct backend_info b = {0};

	if (s->backend)
		s->ops->info(s->backend, &b);
	return b.stats ? cgroup_stat_note_oom(b.stats) : 0;
}

void turn_look(struct sandbox *s)
{
	(void)oom_kills(s);
}

/* What became of the interpreter between two runs. */
static void explain_gone(const struct sandbox *s, const struct proto_exit *e, struct problem *ret_p)
{
	const bool oom = e->gone == PROTO_GONE_OOM ||
			 (e->gone == PROTO_GONE_SIGNAL && e->status == SIGKILL &&
			  s->turn.oom_kills > s->oom_kills);

	problem_set(ret_p, "interpreter-gone",
		    "Run again what had set the variables: the next run has a fresh interpreter.",
		    "the interpreter, and with it the state of earlier runs, was gone before the "
		    "run began: ");
	if (oom)
		problem_add(ret_p, "the sandbox's %u MiB of memory were not enough", s->memory_mb);
	else if (e->gone == PROTO_GONE_SIGNAL)
		problem_add(ret_p, "it was killed by signal %u (%s)", e->status,
			    strsignal((int)e->status));
	else if (e->gone == PROTO_GONE_EXITED)
		problem_add(ret_p, "it had ended with status %u", e->status);
	else
		problem_add(ret_p, "it had let go of its connection to the agent, and was ended");
}

/* The run may be looked at before the guest has been asked. */
static void note_full(struct sandbox *s, uint8_t flags)
{
	unsigned full = 0;

	if (flags & PROTO_FULL_FILES)
		full |= VM_REACHED_FILES;
	if (flags & PROTO_FULL_INODES)
		full |= VM_REACHED_INODES;
	s->turn.reached |= full;
	s->usage.reached &= ~(VM_REACHED_FILES | VM_REACHED_INODES);
	s->usage.reached |= full;
}

int turn_on_exit(struct sandbox *s, const struct proto_header *h, struct proto_in *in)
{
	static const enum vm_outcome outcome[] = {
		[PROTO_HOW_DONE] = VM_DONE,	    [PROTO_HOW_TIMEOUT] = VM_TIMEOUT,
		[PROTO_HOW_KILLED] = VM_KILLED,	    [PROTO_HOW_OOM] = VM_OOM,
		[PROTO_HOW_REFUSED] = VM_REFUSED,   [PROTO_HOW_GONE] = VM_REFUSED,
		[PROTO_HOW_NOT_TAKEN] = VM_REFUSED,
	};
	struct vm_result r = {0};
	struct proto_exit e;
	uint64_t kills;

	static_assert(ARRAY_SIZE(outcome) == PROTO_NHOW, "an outcome for each");
	if (!s->turn.id || h->id != s->turn.id || proto_exit_unpack(in, &e) < 0)
		return -EPROTO;
	note_full(s, h->flags);
	r.outcome = outcome[e.how];
	/* An agent beside us is not told whom the kernel kills, and why. */
	kills = oom_kills(s);
	if (r.outcome == VM_DONE && e.status == STATUS_KILLED && kills > s->turn.oom_kills)
		r.outcome = VM_OOM;
	r.status = e.status;
	r.wall_us = e.wall_us;
	r.user_us = e.user_us;
	r.system_us = e.system_us;
	r.maxrss_kib = e.maxrss_kib;
	r.dropped[VM_STDOUT] = e.dropped[0];
	r.dropped[VM_STDERR] = e.dropped[1];
	if (r.outcome == VM_TIMEOUT || r.outcome == VM_KILLED || r.outcome == VM_OOM)
		outcome_known(&r, r.outcome);
	r.fresh = e.fresh; /* what was killed before it began has harmed nothing */
	if (r.outcome == VM_OOM)
		problem_set(&r.problem, PROBLEM_OOM, "Give the session more memory (memory_mb).",
			    "the sandbox's %u MiB of memory were not enough", s->memory_mb);
	if (e.how == PROTO_HOW_GONE)
		explain_gone(s, &e, &r.problem);
	else if (e.how == PROTO_HOW_NOT_TAKEN)
		problem_set(&r.problem, "not-taken",
			    "echo reset > ctl gives the session an interpreter that can.",
			    "the interpreter could not take the run: %s", strerror((int)e.status));
	else if (r.outcome == VM_REFUSED)
		problem_set(&r.problem, "no-interpreter", "Try again; see the session's console.",
			    "the sandbox had no interpreter for the run, and could not start one");
	s->oom_kills = kills;
	s->usage_stale = true;
	sandbox_deadline(s, QUIET_MS);
	finish(s, &r);
	return 0;
}

/* ---- output ---- */

/* Grants anew what was taken, in large pieces. */
static void grant(struct sandbox *s, uint32_t n)
{
	struct turn *t = &s->turn;
	uint8_t wire[4];
	struct proto_out o = {wire, 0, sizeof(wire), false};

	t->consumed += n;
	if (t->held || t->consumed < OUTPUT_WINDOW / 2)
		return;
	put_u32(&o, t->consumed);
	if (channel_send(&s->channel, PROTO_CREDIT, t->id, wire, sizeof(wire)) < 0)
		return;
	t->credit += t->consumed;
	t->consumed = 0;
}

void sandbox_hold(struct sandbox *s, bool hold)
{
	if (!s->turn.id || s->turn.held == hold || s->turn.late)
		return;
	s->turn.held = hold;
	if (!hold && s->state == SANDBOX_RUNNING)
		grant(s, 0);
}

int turn_on_output(struct sandbox *s, const struct proto_header *h, struct proto_in *in)
{
	const uint32_t sequence = get_u32(in);
	const struct proto_str bytes = get_rest(in);
	struct turn *t = &s->turn;
	enum vm_stream stream;

	if (in->bad || !t->id || h->id != t->id || sequence != t->sequence ||
	    (h->flags != PROTO_STDOUT && h->flags != PROTO_STDERR))
		return -EPROTO;
	stream = h->flags == PROTO_STDOUT ? VM_STDOUT : VM_STDERR;
	if (bytes.len > t->credit || bytes.len > t->limit[stream] - t->got[stream])
		return -EPROTO;
	t->sequence++;
	t->credit -= bytes.len;
	t->got[stream] += bytes.len;
	if (bytes.len)
		s->events->output(s->data, t->id, stream, bytes.data, bytes.len);
	if (s->state == SANDBOX_RUNNING)
		grant(s, bytes.len);
	return 0;
}

/* ---- input ---- */

int turn_on_stdin_credit(struct sandbox *s, const struct proto_header *h, struct proto_in *in)
{
	const uint32_t n = get_u32(in);

	if (!get_end(in))
		return -EPROTO;
	/* The run may have ended meanwhile. */
	if (h->id == s->turn.id) {
		s->turn.stdin_credit += n;
		turn_pump_stdin(s);
	}
	return 0;
}

/* Sends one piece. Return: false if there is nothing (more) that may be sent. */
static bool send_stdin(struct sandbox *s)
{
	struct turn *t = &s->turn;
	size_t n = MIN(t->stdin_len - t->stdin_sent, (size_t)PROTO_DATA_MAX);
	struct channel_frame *f;

	n = MIN(n, t->stdin_credit);
	if (n == 0 && t->stdin_sent < t->stdin_len)
		return false;
	f = channel_frame_new(PROTO_STDIN, t->id, n);
	if (!f)
		return false;
	put_bytes(&f->out, t->stdin_data + t->stdin_sent, n);
	t->stdin_sent += n;
	t->stdin_credit -= n;
	if (t->stdin_sent == t->stdin_len) {
		f->header.flags = PROTO_F_EOF;
		t->stdin_open = false;
	}
	channel_push(&s->channel, f, CHANNEL_BULK);
	return t->stdin_open;
}

void turn_pump_stdin(struct sandbox *s)
{
	struct turn *t = &s->turn;

	while (t->id && t->stdin_open && s->channel.queued[CHANNEL_BULK] < STDIN_QUEUE_MAX) {
		if (!send_stdin(s))
			return;
	}
}

/* ---- the seam ---- */

static void turn_init(struct turn *t, const struct sandbox_run *run)
{
	*t = (struct turn){
		.id = run->id,
		.timeout_ms = run->timeout_ms,
		.limit = {run->limit[VM_STDOUT], run->limit[VM_STDERR]},
		.credit = OUTPUT_WINDOW,
		.stdin_data = run->stdin_data,
		.stdin_len = run->stdin_len,
		.stdin_open = run->stdin_data,
	};
}

int sandbox_run(struct sandbox *s, const struct sandbox_run *run)
{
	const struct proto_run r = {
		.flags = run->stdin_data ? PROTO_RUN_STDIN : 0,
		.timeout_ms = run->timeout_ms,
		.grace_ms = run->grace_ms,
		.limit = {run->limit[VM_STDOUT], run->limit[VM_STDERR]},
		.credit = OUTPUT_WINDOW,
		.code = {run->code, (uint32_t)run->code_len},
	};
	struct channel_frame *f;

	assert(run->id);
	if (s->state != SANDBOX_READY)
		return -EBUSY;
	if (run->code_len > PROTO_CODE_MAX)
		return -EFBIG;
	if (!slots_take(&s->vm->slots, &s->slot, uv_now(s->vm->ctx.loop))) {
		context_wake(&s->vm->ctx);
		return -EAGAIN;
	}
	f = channel_frame_new(PROTO_RUN, run->id, run->code_len + 64);
	if (!f) {
		slots_release(&s->vm->slots, &s->slot);
		return -ENOMEM;
	}
	turn_init(&s->turn, run);
	s->turn.oom_kills = oom_kills(s);
	proto_run_pack(&f->out, &r);
	f->started = &s->turn.sent;
	channel_push(&s->channel, f, CHANNEL_CONTROL);
	turn_pump_stdin(s);
	sandbox_deadline(s,
			 run->timeout_ms ? (uint64_t)run->timeout_ms + run->grace_ms + LATE_MS : 0);
	sandbox_set_state(s, SANDBOX_RUNNING);
	return 0;
}

int sandbox_signal(struct sandbox *s, uint32_t id, enum sandbox_signal sig)
{
	uint8_t wire[4];
	struct proto_out o = {wire, 0, sizeof(wire), false};

	if (s->state != SANDBOX_RUNNING || id != s->turn.id || !id)
		return -ESRCH;
	put_u32(&o, sig == SANDBOX_KILL ? PROTO_KILL : PROTO_INTERRUPT);
	if (channel_send(&s->channel, PROTO_SIGNAL, id, wire, sizeof(wire)) < 0)
		return -ENOMEM;
	if (sig == SANDBOX_KILL && !s->turn.killing) {
		s->turn.killing = true;
		sandbox_hold(s, false);
		s->turn.late = true; /* what it has printed must not be in its way */
		sandbox_deadline(s, LATE_MS);
	}
	return 0;
}
