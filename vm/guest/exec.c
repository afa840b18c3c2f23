/* SPDX-License-Identifier: Apache-2.0 */
/* Executes runs in a guest: sends code and input, receives output and result. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "vm/jail/cgroup_stat.h"
#include "internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"

/* After a run, before the guest is asked what it uses: the next run comes first. */
#define QUIET_MS      200

#define STATUS_KILLED 137

static const char *const outcome_str[] = {
	[VM_DONE] = "done", [VM_TIMEOUT] = "timeout", [VM_KILLED] = "killed",
	[VM_OOM] = "oom",   [VM_LOST] = "lost",	      [VM_REFUSED] = "refused",
};
static_assert(ARRAY_SIZE(outcome_str) == VM_NOUTCOMES, "a name for each outcome");

const char *vm_outcome_str(enum vm_outcome outcome)
{
	return outcome_str[outcome];
}

/* ---- the end of a run ---- */

/* Ends the active run. The owner may start the next one at once. */
static void finish(struct guest *g, struct vm_result *result)
{
	const uint32_t id = g->exec.id;

	log_trace(&g->label, "guest", "the run has ended: %s, status %u, %u.%u ms in the sandbox",
		  outcome_str[result->outcome], result->status, (unsigned)(result->wall_us / 1000),
		  (unsigned)(result->wall_us / 100 % 10));
	dispatch_end_trace(g);
	g->label.run = 0;
	g->label.began = 0;
	result->reached = g->exec.reached;
	memset(&g->exec, 0, sizeof(g->exec));
	g->late.on = false;
	tell_owner(g, exit, id, result);
}

static void outcome_known(struct vm_result *r, enum vm_outcome outcome)
{
	r->outcome = outcome;
	r->fresh = true;
	r->status = outcome == VM_TIMEOUT ? 124 : STATUS_KILLED;
}

bool exec_sent(const struct guest *g, const struct exec *x)
{
	return channel_has_sent(&g->channel, x->ticket);
}

void exec_abandon(struct guest *g)
{
	const bool sent = exec_sent(g, &g->exec);
	struct vm_result r = {.outcome = sent ? VM_LOST : VM_REFUSED, .fresh = true};

	if (!g->exec.id)
		return;
	if (g->asked)
		problem_set(&r.problem, PROBLEM_CLOSED, "", "the sandbox was closed %s",
			    sent ? "during the run" : "before the run began");
	else
		r.problem = g->problem;
	if (g->exec.settled)
		outcome_known(&r, g->exec.outcome);
	finish(g, &r);
}

static_assert(EXEC_LATE_MS > PROTO_GIVE_UP_MS, "an agent that gives up is heard");

/* From now on it is late. */
static void begin_late(struct guest *g)
{
	starved_begin(&g->late, g);
	guest_deadline(g, STARVED_STEP_MS);
}

/* What waits for output that is held does not wait for a processor. */
bool exec_late_over(const struct guest *g, const struct exec *x, struct starved *late)
{
	return starved_over(late, g, EXEC_LATE_MS) ||
	       (x->held && !x->late && late->all_ms >= EXEC_LATE_MS);
}

/* The run has not ended in time. On a busy host, or with a fork bomb in it, a guest needs a while to end a run, so a
 * late agent is not a dead one. It gives up by itself, and reports that, before EXEC_LATE_MS of its time have passed. */
void exec_overdue(struct guest *g)
{
	if (!g->exec.id) {
		if (g->usage_stale)
			guest_ask_usage(g);
		return;
	}
	if (!g->late.on) {
		begin_late(g);
		return;
	}
	if (!exec_late_over(g, &g->exec, &g->late)) {
		guest_deadline(g, STARVED_STEP_MS);
		return;
	}
	if (g->exec.held && !g->exec.late) { /* held output may have kept it from ending */
		guest_hold(g, false);
		g->exec.late = true;
		begin_late(g);
		return;
	}
	g->exec.settled = true;
	g->exec.outcome = g->exec.killing ? VM_KILLED : VM_TIMEOUT;
	guest_failf(g, PROBLEM_AGENT_SILENT, "Reset the session; what the run had written is kept.",
		    "the agent in the sandbox was to end the run, and has not for %u s",
		    (unsigned)(g->late.all_ms / 1000));
}

void exec_out_of_memory(struct guest *g)
{
	if (!exec_sent(g, &g->exec))
		return; /* it never ran */
	g->exec.settled = true;
	g->exec.outcome = VM_OOM;
}

uint64_t exec_oom_kills(const struct guest *g)
{
	struct backend_info b = {0};

	if (g->backend)
		g->ops->info(g->backend, &b);
	return b.stats ? cgroup_stat_note_oom(b.stats) : 0;
}

void exec_look(struct guest *g)
{
	/* Who was killed just before the last heartbeat may still be ending. */
	jobs_note_oom(g, g->oom_look);
	g->oom_look = exec_oom_kills(g);
}

/* Explains why the interpreter has ended between two runs. */
static void explain_gone(const struct guest *g, const struct proto_exit *e, struct problem *ret_p)
{
	const bool oom = e->gone == PROTO_GONE_OOM ||
			 (e->gone == PROTO_GONE_SIGNAL && e->status == SIGKILL &&
			  g->exec.oom_kills > g->oom_kills);

	problem_set(ret_p, PROBLEM_INTERPRETER_GONE,
		    "Run again what had set the variables: the next run has a fresh interpreter.",
		    "the interpreter, and with it the state of earlier runs, was gone before the "
		    "run began: ");
	if (oom)
		problem_add(ret_p, "the sandbox's %u MiB of memory were not enough",
			    g->spec.memory_mb);
	else if (e->gone == PROTO_GONE_SIGNAL)
		problem_add(ret_p, "it was killed by signal %u (%s)", e->status,
			    strsignal((int)e->status));
	else if (e->gone == PROTO_GONE_EXITED)
		problem_add(ret_p, "it had ended with status %u", e->status);
	else
		problem_add(ret_p, "it had let go of its connection to the agent, and was ended");
}

/* Notes which limits of files/ were reached: the run may be looked at before the next answer about usage. */
static void note_full(struct guest *g, uint8_t flags)
{
	const unsigned full = flags & (VM_REACHED_FILES | VM_REACHED_INODES);

	g->exec.reached |= full;
	g->usage.reached &= ~(VM_REACHED_FILES | VM_REACHED_INODES);
	g->usage.reached |= full;
}

int exec_take_exit(struct proto_in *in, struct proto_exit *ret_e, struct vm_result *ret_r)
{
	static const enum vm_outcome outcome[] = {
		[PROTO_HOW_DONE] = VM_DONE,	    [PROTO_HOW_TIMEOUT] = VM_TIMEOUT,
		[PROTO_HOW_KILLED] = VM_KILLED,	    [PROTO_HOW_OOM] = VM_OOM,
		[PROTO_HOW_REFUSED] = VM_REFUSED,   [PROTO_HOW_GONE] = VM_REFUSED,
		[PROTO_HOW_NOT_TAKEN] = VM_REFUSED, [PROTO_HOW_LOST] = VM_LOST,
	};
	const int r = proto_exit_unpack(in, ret_e);

	static_assert(ARRAY_SIZE(outcome) == PROTO_NHOW, "an outcome for each");
	if (r < 0)
		return r;
	*ret_r = (struct vm_result){
		.outcome = outcome[ret_e->how],
		.status = ret_e->status,
		.wall_us = ret_e->wall_us,
		.user_us = ret_e->user_us,
		.system_us = ret_e->system_us,
		.maxrss_kib = ret_e->maxrss_kib,
		.dropped = {ret_e->dropped[0], ret_e->dropped[1]},
		.read_bytes = ret_e->read_bytes,
		.written_bytes = ret_e->written_bytes,
	};
	return 0;
}

/* The agent of a jail is not told of the OOM killer; the control group's counter is. */
uint64_t exec_see_oom(const struct guest *g, const struct exec *x, struct vm_result *r)
{
	const uint64_t kills = exec_oom_kills(g);

	if (r->outcome == VM_DONE && r->status == STATUS_KILLED && kills > x->oom_kills)
		r->outcome = VM_OOM;
	return kills;
}

void exec_explain_memory(const struct guest *g, struct vm_result *r)
{
	if (r->outcome == VM_OOM)
		problem_set(&r->problem, PROBLEM_OUT_OF_MEMORY,
			    "Give the session more memory (memory_mb).",
			    "the sandbox's %u MiB of memory were not enough", g->spec.memory_mb);
}

static void explain_not_taken(const struct exec *x, int error, struct problem *p)
{
	if (!x->place || error == EMFILE || error == ENOMEM)
		problem_set(p, PROBLEM_NOT_TAKEN,
			    "echo reset > ctl gives the session an interpreter that can.",
			    "the interpreter could not take the run: %s", strerror(error));
	else if (error == EPERM)
		problem_set(p, PROBLEM_NOT_TAKEN, "Take another name.",
			    "a variable of the run is one that the shell can't change");
	else
		problem_set(p, PROBLEM_NOT_TAKEN, "Name a directory that is there.",
			    "the run could not begin in its cwd: %s", strerror(error));
}

int exec_on_exit(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	struct vm_result r;
	struct proto_exit e;
	uint64_t kills;

	if (!g->exec.id || h->id != g->exec.id || !exec_sent(g, &g->exec) ||
	    exec_take_exit(in, &e, &r) < 0 || r.outcome == VM_LOST) /* is of jobs */
		return -EPROTO;
	note_full(g, h->flags);
	kills = exec_see_oom(g, &g->exec, &r);
	if (r.outcome == VM_TIMEOUT || r.outcome == VM_KILLED || r.outcome == VM_OOM)
		outcome_known(&r, r.outcome);
	r.fresh = e.fresh; /* not if it was killed before it began: the interpreter is as it was */
	exec_explain_memory(g, &r);
	if (e.how == PROTO_HOW_GONE)
		explain_gone(g, &e, &r.problem);
	else if (e.how == PROTO_HOW_NOT_TAKEN)
		explain_not_taken(&g->exec, (int)e.status, &r.problem);
	else if (r.outcome == VM_REFUSED)
		problem_set(&r.problem, PROBLEM_NO_INTERPRETER,
			    "Try again; see the session's console.",
			    "the sandbox had no interpreter for the run, and could not start one");
	g->oom_kills = kills;
	g->usage_stale = true;
	guest_deadline(g, QUIET_MS);
	finish(g, &r);
	return 0;
}

/* ---- output ---- */

/* @n bytes of output were consumed: permits the agent to send as many more, in large steps. */
static void grant(struct guest *g, struct exec *x, uint32_t n)
{
	x->consumed += n;
	if (x->held || x->consumed < EXEC_WINDOW / 2)
		return;
	if (channel_send_u32(&g->channel, PROTO_CREDIT, x->id, x->consumed) < 0)
		return;
	x->credit += x->consumed;
	x->consumed = 0;
}

void exec_beat(struct guest *g, struct exec *x)
{
	if (x->id)
		grant(g, x, 0);
}

void exec_hold(struct guest *g, struct exec *x, bool hold)
{
	if (!x->id || x->held == hold || x->late)
		return;
	x->held = hold;
	if (!hold)
		grant(g, x, 0);
}

void guest_hold(struct guest *g, bool hold)
{
	exec_hold(g, &g->exec, hold);
}

int exec_on_output(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	return exec_take_output(g, &g->exec, h, in);
}

int exec_take_output(struct guest *g, struct exec *x, const struct proto_header *h,
		     struct proto_in *in)
{
	const uint32_t sequence = get_u32(in);
	const struct proto_str bytes = get_rest(in);
	enum vm_stream stream;

	if (in->bad || !x->id || h->id != x->id || !exec_sent(g, x) || sequence != x->sequence ||
	    (h->flags != PROTO_STDOUT && h->flags != PROTO_STDERR))
		return -EPROTO;
	stream = h->flags == PROTO_STDOUT ? VM_STDOUT : VM_STDERR;
	if (bytes.len > x->credit || bytes.len > x->limit[stream] - x->got[stream])
		return -EPROTO;
	if (!x->sequence++)
		log_trace(&g->label, "guest", "first output, %u bytes of %s", bytes.len,
			  stream == VM_STDOUT ? "stdout" : "stderr");
	x->credit -= bytes.len;
	x->got[stream] += bytes.len;
	if (bytes.len)
		tell_owner(g, output, x->id, stream, bytes.data, bytes.len);
	if (g->phase !=
	    GUEST_ENDING) /* also while a reset ends jobs: their end is behind their output */
		grant(g, x, bytes.len);
	return 0;
}

/* ---- the seam ---- */

void exec_name(struct guest *g, uint32_t id, const char *author)
{
	struct channel_frame *f;

	if (!author || g->version < PROTO_VERSION_ORIGIN)
		return;
	f = channel_frame_new(PROTO_AUTHOR, id, 4 + strlen(author));
	if (!f)
		return; /* then it is nobody */
	put_str(&f->out, proto_cstr(author));
	channel_push(&g->channel, f, CHANNEL_CONTROL);
}

static void exec_init(struct exec *x, const struct sandbox_run *run)
{
	*x = (struct exec){
		.id = run->id,
		.timeout_ms = run->timeout_ms,
		.limit = {run->limit[VM_STDOUT], run->limit[VM_STDERR]},
		.credit = EXEC_WINDOW,
		.stdin_open = run->input,
		.place = run->cwd || run->env.len,
	};
}

int guest_run(struct guest *g, const struct sandbox_run *run)
{
	const struct proto_run r = {
		.flags = (run->input ? PROTO_RUN_STDIN : 0) |
			 (log_has(LOG_LEVEL_DEBUG) ? PROTO_RUN_TRACE : 0),
		.timeout_ms = run->timeout_ms,
		.grace_ms = run->grace_ms,
		.limit = {run->limit[VM_STDOUT], run->limit[VM_STDERR]},
		.credit = EXEC_WINDOW,
		.code = {run->code, (uint32_t)run->code_len},
		.cwd = proto_cstr(run->cwd ? run->cwd : ""),
		.env = run->env,
	};
	struct channel_frame *f;

	assert(run->id);
	if (g->phase != GUEST_UP || g->exec.id)
		return -EBUSY;
	if (run->code_len > PROTO_CODE_MAX)
		return -EFBIG;
	f = channel_frame_new(PROTO_RUN, run->id, run->code_len + r.cwd.len + r.env.len + 72);
	if (!f)
		return -ENOMEM;
	exec_init(&g->exec, run);
	g->label.run = run->id;
	g->label.began = run->began;
	g->trace.run = run->id;
	g->trace.asked = log_now();
	log_trace(&g->label, "guest", "sends the code, %zu bytes", run->code_len);
	g->exec.oom_kills = exec_oom_kills(g);
	proto_run_pack(&f->out, &r);
	exec_name(g, run->id, run->author);
	g->exec.ticket = channel_push(&g->channel, f, CHANNEL_CONTROL);
	g->late.on = false;
	guest_deadline(g, run->timeout_ms ? (uint64_t)run->timeout_ms + run->grace_ms : 0);
	return 0;
}

int guest_signal(struct guest *g, uint32_t id, enum sandbox_signal sig)
{
	const uint32_t wire = sig == SANDBOX_KILL ? PROTO_KILL : PROTO_INTERRUPT;

	if (g->phase != GUEST_UP || id != g->exec.id || !id)
		return -ESRCH;
	log_trace(&g->label, "guest", "is to be %s",
		  sig == SANDBOX_KILL ? "killed" : "interrupted");
	if (channel_send_u32(&g->channel, PROTO_SIGNAL, id, wire) < 0)
		return -ENOMEM;
	if (sig == SANDBOX_KILL && !g->exec.killing) {
		g->exec.killing = true;
		guest_hold(g, false);
		g->exec.late = true; /* unread output must not keep it from ending */
		begin_late(g);
	}
	return 0;
}
