/* SPDX-License-Identifier: Apache-2.0 */
/* Records of runs: what was asked, and what came of it. */
#include <errno.h>
#include <search.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/request/clock.h"
#include "internal.h"

/* Never reuse a number. */
enum {
	TAG_NUMBER = 1,
	TAG_ID,
	TAG_JOB,
	TAG_STATE,
	TAG_TIMEOUT_S,
	TAG_NAMED,
	TAG_CODE,
	TAG_CWD,
	TAG_ENV,
	TAG_FEED,
	TAG_SPOOL,
	TAG_RESULT,
	TAG_SUBMITTED,
	TAG_STARTED,
	TAG_ENDED,
	TAG_LAST_OUTPUT,
	TAG_BEGAN,
	TAG_HISTORY, /* it is in the session's */
	TAG_PROBLEM,
	TAG_WOKE,
	TAG_MARK,      /* live: its id */
	TAG_LONG_CODE, /* instead of TAG_CODE: code.c */
	TAG_CODE_KEPT, /* live */
	TAG_INPUT,     /* not while it runs */
	TAG_INPUT_LOST,
	TAG_BASE_CHECKPOINT,
	TAG_BASE_FLAGS, /* BASE_* */
	TAG_RUNS_BEFORE,
	TAG_REPLAY,
	TAG_REPLAYING, /* live */
};

#define BASE_ANEW    1u
#define BASE_STIRRED 2u

enum {
	RES_STATUS = 1,
	RES_FRESH,
	RES_WALL,
	RES_USER,
	RES_SYSTEM,
	RES_MAXRSS,
	RES_DROPPED_OUT,
	RES_DROPPED_ERR,
	RES_READ,
	RES_WRITTEN,
	RES_REACHED,
};

enum { FEED_STATE = 1, FEED_DATA, FEED_TYPED, FEED_TEXT };

/* ---- how runs are referred to ---- */

uint64_t keep_run_place(const struct keep_out *o, const struct run *r)
{
	for (size_t i = 0; r && i < o->nruns; i++)
		if (o->run[i] == r)
			return i + 1;
	return 0;
}

int keep_run_at(const struct keep_in *in, const struct record_field *f, struct run **ret_r)
{
	uint64_t place;
	const int r = record_get(f, 1, in->nruns, &place);

	if (r == 0)
		*ret_r = in->run[place - 1];
	return r;
}

/* ---- results ---- */

static void put_result(struct buf *out, unsigned tag, const struct run_result *res)
{
	const size_t at = record_open(out, tag);

	keep_put_u64(out, RES_STATUS, res->status);
	keep_put_u64(out, RES_FRESH, res->fresh);
	keep_put_u64(out, RES_WALL, res->wall_us);
	keep_put_u64(out, RES_USER, res->user_us);
	keep_put_u64(out, RES_SYSTEM, res->system_us);
	keep_put_u64(out, RES_MAXRSS, res->maxrss_kib);
	keep_put_u64(out, RES_DROPPED_OUT, res->dropped[VM_STDOUT]);
	keep_put_u64(out, RES_DROPPED_ERR, res->dropped[VM_STDERR]);
	keep_put_u64(out, RES_READ, res->read_bytes);
	keep_put_u64(out, RES_WRITTEN, res->written_bytes);
	keep_put_u64(out, RES_REACHED, res->reached);
	record_close(out, at);
}

static int result_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct run_result *res = to;

	(void)in;
	switch (f->tag) {
	case RES_STATUS: return record_get_u32(f, 255, &res->status);
	case RES_FRESH: return record_get_bool(f, &res->fresh);
	case RES_WALL: return record_get(f, 0, UINT64_MAX, &res->wall_us);
	case RES_USER: return record_get(f, 0, UINT64_MAX, &res->user_us);
	case RES_SYSTEM: return record_get(f, 0, UINT64_MAX, &res->system_us);
	case RES_MAXRSS: return record_get(f, 0, UINT64_MAX, &res->maxrss_kib);
	case RES_DROPPED_OUT: return record_get(f, 0, UINT64_MAX, &res->dropped[VM_STDOUT]);
	case RES_DROPPED_ERR: return record_get(f, 0, UINT64_MAX, &res->dropped[VM_STDERR]);
	case RES_READ: return record_get(f, 0, UINT64_MAX, &res->read_bytes);
	case RES_WRITTEN: return record_get(f, 0, UINT64_MAX, &res->written_bytes);
	case RES_REACHED: return record_get_u32(f, UINT32_MAX, &res->reached);
	default: return 0;
	}
}

/* ---- standard input ---- */

static void put_feed(struct keep_out *o, struct feed *feed)
{
	const size_t at = record_open(o->out, TAG_FEED);

	record_u64(o->out, FEED_STATE, feed->state);
	keep_put_text(o, FEED_TEXT, &feed->trail, feed->taken,
		      feed->data.data ? feed->data.data + feed->sent : NULL, feed_len(feed));
	keep_put_u64(o->out, FEED_TYPED, feed->typed);
	record_close(o->out, at);
}

static int feed_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct feed *feed = to;
	uint32_t state;
	int r;

	switch (f->tag) {
	case FEED_STATE:
		r = record_get_u32(f, FEED_OVER, &state);
		if (r == 0)
			feed->state = (enum feed_state)state;
		return r;
	case FEED_DATA: return keep_get_buf(f, &feed->data, 2 * SESSION_STDIN_MAX);
	case FEED_TYPED: return record_get_bool(f, &feed->typed);
	case FEED_TEXT:
		return keep_get_text_of(in, f, &feed->trail, &feed->data, 2 * SESSION_STDIN_MAX,
					&feed->taken);
	default: return 0;
	}
}

/* ---- a run ---- */

/* What has not ended will not have been ended by itself. */
static void put_end(struct keep_out *o, const struct run *r)
{
	struct run_result res = {.read_bytes = r->result.read_bytes,
				 .written_bytes = r->result.written_bytes};
	const struct timespec now = clock_now();
	struct problem why;

	if (r->state == RUN_RUNNING) {
		problem_set(&why, PROBLEM_NOT_KEPT, "Run it again.",
			    "xsbxfs ended while %s went on", run_words(r).text);
	} else {
		problem_set(&why, PROBLEM_UNMOUNTED, "Run it again.",
			    "xsbxfs was ended before %s began", run_words(r).text);
	}
	record_str(o->out, TAG_STATE,
		   run_state_str(r->state == RUN_RUNNING ? RUN_LOST : RUN_REFUSED));
	put_result(o->out, TAG_RESULT, &res);
	keep_put_problem(o->out, TAG_PROBLEM, &why);
	record_time(o->out, TAG_ENDED, &now);
}

static void put_times(struct buf *out, const struct run *r)
{
	record_time(out, TAG_SUBMITTED, &r->submitted);
	if (r->started.tv_sec)
		record_time(out, TAG_STARTED, &r->started);
	record_time(out, TAG_LAST_OUTPUT, &r->last_output);
}

static void put_replay(struct keep_out *o, const struct run *r)
{
	static const char ended[] = "failed\ncause: xsbxfs was ended before it was done\n";
	const bool going = r->rerun.going;

	/* What it was sent changes until it has ended. */
	if (run_ended(r))
		keep_put_buf(o->out, TAG_INPUT, &r->input);
	keep_put_u64(o->out, TAG_INPUT_LOST, r->input_lost || (!run_ended(r) && r->input.len));
	keep_put_u64(o->out, TAG_BASE_CHECKPOINT, r->base.checkpoint);
	keep_put_u64(o->out, TAG_BASE_FLAGS, keep_base_flags(&r->base));
	keep_put_u64(o->out, TAG_RUNS_BEFORE, r->runs_before);
	if (going && o->io->live)
		record_u64(o->out, TAG_REPLAYING, 1);
	else if (going)
		record_bytes(o->out, TAG_REPLAY, ended, strlen(ended));
	else
		keep_put_buf(o->out, TAG_REPLAY, &r->rerun.text);
}

uint64_t keep_base_flags(const struct rerun_base *base)
{
	return (base->anew ? BASE_ANEW : 0) | (base->stirred ? BASE_STIRRED : 0);
}

int keep_get_base_flags(const struct record_field *f, struct rerun_base *base)
{
	uint32_t flags;
	const int r = record_get_u32(f, BASE_ANEW | BASE_STIRRED, &flags);

	if (r == 0) {
		base->anew = flags & BASE_ANEW;
		base->stirred = flags & BASE_STIRRED;
	}
	return r;
}

static bool in_history(const struct keep_out *o, const struct run *r)
{
	const struct run *other;

	/* One that changes is one of the last. */
	TAILQ_FOREACH_REVERSE(other, &o->s->runs, run_list, link)
		if (other == r)
			return true;
	return false;
}

/* What was asked for, which does not change. */
static void put_asked(struct keep_out *o, struct run *r)
{
	if (!keep_put_code(o, TAG_LONG_CODE, r))
		keep_put_buf(o->out, TAG_CODE, &r->code);
	record_str(o->out, TAG_CWD, r->cwd);
	keep_put_buf(o->out, TAG_ENV, &r->env);
}

static void put_identity(struct buf *out, const struct run *r)
{
	keep_put_u64(out, TAG_NUMBER, r->number);
	record_u64(out, TAG_ID, r->id);
	if (*r->job)
		record_str(out, TAG_JOB, r->job);
	keep_put_u64(out, TAG_TIMEOUT_S, r->timeout_s);
	keep_put_u64(out, TAG_NAMED, r->named);
}

static void put_state(struct keep_out *o, const struct run *r)
{
	keep_put_u64(o->out, TAG_HISTORY, in_history(o, r));
	if (!o->io->live && !run_ended(r)) {
		put_end(o, r);
	} else {
		record_str(o->out, TAG_STATE, run_state_str(r->state));
		if (run_ended(r)) {
			put_result(o->out, TAG_RESULT, &r->result);
			keep_put_kept(o->out, TAG_PROBLEM, &r->problem);
			record_time(o->out, TAG_ENDED, &r->ended);
		}
	}
	record_str(o->out, TAG_WOKE, r->woke);
	put_replay(o, r);
}

void keep_put_run(struct keep_out *o, unsigned tag, struct run *r)
{
	const size_t at = record_open(o->out, tag);

	put_identity(o->out, r);
	put_asked(o, r);
	keep_put_outputs(o, TAG_SPOOL, r);
	put_times(o->out, r);
	put_state(o, r);
	record_close(o->out, at);
}

int keep_put_live_run(struct buf *out, struct run *r, const struct keep_io *io)
{
	struct keep_out o = {.out = out, .s = r->s, .io = io};

	record_u64(out, TAG_MARK, touched_id(&r->s->fs->touched, &r->mark));
	put_identity(out, r);
	keep_put_outputs(&o, TAG_SPOOL, r);
	put_times(out, r);
	put_state(&o, r);
	put_feed(&o, &r->feed);
	record_u64(out, TAG_BEGAN, r->began);
	keep_put_u64(out, TAG_CODE_KEPT, r->code_kept);
	return out->failed;
}

int keep_put_asked(struct buf *out, struct run *r, const struct keep_io *io)
{
	struct keep_out o = {.out = out, .s = r->s, .io = io};

	record_u64(out, TAG_MARK, touched_id(&r->s->fs->touched, &r->mark));
	put_asked(&o, r);
	return out->failed;
}

struct running {
	struct run *r;
	bool history;
	uint64_t code_away; /* bytes */
};

static int get_state(const struct record_field *f, struct run *r)
{
	char name[16];
	int e = record_get_str(f, name, sizeof(name));

	for (unsigned i = 0; e == 0 && i < RUN_NSTATES; i++) {
		if (strcmp(name, run_state_str((enum run_state)i)) != 0)
			continue;
		r->state = (enum run_state)i;
		return 0;
	}
	return -EBADMSG;
}

static int run_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct running *to_run = to;
	struct run *r = to_run->r;

	switch (f->tag) {
	case TAG_NUMBER: return record_get_u32(f, SANDBOX_JOB_ID - 1, &r->number);
	case TAG_ID: return record_get_u32(f, UINT32_MAX, &r->id);
	case TAG_JOB: return record_get_str(f, r->job, sizeof(r->job));
	case TAG_STATE: return get_state(f, r);
	case TAG_TIMEOUT_S: return record_get_u32(f, UINT32_MAX, &r->timeout_s);
	case TAG_NAMED: return record_get_bool(f, &r->named);
	case TAG_CODE: return keep_get_buf(f, &r->code, SESSION_CODE_MAX);
	case TAG_LONG_CODE: return keep_get_code(in, f, r, &to_run->code_away);
	case TAG_CODE_KEPT: return in->io->live ? record_get_bool(f, &r->code_kept) : 0;
	case TAG_CWD: return keep_get_text(f, &r->cwd, JOB_PATH_MAX);
	case TAG_ENV: return keep_get_buf(f, &r->env, JOB_ENV_MAX);
	case TAG_FEED: return keep_inside(in, f, feed_field, &r->feed);
	case TAG_SPOOL: return keep_get_output(in, f, r);
	case TAG_RESULT: return keep_inside(in, f, result_field, &r->result);
	case TAG_PROBLEM: return keep_get_kept(f, &r->problem);
	case TAG_WOKE: return keep_get_text(f, &r->woke, 1024);
	case TAG_SUBMITTED: return record_get_time(f, &r->submitted);
	case TAG_STARTED: return record_get_time(f, &r->started);
	case TAG_ENDED: return record_get_time(f, &r->ended);
	case TAG_LAST_OUTPUT: return record_get_time(f, &r->last_output);
	case TAG_BEGAN: return record_get(f, 0, UINT64_MAX, &r->began);
	case TAG_HISTORY: return record_get_bool(f, &to_run->history);
	case TAG_INPUT: return keep_get_buf(f, &r->input, RERUN_INPUT_MAX);
	case TAG_INPUT_LOST: return record_get_bool(f, &r->input_lost);
	case TAG_BASE_CHECKPOINT: return record_get_u32(f, UINT32_MAX, &r->base.checkpoint);
	case TAG_BASE_FLAGS: return keep_get_base_flags(f, &r->base);
	case TAG_RUNS_BEFORE: return record_get_u32(f, UINT32_MAX, &r->runs_before);
	case TAG_REPLAY: return keep_get_buf(f, &r->rerun.text, RERUN_TEXT_MAX);
	case TAG_REPLAYING: return in->io->live ? record_get_bool(f, &r->rerun.going) : 0;
	case TAG_MARK: return record_get(f, 1, UINT64_MAX / 2, &r->mark);
	default: return 0;
	}
}

/* Does what it says of itself fit together, and into its session? */
static bool is_sound(const struct keep_in *in, const struct running *of)
{
	const struct run *r = of->r;
	const bool job = *r->job;

	if (job != (r->number == 0) || job != sandbox_is_job(r->id) ||
	    (job && !plain_name_ok(r->job)))
		return false;
	if (job ? (r->id & ~SANDBOX_JOB_ID) == 0 || (r->id & ~SANDBOX_JOB_ID) > JOB_NUMBER_MAX
		: r->id != r->number)
		return false;
	if (!keep_env_is_sound(&r->env) || (r->code.len && (of->code_away || r->code_lost)))
		return false;
	if (!in->io->live && (!run_ended(r) || r->feed.state != FEED_CLOSED))
		return false;
	if ((job && of->history) || (of->history && session_run(in->s, r->number)))
		return false;
	if (job || run_ended(r))
		return true;
	return r->state == RUN_QUEUED ? in->s->nqueued < SESSION_QUEUE_MAX : !in->s->active;
}

/* Puts it where it belongs. Jobs find theirs by number. */
static void attach(struct keep_in *in, struct run *r, bool history)
{
	struct session *s = in->s;

	run_keep(s, r);
	if (history) {
		run_ref(r);
		TAILQ_INSERT_TAIL(&s->runs, r, link);
		s->nruns++;
	}
	if (!*r->job && r->state == RUN_QUEUED) {
		run_ref(r);
		TAILQ_INSERT_TAIL(&s->queue, r, queue);
		s->nqueued++;
	} else if (!*r->job && r->state == RUN_RUNNING) {
		s->active = run_ref(r);
	}
}

static int reserve(struct keep_in *in)
{
	const size_t cap = in->cap ? 2 * in->cap : 8;
	struct run **run;

	if (in->nruns < in->cap)
		return 0;
	run = reallocarray(in->run, cap, sizeof(struct run *));
	if (!run)
		return -ENOMEM;
	in->run = run;
	in->cap = cap;
	return 0;
}

/* Return: one that is on no list; NULL if out of memory. */
static struct run *blank(struct keep_in *in)
{
	struct buf none = {0};
	struct run *r = run_new(&in->fs->depot, 0, &none);

	if (r)
		r->submitted = r->last_output = (struct timespec){0};
	return r;
}

int keep_get_run(struct keep_in *in, const struct record_field *f)
{
	struct running of = {.r = in->io->live ? NULL : blank(in)};
	const unsigned missing = in->missing.n;
	int e;

	if (!of.r)
		return in->io->live ? -EBADMSG : -ENOMEM;
	in->unkept = false;
	e = reserve(in);
	if (e == 0)
		e = keep_inside(in, f, run_field, &of);
	if (e == 0 && !is_sound(in, &of))
		e = -EBADMSG;
	if (e == 0)
		feed_over(&of.r->feed);
	if (e == 0)
		e = keep_outputs_back(in, of.r);
	if (e == 0)
		e = keep_code_back(in, of.r, of.code_away);
	if (e < 0) {
		run_unref(of.r);
		return e;
	}
	if (in->unkept)
		keep_tell_unkept(in, of.r);
	in->missing.n = MIN(in->missing.n, missing + 1); /* both may be of one */
	attach(in, of.r, of.history);
	in->run[in->nruns++] = of.r;
	return 0;
}

/* ---- live: each is a record, and so is what was asked of it ---- */

static int compare(const void *a, const void *b)
{
	const uint64_t x = ((const struct run *)a)->mark, y = ((const struct run *)b)->mark;

	return (x > y) - (x < y);
}

struct run *keep_run_of(const struct fs *fs, const struct session *s, uint64_t mark)
{
	const struct run key = {.mark = mark};
	void *const *found = tfind(&key, &fs->inherited.runs, compare);
	struct run *r = found ? *found : NULL;

	return r && r->s == s ? r : NULL;
}

void keep_forget_run(const struct run *r)
{
	void *const *found = tfind(r, &r->s->fs->inherited.runs, compare);

	if (found && *found == r)
		(void)tdelete(r, &r->s->fs->inherited.runs, compare);
}

/* Behind the record of the run itself. */
static int get_asked(struct keep_in *in, struct run *r, const struct record *record)
{
	struct running of = {.r = r};
	struct record_reader fields = record->fields;
	struct record_field f;
	int e;

	if (r->code.len || r->code_lost || r->cwd || r->env.len)
		return -EBADMSG;
	while ((e = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_CODE || f.tag == TAG_LONG_CODE || f.tag == TAG_CWD ||
		    f.tag == TAG_ENV)
			e = run_field(in, &of, &f);
		if (e < 0)
			return e;
	}
	if (e == 0 && (!keep_env_is_sound(&r->env) || (r->code.len && r->code_lost)))
		e = -EBADMSG;
	return e;
}

/* Whose is it? Return: an id, or 0. */
static uint64_t mark_of(const struct record *record)
{
	struct record_reader fields = record->fields;
	struct record_field f;

	return record_field(&fields, &f) > 0 && f.tag == TAG_MARK ? f.u64 : 0;
}

int keep_get_live_run(struct keep_in *in, const struct record *record)
{
	const uint64_t mark = mark_of(record);
	struct run *old = mark ? keep_run_of(in->fs, in->s, mark) : NULL;
	struct running of;
	int e;

	if (old)
		return get_asked(in, old, record);
	of = (struct running){.r = mark ? blank(in) : NULL};
	if (!of.r)
		return mark ? -ENOMEM : -EBADMSG;
	e = keep_fields(in, record->fields, run_field, &of);
	if (e == 0 && (!is_sound(in, &of) || of.r->mark != mark))
		e = -EBADMSG;
	if (e == 0)
		e = keep_outputs_back(in, of.r);
	if (e == 0) {
		struct run **there = tsearch(of.r, &in->fs->inherited.runs, compare);

		e = !there ? -ENOMEM : *there != of.r ? -EBADMSG : 0;
	}
	if (e < 0) {
		run_unref(of.r);
		return e;
	}
	touched_has_id(&in->fs->touched, mark);
	attach(in, of.r, of.history);
	return 0;
}
