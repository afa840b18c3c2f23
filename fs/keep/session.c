/* SPDX-License-Identifier: Apache-2.0 */
/* Records of sessions, as a whole. See keep.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "internal.h"

/* Never reuse a number. The order in which they are written is that in which they are needed: runs before those whose they
 * are. */
enum {
	S_NAME = 1,
	S_TEMPLATE,
	S_UID,
	S_GID,
	S_DEAD,
	S_STATE,
	S_SETTINGS,
	S_CREATED,
	S_CHANGED,
	S_NET_CHANGED,
	S_STATE_MTIME,
	S_CONFIG_MTIME,
	S_FILES_MTIME,
	S_RUNS_MTIME,
	S_PORTS_MTIME,
	S_JOBS_MTIME,
	S_CHECKPOINTS_MTIME,
	S_CONSOLE_MTIME,
	S_READY,
	S_RESET_ASKED,
	S_EPOCH,
	S_DIR_EPOCH,
	S_INFO,
	S_RUN,
	S_LAST_NUMBER,
	S_LAST_RAN,
	S_REMOVED_RUNS,
	S_LAST_JOB,
	S_LAST_CHECKPOINT,
	S_LAST_SCRATCH,
	S_FIRST_EVENT,
	S_FRONT,
	S_JOB,
	S_SCRATCH,
	S_STANDING,
	S_CLOSED,
	S_CONSOLE,
	S_CONSOLE_LOST,
	S_IDLE_SINCE,
	S_CHANGES,
	S_FILE_EVENTS,
	S_PAUSE,
	S_SAVING,
	S_ASLEEP,
	S_CHECKPOINT,
	S_ORIGIN,
	S_NETLOG,
	S_CONSOLE_TEXT,
	S_NOT_KEPT, /* live: why it could not be written to the state directory */
	S_DAMAGED,  /* live: what is there of it can't be read */
	S_LINE,
	S_LIFE,
	S_LIVES,
	S_BORN, /* live */
	S_CONNLOG,
	S_QUESTIONS,
	S_NET_USED,
	S_RUNS_BEFORE,
	S_LEARNED,
	S_LESSONS,
	S_BASE_CHECKPOINT,
	S_BASE_FLAGS,
	S_REPLAY, /* it is one */
};

/* ---- writing ---- */

/* Does somebody have it but handles? */
static bool is_run_kept(const struct session *s, const struct run *r)
{
	const struct run *other;
	const struct job *j;

	if (r == s->front.latest)
		return true;
	TAILQ_FOREACH(other, &s->runs, link)
		if (other == r)
			return true;
	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->front.latest == r)
			return true;
	return false;
}

/* Those that belong into the record, oldest first. Return: 0 or -ENOMEM. */
static int gather_runs(struct keep_out *o)
{
	struct run *r;
	size_t n = 0;

	LIST_FOREACH(r, &o->s->kept_runs, kept)
		n++;
	o->run = calloc(n + 1, sizeof(struct run *));
	if (!o->run)
		return -ENOMEM;
	LIST_FOREACH(r, &o->s->kept_runs, kept)
		if (is_run_kept(o->s, r))
			o->run[o->nruns++] = r;
	for (size_t i = 0; i < o->nruns / 2; i++) {
		r = o->run[i];
		o->run[i] = o->run[o->nruns - 1 - i];
		o->run[o->nruns - 1 - i] = r;
	}
	return 0;
}

static void put_identity(struct keep_out *o)
{
	const struct session *s = o->s;

	record_str(o->out, S_NAME, s->name);
	record_str(o->out, S_TEMPLATE, s->t->name);
	record_u64(o->out, S_UID, s->uid);
	record_u64(o->out, S_GID, s->gid);
	keep_put_u64(o->out, S_DEAD, s->dead);
}

static void put_times(struct keep_out *o)
{
	const struct session *s = o->s;

	record_time(o->out, S_CREATED, &s->created);
	record_time(o->out, S_CHANGED, &s->changed);
	record_time(o->out, S_NET_CHANGED, &s->net_changed);
	record_time(o->out, S_STATE_MTIME, &s->state_mtime);
	record_time(o->out, S_CONFIG_MTIME, &s->config_mtime);
	record_time(o->out, S_FILES_MTIME, &s->files_mtime);
	record_time(o->out, S_RUNS_MTIME, &s->runs_mtime);
	record_time(o->out, S_PORTS_MTIME, &s->ports_mtime);
	record_time(o->out, S_JOBS_MTIME, &s->jobs_mtime);
	record_time(o->out, S_CHECKPOINTS_MTIME, &s->checkpoints.mtime);
	record_time(o->out, S_CONSOLE_MTIME, &s->console_mtime);
}

static void put_numbers(struct keep_out *o)
{
	const struct session *s = o->s;

	keep_put_u64(o->out, S_LAST_NUMBER, s->last_number);
	/* What runs at the end has been executed, if not to its end. */
	keep_put_u64(o->out, S_LAST_RAN,
		     s->active && !o->io->live ? s->active->number : s->last_ran);
	keep_put_u64(o->out, S_RUNS_BEFORE, s->runs_before);
	keep_put_u64(o->out, S_BASE_CHECKPOINT, s->base.checkpoint);
	keep_put_u64(o->out, S_BASE_FLAGS, keep_base_flags(&s->base));
	keep_put_u64(o->out, S_REMOVED_RUNS, s->removed_runs);
	keep_put_u64(o->out, S_LAST_JOB, s->last_job);
	keep_put_u64(o->out, S_LAST_CHECKPOINT, s->checkpoints.last);
	keep_put_u64(o->out, S_LAST_SCRATCH, s->scratch.last_id);
	keep_put_u64(o->out, S_LIFE, s->life);
	keep_put_u64(o->out, S_LIVES, s->lives);
}

static void put_live_numbers(struct keep_out *o)
{
	const struct session *s = o->s;

	keep_put_u64(o->out, S_READY, s->ready);
	keep_put_u64(o->out, S_RESET_ASKED, s->reset_asked);
	keep_put_u64(o->out, S_EPOCH, s->epoch);
	keep_put_u64(o->out, S_LINE, s->line);
	keep_put_u64(o->out, S_BORN, s->born);
	keep_put_u64(o->out, S_DIR_EPOCH, s->dir_epoch);
	keep_put_u64(o->out, S_FIRST_EVENT, s->first_event);
	keep_put_u64(o->out, S_IDLE_SINCE, s->idle_since);
	keep_put_u64(o->out, S_NOT_KEPT, (uint64_t)-s->on_disk.err);
	keep_put_u64(o->out, S_DAMAGED, s->on_disk.damaged);
}

static void put_state(struct keep_out *o)
{
	const enum session_state state = keep_state(o);
	struct problem why;

	record_str(o->out, S_STATE, session_state_str(state));
	if (state == SESSION_CLOSED) {
		keep_closed(o, &why);
		keep_put_problem(o->out, S_CLOSED, &why);
	}
	(void)keep_put_settings(o->out, S_SETTINGS, &o->s->settings);
}

/* At rest only what has a name. */
static void put_lists(struct keep_out *o)
{
	const struct scratch_file *file;
	const struct checkpoint *cp;
	struct job *j;

	TAILQ_FOREACH(j, &o->s->jobs, link)
		keep_put_job(o, S_JOB, j);
	TAILQ_FOREACH(file, &o->s->scratch.files, link)
		if (!file->unlinked)
			keep_put_scratch(o, S_SCRATCH, file);
	TAILQ_FOREACH(cp, &o->s->checkpoints.list, link)
		keep_put_checkpoint(o, S_CHECKPOINT, cp);
}

/* What its network was used for. */
static void put_policy(struct keep_out *o)
{
	keep_put_netlog(o, S_NETLOG);
	keep_put_connlog(o, S_CONNLOG);
	keep_put_lessons(o, S_LESSONS);
	keep_put_questions(o, S_QUESTIONS);
	keep_put_net_used(o, S_NET_USED);
}

static void put_fields(struct keep_out *o)
{
	const struct session *s = o->s;

	put_identity(o);
	put_state(o);
	put_times(o);
	put_numbers(o);
	keep_put_replay(o, S_REPLAY);
	for (size_t i = 0; i < o->nruns; i++)
		keep_put_run(o, S_RUN, o->run[i]);
	keep_put_front(o, S_FRONT, (struct front *)&s->front);
	put_lists(o);
	keep_put_asleep(o, S_ASLEEP);
	keep_put_origin(o, S_ORIGIN);
	keep_put_info(o, S_INFO);
	put_policy(o);
	keep_put_file_events(o, S_FILE_EVENTS);
	keep_put_learned(o, S_LEARNED);
	keep_put_buf(o->out, S_CONSOLE, &s->console);
	keep_put_u64(o->out, S_CONSOLE_LOST, s->console_lost);
}

/* What may be long in it. So one that is too long is known before all of it was copied, in which others wait. */
static size_t least_size(const struct keep_out *o)
{
	size_t n = o->s->front.next_stdin.len + o->s->console.len + o->s->connlog.log.len;
	const struct scratch_file *file;
	const struct job *j;

	for (size_t i = 0; i < o->nruns; i++)
		n += keep_code_here(o->run[i]) + o->run[i]->env.len;
	TAILQ_FOREACH(j, &o->s->jobs, link)
		n += j->front.next_stdin.len;
	TAILQ_FOREACH(file, &o->s->scratch.files, link)
		n += file->unlinked ? 0 : file->data.len;
	return n;
}

int keep_put(struct buf *out, const struct session *s, const struct keep_io *io)
{
	struct keep_out o = {.out = out, .s = s, .io = io};
	const size_t begin = out->len;
	int e = gather_runs(&o);
	size_t at, least;

	assert(!io->live && !s->dead);
	if (e == 0) {
		least = least_size(&o);
		e = least > RECORD_MAX ? -EFBIG : buf_reserve(out, least);
	}
	if (e == 0) {
		at = record_begin(out, KEEP_SESSION, 0);
		put_fields(&o);
		e = record_end(out, at);
	}
	free(o.run);
	if (e < 0)
		out->len = begin;
	return e;
}

/* ---- writing, live ---- */

int keep_put_head(struct buf *out, const struct session *s, const struct keep_io *io)
{
	struct session *trails = (struct session *)s; /* what is written is noted in it */
	struct keep_out o = {.out = out, .s = s, .io = io};

	put_identity(&o);
	record_str(out, S_STATE, session_state_str(s->state));
	put_times(&o);
	put_numbers(&o);
	put_live_numbers(&o);
	keep_put_replay(&o, S_REPLAY);
	keep_put_front(&o, S_FRONT, &trails->front);
	keep_put_asleep(&o, S_ASLEEP);
	keep_put_saving(&o, S_SAVING);
	keep_put_info(&o, S_INFO);
	keep_put_file_events(&o, S_FILE_EVENTS);
	keep_put_learned(&o, S_LEARNED);
	keep_put_pause(&o, S_PAUSE);
	keep_put_text(&o, S_CONSOLE_TEXT, &trails->console_trail, s->console_cut, s->console.data,
		      s->console.len);
	keep_put_u64(out, S_CONSOLE_LOST, s->console_lost);
	return out->failed;
}

int keep_put_rest(struct buf *out, const struct session *s, const struct keep_io *io)
{
	struct keep_out o = {.out = out, .s = s, .io = io};
	const struct checkpoint *cp;

	if (!s->dead)
		(void)keep_put_settings(out, S_SETTINGS, &s->settings);
	if (s->state == SESSION_CLOSED || s->on_disk.damaged)
		keep_put_kept(out, S_CLOSED, &s->closed);
	keep_put_kept(out, S_STANDING, &s->standing);
	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		keep_put_checkpoint(&o, S_CHECKPOINT, cp);
	keep_put_origin(&o, S_ORIGIN);
	put_policy(&o);
	keep_put_changes(&o, S_CHANGES);
	return out->failed;
}

/* ---- who it is ---- */

static int name_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct keep_whose *of = to;

	(void)in;
	switch (f->tag) {
	case S_NAME: return record_get_str(f, of->name.name, sizeof(of->name.name));
	case S_TEMPLATE: return record_get_str(f, of->name.template, sizeof(of->name.template));
	case S_UID: return record_get_u32(f, UINT32_MAX - 1, &of->name.uid);
	case S_GID: return record_get_u32(f, UINT32_MAX - 1, &of->name.gid);
	case S_DEAD: return record_get_bool(f, &of->dead);
	default: return 0;
	}
}

int keep_get_whose(const struct record *record, struct keep_whose *ret)
{
	struct keep_whose of = {.name = {.uid = UINT32_MAX, .gid = UINT32_MAX}};
	int e = record->kind == KEEP_SESSION ? 0 : -EBADMSG;

	if (e == 0)
		e = keep_fields(NULL, record->fields, name_field, &of);
	if (e == 0 && (!plain_name_ok(of.name.name) || !plain_name_ok(of.name.template) ||
		       of.name.uid == UINT32_MAX || of.name.gid == UINT32_MAX))
		e = -EBADMSG;
	if (e == 0)
		*ret = of;
	return e;
}

int keep_get_name(const struct record *record, struct keep_name *ret_name)
{
	struct keep_whose of;
	const int e = keep_get_whose(record, &of);

	if (e == 0)
		*ret_name = of.name;
	return e;
}

/* ---- what it names ---- */

static int name_saved(struct keep_in *in, void *to, const struct record_field *f)
{
	switch (f->tag) {
	case S_ASLEEP: return keep_inside(in, f, keep_name_asleep, to);
	case S_CHECKPOINT: return keep_inside(in, f, keep_name_checkpoint, to);
	default: return 0;
	}
}

int keep_get_names(const struct record *record, int (*fn)(void *data, const char *name), void *data)
{
	struct keep_naming to = {fn, data};

	if (record->kind != KEEP_SESSION)
		return -EBADMSG;
	return keep_fields(NULL, record->fields, name_saved, &to);
}

/* ---- reading ---- */

static int get_state(struct keep_in *in, const struct record_field *f)
{
	char name[16];
	int e = record_get_str(f, name, sizeof(name));

	for (unsigned i = 0; e == 0 && i < SESSION_NSTATES; i++) {
		if (strcmp(name, session_state_str((enum session_state)i)) != 0)
			continue;
		in->s->state = (enum session_state)i;
		return 0;
	}
	return -EBADMSG;
}

static int get_settings(struct keep_in *in, const struct record_field *f)
{
	struct problem why = {0};
	const int e = keep_get_settings(in, f, &in->s->settings, &why);

	return e <= 0 ? e : keep_not_allowed(in, "its", &why);
}

static int time_field(struct session *s, const struct record_field *f)
{
	switch (f->tag) {
	case S_CREATED: return record_get_time(f, &s->created);
	case S_CHANGED: return record_get_time(f, &s->changed);
	case S_NET_CHANGED: return record_get_time(f, &s->net_changed);
	case S_STATE_MTIME: return record_get_time(f, &s->state_mtime);
	case S_CONFIG_MTIME: return record_get_time(f, &s->config_mtime);
	case S_FILES_MTIME: return record_get_time(f, &s->files_mtime);
	case S_RUNS_MTIME: return record_get_time(f, &s->runs_mtime);
	case S_PORTS_MTIME: return record_get_time(f, &s->ports_mtime);
	case S_JOBS_MTIME: return record_get_time(f, &s->jobs_mtime);
	case S_CHECKPOINTS_MTIME: return record_get_time(f, &s->checkpoints.mtime);
	case S_CONSOLE_MTIME: return record_get_time(f, &s->console_mtime);
	default: return 0;
	}
}

static int number_field(struct session *s, const struct record_field *f)
{
	switch (f->tag) {
	case S_LAST_NUMBER: return record_get_u32(f, SANDBOX_JOB_ID - 1, &s->last_number);
	case S_LAST_RAN: return record_get_u32(f, SANDBOX_JOB_ID - 1, &s->last_ran);
	case S_REMOVED_RUNS: return record_get_u32(f, UINT32_MAX, &s->removed_runs);
	case S_LAST_JOB: return record_get_u32(f, JOB_NUMBER_MAX, &s->last_job);
	case S_LAST_CHECKPOINT: return record_get_u32(f, UINT32_MAX, &s->checkpoints.last);
	case S_LAST_SCRATCH: return record_get_u32(f, UINT32_MAX, &s->scratch.last_id);
	case S_RUNS_BEFORE: return record_get_u32(f, UINT32_MAX, &s->runs_before);
	case S_BASE_CHECKPOINT: return record_get_u32(f, UINT32_MAX, &s->base.checkpoint);
	case S_BASE_FLAGS: return keep_get_base_flags(f, &s->base);
	case S_LIFE: return record_get_u32(f, UINT32_MAX, &s->life);
	case S_LIVES: return record_get_u32(f, UINT32_MAX, &s->lives);
	default: return time_field(s, f);
	}
}

static int get_not_kept(const struct record_field *f, int *ret_err)
{
	uint64_t v;
	const int e = record_get(f, 0, 4095, &v);

	if (e == 0)
		*ret_err = -(int)v;
	return e;
}

static int live_field(struct session *s, const struct record_field *f)
{
	switch (f->tag) {
	case S_READY: return record_get_bool(f, &s->ready);
	case S_RESET_ASKED: return record_get_bool(f, &s->reset_asked);
	case S_EPOCH: return record_get_u32(f, UINT32_MAX, &s->epoch);
	case S_LINE: return record_get_u32(f, UINT32_MAX, &s->line);
	case S_BORN: return record_get_u32(f, UINT32_MAX, &s->born);
	case S_DIR_EPOCH: return record_get_u32(f, UINT32_MAX, &s->dir_epoch);
	case S_FIRST_EVENT: return record_get(f, 0, UINT64_MAX, &s->first_event);
	case S_IDLE_SINCE: return record_get(f, 0, UINT64_MAX, &s->idle_since);
	case S_STANDING: return keep_get_kept(f, &s->standing);
	case S_DAMAGED: return record_get_bool(f, &s->on_disk.damaged);
	case S_NOT_KEPT: return get_not_kept(f, &s->on_disk.err);
	default: return number_field(s, f);
	}
}

static int get_console(struct keep_in *in, const struct record_field *f)
{
	struct session *s = in->s;

	return keep_get_text_of(in, f, &s->console_trail, &s->console, 2 * SESSION_CONSOLE_MAX,
				&s->console_cut);
}

int keep_session_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct session *s = to;

	switch (f->tag) {
	case S_STATE: return get_state(in, f);
	case S_SETTINGS: return get_settings(in, f);
	case S_CLOSED: return keep_get_kept(f, &s->closed);
	case S_RUN: return keep_get_run(in, f);
	case S_FRONT: return keep_get_front(in, f, &s->front);
	case S_JOB: return keep_get_job(in, f);
	case S_SCRATCH: return keep_get_scratch(in, f);
	case S_CHECKPOINT: return keep_get_checkpoint(in, f);
	case S_ASLEEP: return keep_get_asleep(in, f);
	case S_SAVING: return keep_get_saving(in, f);
	case S_ORIGIN: return keep_get_origin(in, f);
	case S_REPLAY: return keep_get_replay(in, f);
	case S_INFO: return keep_get_info(in, f);
	case S_NETLOG: return keep_get_netlog(in, f);
	case S_CONNLOG: return keep_get_connlog(in, f);
	case S_LESSONS: return keep_get_lessons(in, f);
	case S_QUESTIONS: return keep_get_questions(in, f);
	case S_NET_USED: return keep_get_net_used(in, f);
	case S_FILE_EVENTS: return keep_get_file_events(in, f);
	case S_LEARNED: return keep_get_learned(in, f);
	case S_CHANGES: return keep_get_changes(in, f);
	case S_PAUSE: return keep_get_pause(in, f);
	case S_CONSOLE_TEXT: return get_console(in, f);
	case S_CONSOLE: return keep_get_buf(f, &s->console, 2 * SESSION_CONSOLE_MAX);
	case S_CONSOLE_LOST: return record_get_bool(f, &s->console_lost);
	default: return in->io->live ? live_field(s, f) : number_field(s, f);
	}
}
