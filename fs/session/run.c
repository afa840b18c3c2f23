/* SPDX-License-Identifier: Apache-2.0 */
/* One run: its code, its state, its output. See run.h. */
#include "run.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "session.h"
#include "touch.h"

static const char *const run_state_names[] = {
	[RUN_QUEUED] = "queued",   [RUN_RUNNING] = "running", [RUN_DONE] = "done",
	[RUN_TIMEOUT] = "timeout", [RUN_KILLED] = "killed",   [RUN_OOM] = "oom",
	[RUN_LOST] = "lost",	   [RUN_REFUSED] = "refused",
};
static_assert(ARRAY_SIZE(run_state_names) == RUN_NSTATES, "a name for each state");

const char *run_state_str(enum run_state state)
{
	return run_state_names[state];
}

static const enum run_state state_of_outcome[] = {
	[VM_DONE] = RUN_DONE, [VM_TIMEOUT] = RUN_TIMEOUT, [VM_KILLED] = RUN_KILLED,
	[VM_OOM] = RUN_OOM,   [VM_LOST] = RUN_LOST,	  [VM_REFUSED] = RUN_REFUSED,
};
static_assert(ARRAY_SIZE(state_of_outcome) == VM_NOUTCOMES, "a state for each outcome");

struct run *run_new(struct depot *depot, uint32_t number, struct buf *code)
{
	struct run *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->refs = 1;
	r->number = r->id = number;
	r->state = RUN_QUEUED;
	r->code = *code;
	memset(code, 0, sizeof(*code));
	feed_init(&r->feed);
	r->depot = depot;
	r->submitted = r->last_output = clock_now();
	return r;
}

void run_keep(struct session *s, struct run *r)
{
	LIST_INSERT_HEAD(&s->kept_runs, r, kept);
	r->s = s;
	touch_run(r);
}

struct run *run_ref(struct run *r)
{
	r->refs++;
	return r;
}

void run_unref(struct run *r)
{
	assert(r->refs > 0);
	if (--r->refs)
		return;
	touch_run_gone(r);
	for (int i = 0; i < RUN_NOUTPUTS; i++)
		spool_fini(&r->spool[i], r->depot);
	if (r->kept.le_prev)
		LIST_REMOVE(r, kept);
	buf_clear(&r->code);
	buf_clear(&r->env);
	buf_clear(&r->input);
	buf_clear(&r->rerun.text);
	problem_keep(&r->problem, NULL);
	free(r->cwd);
	free(r->woke);
	feed_fini(&r->feed);
	free(r);
}

struct run_words run_words(const struct run *r)
{
	struct run_words w;

	if (*r->job)
		snprintf(w.text, sizeof(w.text), "job %s", r->job);
	else
		snprintf(w.text, sizeof(w.text), "run %u", r->number);
	return w;
}

bool run_ended(const struct run *r)
{
	return r->state != RUN_QUEUED && r->state != RUN_RUNNING;
}

bool run_has_status(const struct run *r)
{
	return run_ended(r) && r->state != RUN_LOST && r->state != RUN_REFUSED;
}

void run_started(struct run *r, unsigned timeout_s)
{
	assert(r->state == RUN_QUEUED);
	r->state = RUN_RUNNING;
	r->timeout_s = timeout_s;
	touch_run(r);
	r->started = clock_now();
}

/* Without memory for them the event log has them all the same. */
void run_woke(struct run *r, const char *words)
{
	free(r->woke);
	r->woke = strdup(words);
	touch_run(r);
}

static enum run_output output_of(enum vm_stream stream)
{
	return stream == VM_STDOUT ? RUN_STDOUT : RUN_STDERR;
}

/* Adds to the output that has both streams, in order of arrival. */
static void merge(struct run *r, enum vm_stream stream, const void *data, size_t len)
{
	const struct spool *other = &r->spool[stream == VM_STDOUT ? RUN_STDERR : RUN_STDOUT];
	struct spool *both = &r->spool[RUN_BOTH];

	if (spool_size(both) == 0) {
		if (spool_size(other) == 0)
			return; /* there is only one stream so far, which serves as both */
		spool_copy(both, other);
	}
	spool_append(both, r->depot, data, len);
}

void run_output(struct run *r, enum vm_stream stream, const void *data, size_t len)
{
	struct spool *sp = &r->spool[output_of(stream)];

	assert(r->state == RUN_RUNNING);
	merge(r, stream, data, len);
	spool_append(sp, r->depot, data, len);
	r->last_output = clock_now();
	touch_run(r);
}

bool run_wants_disk(const struct run *r, enum vm_stream stream, size_t len)
{
	const struct spool *sp = &r->spool[output_of(stream)];

	/* Only asks once for each block. */
	return !sp->err && sp->len + len > SPOOL_MEMORY &&
	       (sp->len <= SPOOL_MEMORY || sp->len % DEPOT_BLOCK + len >= DEPOT_BLOCK);
}

void run_stop_keeping(struct run *r, enum vm_stream stream, int err)
{
	touch_run(r);
	spool_lose(&r->spool[output_of(stream)], err, 0);
	/* If it is empty, it will be made as a copy of the other stream, which has the loss noted. */
	if (spool_size(&r->spool[RUN_BOTH]))
		spool_lose(&r->spool[RUN_BOTH], err, 0);
}

bool run_lost(const struct run *r)
{
	for (int i = 0; i < RUN_NOUTPUTS; i++)
		if (r->spool[i].err)
			return true;
	return false;
}

bool run_is_behind(const struct run *r)
{
	for (int i = 0; i < RUN_NOUTPUTS; i++)
		if (spool_is_behind(&r->spool[i], r->depot))
			return true;
	return false;
}

void run_lost_problem(const struct run *r, struct problem *ret_p)
{
	int err = 0;

	for (int i = 0; i < RUN_NOUTPUTS && !err; i++)
		err = r->spool[i].err;
	problem_set(
		ret_p, PROBLEM_OUTPUT_LOST,
		err == -ENOMEM ? "Free some memory, and run it again."
		: err == -EDQUOT
			? "Remove runs or sessions with long output, and run it again: one user's "
			  "may take three quarters of the disk, and what the root's `quota` says."
			: "Make room on the disk of spool_dir, or mend it, and run it again.",
		"output of %s could not be kept: %s; its files end with an error where it is "
		"missing",
		run_words(r).text, strerror(-err));
}

static uint64_t us_between(const struct timespec *a, const struct timespec *b)
{
	int64_t us = (b->tv_sec - a->tv_sec) * 1000000 + (b->tv_nsec - a->tv_nsec) / 1000;

	return us > 0 ? (uint64_t)us : 0;
}

/* Reports lost output, in addition to any other problem. */
static void add_loss(struct run *r)
{
	struct problem p = *problem_kept(&r->problem), loss;

	run_lost_problem(r, &loss);
	problem_also(&p, &loss);
	problem_keep(&r->problem, &p);
}

/* What was measured of it. */
static void take_result(struct run *r, const struct vm_result *result)
{
	r->result = (struct run_result){
		.status = result->status,
		.fresh = result->fresh,
		.wall_us = result->wall_us,
		.user_us = result->user_us,
		.system_us = result->system_us,
		.maxrss_kib = result->maxrss_kib,
		.read_bytes = result->read_bytes,
		.written_bytes = result->written_bytes,
		.reached = result->reached,
	};
	memcpy(r->result.dropped, result->dropped, sizeof(r->result.dropped));
	for (int i = 0; i < VM_NSTREAMS; i++)
		r->result.dropped[i] += r->spool[i].lost;
	if (!r->result.wall_us) /* the sandbox has not measured it */
		r->result.wall_us = us_between(&r->started, &r->ended);
}

void run_ended_with(struct run *r, const struct vm_result *result)
{
	assert(!run_ended(r));
	touch_run(r);
	r->state = state_of_outcome[result->outcome];
	r->ended = clock_now();
	problem_keep(&r->problem, &result->problem);
	for (int i = 0; i < RUN_NOUTPUTS; i++)
		spool_seal(&r->spool[i], r->depot);
	if (r->state == RUN_REFUSED)
		r->started = (struct timespec){0}; /* it was handed over, and never began */
	else
		take_result(r, result);
	if (run_lost(r))
		add_loss(r);
	feed_over(&r->feed);
}

void run_refuse(struct run *r, const struct problem *why)
{
	assert(r->state == RUN_QUEUED);
	r->state = RUN_REFUSED;
	touch_run(r);
	problem_keep(&r->problem, why);
	r->ended = clock_now();
	feed_over(&r->feed);
}

const struct spool *run_spool(const struct run *r, enum run_output which)
{
	if (which != RUN_BOTH)
		return &r->spool[which];
	if (spool_size(&r->spool[RUN_BOTH]))
		return &r->spool[RUN_BOTH];
	return &r->spool[spool_size(&r->spool[RUN_STDOUT]) ? RUN_STDOUT : RUN_STDERR];
}

uint64_t run_bytes(const struct run *r)
{
	uint64_t n = r->code.len + r->input.len;

	for (int i = 0; i < RUN_NOUTPUTS; i++)
		n += r->spool[i].len;
	return n;
}

bool run_truncated(const struct run *r, enum vm_stream stream)
{
	return r->result.dropped[stream] > 0;
}

static void put_bytes_on(struct buf *out, uint64_t n, const char *stream)
{
	if (n == 0)
		buf_printf(out, ", nothing on %s", stream);
	else
		buf_printf(out, ", %" PRIu64 " byte%s on %s", n, n == 1 ? "" : "s", stream);
}

/* "41 ms", "3.2 s" */
static void put_duration(struct buf *out, uint64_t us)
{
	if (us < 10000)
		buf_printf(out, "%" PRIu64 ".%" PRIu64 " ms", us / 1000, us / 100 % 10);
	else if (us < 1000000)
		buf_printf(out, "%" PRIu64 " ms", us / 1000);
	else
		buf_printf(out, "%" PRIu64 ".%" PRIu64 " s", us / 1000000, us / 100000 % 10);
}

int run_summary(const struct run *r, struct buf *out)
{
	const struct timespec now = clock_now();

	buf_printf(out, "%s: ", run_words(r).text);
	switch (r->state) {
	case RUN_QUEUED:
		buf_printf(out, "queued for ");
		put_duration(out, us_between(&r->submitted, &now));
		return buf_printf(out, "\n");
	case RUN_RUNNING:
		buf_printf(out, "running for ");
		put_duration(out, us_between(&r->started, &now));
		break;
	case RUN_DONE:
		buf_printf(out, "exit %u in ", r->result.status);
		put_duration(out, r->result.wall_us);
		break;
	case RUN_TIMEOUT:
	case RUN_KILLED:
	case RUN_OOM:
		buf_printf(out, "%s, exit %u after ", run_state_str(r->state), r->result.status);
		put_duration(out, r->result.wall_us);
		break;
	case RUN_REFUSED:
		return buf_printf(out, "refused, it never ran: %s\n",
				  problem_kept(&r->problem)->cause);
	case RUN_LOST:
		buf_printf(out, "lost, no exit status: %s", problem_kept(&r->problem)->cause);
		break;
	case RUN_NSTATES: assert(0);
	}
	for (int i = 0; i < VM_NSTREAMS; i++) {
		put_bytes_on(out, r->spool[i].len, i == VM_STDOUT ? "stdout" : "stderr");
		if (r->spool[i].lost)
			buf_printf(out, " (%" PRIu64 " more were lost)", r->spool[i].lost);
		else if (run_truncated(r, (enum vm_stream)i))
			buf_printf(out, " (truncated)");
	}
	if (r->woke)
		buf_printf(out, "; %s", r->woke);
	return buf_printf(out, "\n");
}
