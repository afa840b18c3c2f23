/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a guest's frames and dispatches them. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "vm/base/aim.h"
#include "vm/base/blackbox.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"

static int on_log(struct guest *g, struct proto_in *in)
{
	const struct proto_str bytes = get_rest(in);

	if (bytes.len) {
		tail_add(&g->console, bytes.data, bytes.len);
		tell_owner(g, console, bytes.data, bytes.len);
	}
	return 0;
}

static void tell_lost(const struct guest *g, unsigned lost)
{
	log_trace(&g->label, "guest", "%u line%s of the agent's %s left out", lost,
		  lost == 1 ? "" : "s", lost == 1 ? "is" : "are");
}

void dispatch_end_trace(struct guest *g)
{
	if (g->trace.lost)
		tell_lost(g, g->trace.lost);
	g->trace.lost = 0;
}

static int on_traced(struct guest *g, uint32_t id, struct proto_in *in)
{
	struct agent_trace_line line;
	const int r = agent_trace_take(&g->trace, id, in, log_now(), &line);

	if (r <= 0)
		return r;
	if (line.lost)
		tell_lost(g, line.lost);
	log_heard(LOG_LEVEL_DEBUG, &g->label, "agent", line.at, line.text);
	return 0;
}

static unsigned reached(const struct guest *g, const struct sandbox_usage *u)
{
	unsigned r = 0;

	if (u->files_total && u->files_used >= u->files_total)
		r |= VM_REACHED_FILES;
	if (u->inodes_total && u->inodes_used >= u->inodes_total)
		r |= VM_REACHED_INODES;
	if (g->spec.limits.processes && u->processes >= g->spec.limits.processes)
		r |= VM_REACHED_PROCESSES;
	return r;
}

static int on_usage(struct guest *g, struct proto_in *in)
{
	struct proto_usage u;

	if (proto_usage_unpack(in, &u) < 0)
		return -EPROTO;
	g->usage = (struct sandbox_usage){
		.mem_total_kib = u.mem_total_kib,
		.mem_available_kib = u.mem_available_kib,
		.cpu_us = u.cpu_us,
		.files_used = u.files_used,
		.files_total = u.files_total,
		.inodes_used = u.inodes_used,
		.inodes_total = u.inodes_total,
		.processes = u.processes,
	};
	g->usage.reached = reached(g, &g->usage);
	g->exec.reached |= exec_sent(g, &g->exec) ? g->usage.reached : 0;
	g->usage_known = true;
	return 0;
}

/* A reason that only newer agents know is none. */
static struct guest_unstopped take_unstopped(struct proto_in *in)
{
	const uint32_t why = get_u32(in), pid = get_u32(in);
	const struct proto_str name = get_str(in, PROTO_COMM_MAX);
	struct guest_unstopped u = {.pid = pid};

	u.why = why < PROTO_UNSTOPPED_N ? (enum proto_unstopped)why : PROTO_UNSTOPPED_UNKNOWN;
	memcpy(u.name, name.data, name.len); /* which may hold a NUL, and ends there then */
	return u;
}

static int on_frozen(struct guest *g, struct proto_in *in)
{
	const uint32_t error = get_u32(in);
	struct guest_unstopped unstopped = {0};

	if (error == EBUSY && !get_end(in))
		unstopped = take_unstopped(in);
	if (!get_end(in) || !g->freezing || error > 4095)
		return -EPROTO;
	g->freezing = false;
	g->unstopped = unstopped;
	if (g->preparing)
		point_on_prepared(g);
	else if (!g->freezes_again)
		tell_owner(g, frozen, -(int)error);
	guest_freeze_again(g);
	return 0;
}

static int on_unleased(struct guest *g, struct proto_in *in)
{
	int r;

	guest_file_stir(&g->files);
	r = lease_on_unleased(&g->files.lease, in);
	if (r == 0)
		tell_owner(g, stirs);
	return r;
}

static int take_job_frame(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	switch (h->type) {
	case PROTO_FAILED: return job_on_failed(g, h, in);
	case PROTO_OUTPUT: return job_on_output(g, h, in);
	case PROTO_EXIT: return job_on_exit(g, h, in);
	case PROTO_JOB_GONE: return job_on_gone(g, h, in);
	default: return -EPROTO;
	}
}

/* Ids of requests for files go up to there, too. */
static bool is_of_job(const struct guest *g, const struct proto_header *h)
{
	return h->type == PROTO_JOB_GONE ||
	       (g->njobs && proto_is_job(h->id) &&
		(h->type == PROTO_FAILED || h->type == PROTO_OUTPUT || h->type == PROTO_EXIT));
}

static int take_frame(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	if (is_of_job(g, h))
		return take_job_frame(g, h, in);
	if (g->phase == GUEST_WARM && (h->type == PROTO_OUTPUT || h->type == PROTO_EXIT))
		return handshake_on_exercise(g, h, in);
	switch (h->type) {
	case PROTO_HELLO_OK: return handshake_on_hello(g, in);
	case PROTO_READY: return handshake_on_ready(g, in);
	case PROTO_FAILED: return handshake_on_failed(g, in);
	case PROTO_PONG: return 0;
	case PROTO_CLOCK_OK: return guest_clock_answer(g, h, in);
	case PROTO_OUTPUT: return exec_on_output(g, h, in);
	case PROTO_EXIT: return exec_on_exit(g, h, in);
	case PROTO_STDIN_CREDIT: return input_on_credit(g, h, in);
	case PROTO_STDIN_CLOSED: return input_on_closed(g, h, in);
	case PROTO_CHANGED: return watch_on_changed(g, in);
	case PROTO_LEARNED: return watch_on_learned(g, in);
	case PROTO_USAGE_REPLY: return on_usage(g, in);
	case PROTO_LOG: return on_log(g, in);
	case PROTO_FILE_REPLY: return file_calls_on_reply(&g->files.calls, h->id, in);
	case PROTO_LOCKED: return file_calls_on_locked(&g->files.calls, in);
	case PROTO_LEASED: return lease_on_leased(&g->files.lease, h->id, in);
	case PROTO_UNLEASED: return on_unleased(g, in);
	case PROTO_NOTED: return lease_on_noted(&g->files.lease, in);
	case PROTO_CONTENT: return lease_on_content(&g->files.lease, in);
	case PROTO_FROZEN: return on_frozen(g, in);
	case PROTO_PACKED: return pack_on_packed(g, h, in);
	case PROTO_UNPACKED: return pack_on_unpacked(g, h, in);
	case PROTO_POINTED: return point_on_pointed(g, h, in);
	case PROTO_TRACED: return on_traced(g, h->id, in);
	case PROTO_RESTING: return still_on_resting(g, h->id, in);
	case PROTO_RESUMED: return resume_on_resumed(g, h, in);
	default: return -EPROTO;
	}
}

/* The same for the next daemon. Return: 0: it is no process. */
static uint64_t pid_of(const struct guest *g)
{
	struct backend_info b = {0};

	if (g->backend)
		g->ops->info(g->backend, &b);
	return (uint64_t)b.pid;
}

static int on_frame(void *data, const struct proto_header *h, struct proto_in *in)
{
	struct guest *g = data;
	uint64_t pid;
	int r;

	if (g->phase == GUEST_ENDING)
		return -ECANCELED;
	pid = pid_of(g);
	if (pid && blackbox_is_poison(BLACKBOX_SANDBOX, pid)) {
		guest_failf(g, PROBLEM_AGENT_PROTOCOL, "Reset the session.",
			    "two daemons have died of what the agent in the sandbox has sent");
		return -ECANCELED;
	}
	g->unheard = 0;
	still_touch(g);
	blackbox_at(BLACKBOX_SANDBOX, pid);
	aim_at("frame: begun, %s", g->label.who ? g->label.who : "of nobody's");
	r = take_frame(g, h, in);
	blackbox_done();
	if (r == -EPROTO) {
		guest_failf(g, PROBLEM_AGENT_PROTOCOL, "Reset the session.",
			    "the agent in the sandbox sent a %s message that makes no sense",
			    proto_type_name(h->type));
	}
	return r < 0 ? r : g->phase == GUEST_ENDING ? -ECANCELED : 0;
}

static void on_lost(void *data, int err)
{
	struct guest *g = data;

	/* The agent's end was closed: the backend may soon say why. */
	if (err == 0 || err == -ECONNRESET || err == -EPIPE) {
		guest_hangup(g);
		return;
	}
	guest_failf(g, err == -EPROTO ? PROBLEM_AGENT_PROTOCOL : PROBLEM_AGENT_LOST,
		    "Reset the session.", "the connection to the agent in the sandbox failed: %s",
		    err == -EPROTO ? "what came was no message" : strerror(-err));
}

static void on_drained(void *data)
{
	struct guest *g = data;

	if (g->phase != GUEST_ENDING)
		input_drained(g);
}

static void on_stirs(void *data)
{
	struct guest *g = data;

	guest_file_stir(&g->files);
}

static void on_pushes(void *data, unsigned type)
{
	struct guest *g = data;

	if (g->phase == GUEST_ENDING)
		return;
	still_on_push(g, type);
	resume_on_push(g);
}

static void on_touched(void *data)
{
	guest_touch(data);
}

const struct channel_events dispatch_events = {
	.frame = on_frame,
	.lost = on_lost,
	.drained = on_drained,
	.stirs = on_stirs,
	.pushes = on_pushes,
	.touched = on_touched,
};
