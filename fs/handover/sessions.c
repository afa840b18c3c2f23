/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as records, with what they have. See handover.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/keep/keep.h"
#include "fs/session/job.h"
#include "fs/session/touch.h"
#include "internal.h"
#include "outputs.h"
#include "texts.h"
#include "vm/base/aim.h"
#include "vm/base/log.h"
#include "vm/base/util.h"

#define TEXT_FEW 512u /* bytes that go into the record of who has them */

/* Parts of what has several records; never reuse. */
enum session_part { PART_HEAD, PART_REST };
enum run_part { PART_RUN, PART_ASKED, PART_NUM };

static uint64_t sub_of(const struct run *r, enum run_part part)
{
	return r->mark * PART_NUM + part;
}

/* ---- what is not in the records of sessions ---- */

static void fail(struct handover_sessions *to, int err)
{
	if (err < 0 && to->failed == 0)
		to->failed = err;
}

/* What is in the state directory stays there. */
static bool is_away(void *data, const struct keep_output *o, const struct spool *sp)
{
	(void)data;
	(void)o;
	return sp->away;
}

static const char *name_saved(void *data, const struct saved *saved)
{
	struct handover_sessions *to = data;
	const int r = handover_put_saved(to, saved);

	fail(to, r);
	if (r < 0)
		return NULL;
	snprintf(to->name, sizeof(to->name), "%llu", (unsigned long long)saved_number(saved));
	return to->name;
}

static uint64_t put_text(void *data, struct trail *t, uint64_t at, const char *bytes, size_t len)
{
	struct handover_sessions *to = data;

	if (len <= TEXT_FEW) {
		texts_forget(to->sink, t);
		return 0;
	}
	fail(to, texts_put(to->sink, &to->fs->touched, t, at, bytes, len));
	return t->id;
}

static uint64_t put_blocks(void *data, const struct run *r, struct spool *sp)
{
	struct handover_sessions *to = data;
	uint64_t id;

	fail(to, outputs_put(to->sink, r, sp, &id));
	return id;
}

static struct keep_io io_of(struct handover_sessions *to)
{
	return (struct keep_io){.live = true,
				.data = to,
				.away = is_away,
				.name = name_saved,
				.text = put_text,
				.blocks = put_blocks};
}

/* ---- one record each. Return: 0 or -errno. ---- */

/* The record that was begun is whole, if all that it refers to is. */
static int end(struct handover_sessions *to, int r, uint32_t kind, uint64_t key, uint64_t sub)
{
	if (r == 0)
		r = to->failed;
	return r == 0 ? sink_end(to->sink, kind, key, sub) : r;
}

static int put_head(struct handover_sessions *to, const struct session *s)
{
	const struct keep_io io = io_of(to);
	const int r = keep_put_head(sink_begin(to->sink), s, &io);

	return end(to, r, KEEP_SESSION, session_key(s), PART_HEAD);
}

static int put_rest(struct handover_sessions *to, const struct session *s)
{
	const struct keep_io io = io_of(to);
	const int r = keep_put_rest(sink_begin(to->sink), s, &io);

	return end(to, r, KEEP_SESSION, session_key(s), PART_REST);
}

static int put_run(struct handover_sessions *to, struct run *r)
{
	const struct keep_io io = io_of(to);
	const int e = keep_put_live_run(sink_begin(to->sink), r, &io);

	return end(to, e, KEEP_RUN, session_key(r->s), sub_of(r, PART_RUN));
}

static int put_asked(struct handover_sessions *to, struct run *r)
{
	const struct keep_io io = io_of(to);
	const int e = keep_put_asked(sink_begin(to->sink), r, &io);

	return end(to, e, KEEP_RUN, session_key(r->s), sub_of(r, PART_ASKED));
}

static int put_job(struct handover_sessions *to, struct job *j)
{
	const struct keep_io io = io_of(to);
	const int r = keep_put_live_job(sink_begin(to->sink), j, &io);

	return end(to, r, KEEP_JOB, session_key(j->s), j->mark);
}

static int put_scratch(struct handover_sessions *to, const struct session *s,
		       const struct scratch_file *file)
{
	const int r = keep_put_live_scratch(sink_begin(to->sink), file);

	return end(to, r, KEEP_SCRATCH, session_key(s), file->id);
}

/* One that nobody was let into yet the next daemon asks for anew. */
static int put_sandbox(struct handover_sessions *to, const struct session *s)
{
	int r;

	if (!s->ready || !s->sandbox)
		return sink_drop(to->sink, HANDOVER_SANDBOX, session_key(s), 0);
	r = sandbox_put(s->sandbox, sink_begin(to->sink), to->sink->fds);
	return end(to, r, HANDOVER_SANDBOX, session_key(s), 0);
}

static int put_calls(struct handover_sessions *to, const struct session *s)
{
	if (!handover_has_calls(s))
		return sink_drop(to->sink, HANDOVER_CALLS, session_key(s), 0);
	handover_put_calls(s, sink_begin(to->sink));
	return end(to, 0, HANDOVER_CALLS, session_key(s), 0);
}

static int put_workdir(struct handover_sessions *to, const struct session *s)
{
	if (!s->changes.work)
		return sink_drop(to->sink, HANDOVER_WORKDIR, session_key(s), 0);
	workdir_put(s->changes.work, sink_begin(to->sink), to->sink->fds);
	return end(to, 0, HANDOVER_WORKDIR, session_key(s), 0);
}

static int put_commit(struct handover_sessions *to, const struct session *s)
{
	if (!commit_put(s, sink_begin(to->sink), to->sink->fds))
		return sink_drop(to->sink, HANDOVER_COMMIT, session_key(s), 0);
	return end(to, 0, HANDOVER_COMMIT, session_key(s), 0);
}

/* ---- whole sessions ---- */

/* Return: all of a session, oldest first, to be freed; NULL if out of memory. */
static struct run **all_runs(const struct session *s, size_t *ret_n)
{
	struct run **all, *r;
	size_t n = 0;

	LIST_FOREACH(r, &s->kept_runs, kept)
		n++;
	all = calloc(n + 1, sizeof(struct run *));
	*ret_n = n;
	if (all) {
		LIST_FOREACH(r, &s->kept_runs, kept)
			all[--n] = r;
	}
	return all;
}

static int put_runs(struct handover_sessions *to, const struct session *s)
{
	size_t n;
	_cleanup_free_ struct run **all = all_runs(s, &n);
	int r = all ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n; i++) {
		r = put_run(to, all[i]);
		if (r == 0)
			r = put_asked(to, all[i]);
		if (!to->sink->compares)
			all[i]->is_asked = true;
	}
	return r;
}

static int put_jobs(struct handover_sessions *to, const struct session *s)
{
	_cleanup_free_ struct job **all = NULL;
	struct job *j;
	size_t n = 0;
	int r = 0;

	LIST_FOREACH(j, &s->kept_jobs, kept)
		n++;
	all = calloc(n + 1, sizeof(struct job *));
	if (!all)
		return -ENOMEM;
	n = 0;
	LIST_FOREACH(j, &s->kept_jobs, kept)
		all[n++] = j;
	while (r == 0 && n > 0) /* the oldest is the last there */
		r = put_job(to, all[--n]);
	return r;
}

static int put_session(struct handover_sessions *to, const struct session *s)
{
	const struct scratch_file *file;
	int r = put_head(to, s);

	if (r == 0)
		r = put_rest(to, s);
	if (r == 0)
		r = put_runs(to, s);
	if (r == 0)
		r = put_jobs(to, s);
	TAILQ_FOREACH(file, &s->scratch.files, link)
		if (r == 0)
			r = put_scratch(to, s, file);
	return r;
}

struct session **handover_all_sessions(const struct fs *fs, size_t *ret_n)
{
	struct session **all, *s;
	size_t n = 0;

	LIST_FOREACH(s, &fs->sessions, kept)
		n++;
	all = calloc(n + 1, sizeof(struct session *));
	*ret_n = n;
	if (all) {
		LIST_FOREACH(s, &fs->sessions, kept)
			all[--n] = s;
	}
	return all;
}

static int put_removal(struct handover_sessions *to, struct touch *what)
{
	uint64_t id;
	const int r = to->fs->keeping->put_removal(to->fs, what, sink_begin(to->sink), &id);

	return end(to, r, KEEP_REMOVAL, id, 0);
}

static struct touch *next_removal(const struct fs *fs, struct touch *last)
{
	return fs->keeping ? fs->keeping->next_removal(fs, last) : NULL;
}

int handover_put_sessions(struct fs *fs, struct handover_sink *sink)
{
	struct handover_sessions to = {.fs = fs, .sink = sink};
	size_t n;
	_cleanup_free_ struct session **all = handover_all_sessions(fs, &n);
	int r = all ? 0 : -ENOMEM;
	struct touch *removal;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = put_session(&to, all[i]);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = put_sandbox(&to, all[i]);
		if (r == 0)
			r = put_calls(&to, all[i]);
		if (r == 0)
			r = put_workdir(&to, all[i]);
		if (r == 0)
			r = put_commit(&to, all[i]);
	}
	for (removal = next_removal(fs, NULL); r == 0 && removal;
	     removal = next_removal(fs, removal))
		r = put_removal(&to, removal);
	handover_saved_fini(&to);
	return r;
}

/* ---- what was touched ---- */

/* With a session those that go on. */
static void touch_going(struct session *s)
{
	struct run *run;
	struct job *j;

	if (s->active)
		touch_run(s->active);
	TAILQ_FOREACH(run, &s->queue, queue)
		touch_run(run);
	TAILQ_FOREACH(j, &s->jobs, link) {
		if (j->inside || j->unsent || job_going(j))
			touch_job(j);
		if (job_going(j))
			touch_run(j->front.latest);
	}
}

static int commit_session(struct handover_sessions *to, struct touch *what)
{
	struct session *s = container_of(what, struct session, touch);
	int r = put_head(to, s);

	aim_at("commit: session %s/%s", s->t->name, s->name);
	touch_going(s);
	if (r == 0)
		r = put_calls(to, s);
	if (r == 0)
		r = put_workdir(to, s);
	return r == 0 ? put_commit(to, s) : r;
}

static int commit_sandbox(struct handover_sessions *to, struct touch *what)
{
	const struct session *s = container_of(what, struct session, touch_sandbox);
	const int r = put_sandbox(to, s);

	return r == 0 ? put_calls(to, s) : r;
}

static int commit_rest(struct handover_sessions *to, struct touch *what)
{
	return put_rest(to, container_of(what, struct session, touch_rest));
}

static int commit_run(struct handover_sessions *to, struct touch *what)
{
	struct run *r = container_of(what, struct run, touch);
	int e = put_run(to, r);

	if (e == 0 && !r->is_asked)
		e = put_asked(to, r);
	r->is_asked = e == 0;
	return e;
}

static int commit_job(struct handover_sessions *to, struct touch *what)
{
	return put_job(to, container_of(what, struct job, touch));
}

static int commit_scratch(struct handover_sessions *to, struct touch *what)
{
	const struct scratch_file *file = container_of(what, struct scratch_file, touch);

	return put_scratch(to, file->front->s, file);
}

static int commit_block(struct handover_sessions *to, struct touch *what)
{
	return outputs_put_block(to->sink, container_of(what, struct block, touch));
}

/* In an order in which nothing is touched in a list that is done. */
static const struct {
	enum touched_kind kind;
	int (*commit)(struct handover_sessions *to, struct touch *what);
} commits[] = {
	{TOUCHED_SESSION, commit_session}, {TOUCHED_REST, commit_rest},
	{TOUCHED_SANDBOX, commit_sandbox}, {TOUCHED_RUN, commit_run},
	{TOUCHED_JOB, commit_job},	   {TOUCHED_SCRATCH, commit_scratch},
	{TOUCHED_BLOCK, commit_block},	   {TOUCHED_REMOVAL, put_removal},
};

static int drop_session(struct handover_sink *sink, uint64_t key)
{
	int r = sink_drop(sink, KEEP_SESSION, key, PART_HEAD);

	if (r == 0)
		r = sink_drop(sink, KEEP_SESSION, key, PART_REST);
	if (r == 0)
		r = sink_drop(sink, HANDOVER_SANDBOX, key, 0);
	if (r == 0)
		r = sink_drop(sink, HANDOVER_CALLS, key, 0);
	if (r == 0)
		r = sink_drop(sink, HANDOVER_WORKDIR, key, 0);
	if (r == 0)
		r = sink_drop(sink, HANDOVER_COMMIT, key, 0);
	return r == 0 ? handover_drop_files(sink->estate, key) : r;
}

static int drop(struct fs *fs, struct handover_sink *sink, const struct touched_gone *gone)
{
	int r;

	switch (gone->kind) {
	case TOUCHED_SESSION: return drop_session(sink, gone->key);
	case TOUCHED_RUN:
		r = sink_drop(sink, KEEP_RUN, gone->key, gone->id * PART_NUM + PART_RUN);
		return r < 0 ? r
			     : sink_drop(sink, KEEP_RUN, gone->key,
					 gone->id * PART_NUM + PART_ASKED);
	case TOUCHED_JOB: return sink_drop(sink, KEEP_JOB, gone->key, gone->id);
	case TOUCHED_SCRATCH: return sink_drop(sink, KEEP_SCRATCH, gone->key, gone->id);
	case TOUCHED_SAVED: return sink_drop(sink, HANDOVER_SAVED, gone->key, 0);
	case TOUCHED_BLOCK:
		sink_drop_all(sink, KEEP_TEXT, gone->key);
		return sink_drop(sink, KEEP_BLOCK, gone->key, 0);
	case TOUCHED_REMOVAL: return sink_drop(sink, KEEP_REMOVAL, gone->key, 0);
	case TOUCHED_TEXT: sink_drop_all(sink, KEEP_TEXT, gone->key); return 0;
	case TOUCHED_HANDLE: return handover_drop_handle(fs, sink, gone->key);
	case TOUCHED_REST:
	case TOUCHED_FILES:
	case TOUCHED_SANDBOX:
	case TOUCHED_NKINDS: break;
	}
	return 0;
}

int handover_commit_sessions(struct fs *fs, struct handover_sink *sink)
{
	struct touched *t = &fs->touched;
	struct handover_sessions to = {.fs = fs, .sink = sink, .changes_only = true};
	struct touch *what;
	int r = t->failed;

	/* First, for their names may have been given again. */
	for (size_t i = 0; r == 0 && i < t->ngone; i++)
		r = drop(fs, sink, &t->gone[i]);
	t->ngone = 0;
	for (size_t i = 0; i < ARRAY_SIZE(commits); i++) {
		while (r == 0 && (what = touched_first(t, commits[i].kind))) {
			touched_take(t, commits[i].kind, what);
			r = commits[i].commit(&to, what);
		}
	}
	if (r == 0)
		r = handover_commit_saved(&to);
	handover_saved_fini(&to);
	return r;
}

void handover_settle_sessions(struct fs *fs)
{
	struct touched *t = &fs->touched;
	struct touch *what;

	for (unsigned i = 0; i < ARRAY_SIZE(commits); i++)
		while ((what = touched_first(t, commits[i].kind)))
			touched_take(t, commits[i].kind, what);
	t->ngone = 0;
}

/* ---- reading ---- */

static int find_saved(void *data, const char *name, struct saved **ret_saved, struct problem *why)
{
	char *rest;
	const unsigned long long number = strtoull(name, &rest, 10);

	*ret_saved = *rest ? NULL : handover_find_saved(data, number);
	if (*ret_saved)
		return 0;
	problem_set(why, PROBLEM_FAILED, "", "what was saved is not there");
	return -EBADMSG;
}

static int is_back(void *data, const struct keep_output *o, struct spool *sp)
{
	(void)data;
	(void)o;
	sp->kept = true;
	return sp->away ? 0 : -EBADMSG;
}

static int take_text(void *data, struct trail *t, uint64_t at, size_t len, struct buf *dest)
{
	return texts_take(data, t, at, len, dest);
}

static int take_blocks(void *data, struct spool *sp)
{
	return outputs_take(data, sp);
}

/* Where nothing is kept there is nothing to be removed either. */
static int get_removal(struct fs *fs, const struct record *rec)
{
	return fs->keeping ? fs->keeping->get_removal(fs, rec->key, rec->fields) : 0;
}

int handover_get_session(struct fs *fs, const struct record *rec, struct problem *why)
{
	const struct keep_io io = {.live = true,
				   .data = fs,
				   .back = is_back,
				   .find = find_saved,
				   .text_back = take_text,
				   .blocks_back = take_blocks};

	switch (rec->kind) {
	case KEEP_TEXT: return texts_get(fs, rec->key, rec->fields);
	case KEEP_REMOVAL: return get_removal(fs, rec);
	case KEEP_BLOCK: return outputs_get(fs, rec->key, rec->fields);
	default: return keep_get_live(fs, rec, &io, why);
	}
}

void handover_join_sessions(struct fs *fs)
{
	keep_join(fs);
	keep_settle(fs);
	texts_clear(fs);
	outputs_clear(fs);
	depot_resumed(&fs->depot);
	handover_forget_saved(fs);
}
