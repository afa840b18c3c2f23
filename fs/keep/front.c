/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what a session and a job have alike: front.h. */
#include <errno.h>
#include <string.h>

#include "fs/request/clock.h"
#include "fs/session/fs.h"
#include "fs/session/keeping.h"
#include "internal.h"

/* Never reuse a number. */
enum {
	FRONT_CREATED = 1,
	FRONT_LATEST,
	FRONT_CODE, /* missing: that of the newest run */
	FRONT_IN_MTIME,
	FRONT_IN_ABSENT,
	FRONT_STDIN,
	FRONT_STDIN_TAKEN,
	FRONT_STDIN_MTIME,
	FRONT_ERROR,
	FRONT_CONFIG_ERROR,
	FRONT_ERROR_MTIME,
	FRONT_NO_CODE,
	FRONT_RUN,	  /* live: the id of the newest run */
	FRONT_STDIN_TEXT, /* live */
};

static bool has_code_of(const struct front *front, const struct run *r)
{
	const struct buf *a = &front->last_code;

	return r && front->code_lost == r->code_lost && a->len == r->code.len &&
	       (!a->len || memcmp(a->data, r->code.data, a->len) == 0);
}

static void put_code(struct keep_out *o, const struct front *front, bool latest)
{
	if (latest && has_code_of(front, front->latest))
		return;
	keep_put_u64(o->out, FRONT_NO_CODE, !front->last_code.len);
	keep_put_buf(o->out, FRONT_CODE, &front->last_code);
}

/* Return: whether there is one, in records. */
static bool put_latest(struct keep_out *o, const struct front *front)
{
	const uint64_t place = o->io->live ? 0 : keep_run_place(o, front->latest);

	if (o->io->live && front->latest)
		record_u64(o->out, FRONT_RUN, touched_id(&o->s->fs->touched, &front->latest->mark));
	keep_put_u64(o->out, FRONT_LATEST, place);
	return o->io->live ? front->latest != NULL : place > 0;
}

void keep_put_front(struct keep_out *o, unsigned tag, struct front *front)
{
	const size_t at = record_open(o->out, tag);
	const bool closes = !front->job && !o->io->live && o->s->state != SESSION_CLOSED &&
			    keep_state(o) == SESSION_CLOSED;
	const struct timespec now = clock_now();
	struct problem error;

	if (closes)
		keep_closed(o, &error);
	else
		error = *problem_kept(&front->error);
	record_time(o->out, FRONT_CREATED, &front->created);
	put_code(o, front, put_latest(o, front));
	record_time(o->out, FRONT_IN_MTIME, &front->in_mtime);
	keep_put_u64(o->out, FRONT_IN_ABSENT, front->in_absent);
	if (o->io->live)
		keep_put_text(o, FRONT_STDIN_TEXT, &front->stdin_trail, 0, front->next_stdin.data,
			      front->next_stdin.len);
	else
		keep_put_buf(o->out, FRONT_STDIN, &front->next_stdin);
	keep_put_u64(o->out, FRONT_STDIN_TAKEN, front->stdin_taken);
	record_time(o->out, FRONT_STDIN_MTIME, &front->stdin_mtime);
	keep_put_problem(o->out, FRONT_ERROR, &error);
	keep_put_u64(o->out, FRONT_CONFIG_ERROR, front->config_error);
	record_time(o->out, FRONT_ERROR_MTIME, closes ? &now : &front->error_mtime);
	record_close(o->out, at);
}

struct fronting {
	struct front *front;
	bool own_code;
};

/* Return: 0 or -EBADMSG. */
static int set_latest(struct front *front, struct run *r)
{
	if (front->latest)
		return -EBADMSG;
	/* A job's run is its own; a named run's, and a session's, are the session's. */
	if (front->job && !front->job->of_session &&
	    (strcmp(r->job, front->job->name) != 0 ||
	     r->id != (SANDBOX_JOB_ID | front->job->number)))
		return -EBADMSG;
	if ((!front->job || front->job->of_session) && *r->job)
		return -EBADMSG;
	front->latest = run_ref(r);
	return 0;
}

static int get_latest(struct keep_in *in, struct front *front, const struct record_field *f)
{
	struct run *r;
	const int e = in->io->live ? -EBADMSG : keep_run_at(in, f, &r);

	return e < 0 ? e : set_latest(front, r);
}

static int front_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct fronting *fronting = to;
	struct front *front = fronting->front;

	switch (f->tag) {
	case FRONT_CREATED: return record_get_time(f, &front->created);
	case FRONT_LATEST: return get_latest(in, front, f);
	case FRONT_CODE:
		fronting->own_code = true;
		return keep_get_buf(f, &front->last_code, SESSION_CODE_MAX);
	case FRONT_NO_CODE: return record_get_bool(f, &fronting->own_code);
	case FRONT_IN_MTIME: return record_get_time(f, &front->in_mtime);
	case FRONT_IN_ABSENT: return record_get_bool(f, &front->in_absent);
	case FRONT_RUN: return record_get(f, 1, UINT64_MAX / 2, &front->awaited);
	case FRONT_STDIN_TEXT:
		return keep_get_text_of(in, f, &front->stdin_trail, &front->next_stdin,
					SESSION_STDIN_MAX, NULL);
	case FRONT_STDIN: return keep_get_buf(f, &front->next_stdin, SESSION_STDIN_MAX);
	case FRONT_STDIN_TAKEN: return record_get(f, 0, UINT64_MAX, &front->stdin_taken);
	case FRONT_STDIN_MTIME: return record_get_time(f, &front->stdin_mtime);
	case FRONT_ERROR: return keep_get_kept(f, &front->error);
	case FRONT_CONFIG_ERROR: return record_get_bool(f, &front->config_error);
	case FRONT_ERROR_MTIME: return record_get_time(f, &front->error_mtime);
	default: return 0;
	}
}

/* Its code is the run's, unless the record says other. Return: 0 or -ENOMEM. */
static int take_code(struct front *front)
{
	front->code_lost = front->latest->code_lost;
	return buf_append(&front->last_code, front->latest->code.data, front->latest->code.len);
}

int keep_get_front(struct keep_in *in, const struct record_field *f, struct front *front)
{
	struct fronting fronting = {front, false};
	int e = keep_inside(in, f, front_field, &fronting);

	if (e < 0)
		return e;
	if (!in->io->live && keeping_is_problem(problem_kept(&front->error)))
		problem_keep(&front->error, NULL);
	if (in->io->live)
		front->awaits_code = front->awaited && !fronting.own_code;
	return front->latest && !fronting.own_code ? take_code(front) : 0;
}

int keep_join_front(const struct fs *fs, struct front *front)
{
	struct run *r = front->awaited ? keep_run_of(fs, front->s, front->awaited) : NULL;
	int e = !front->awaited ? 0 : r ? set_latest(front, r) : -EBADMSG;

	if (e == 0 && front->awaits_code)
		e = take_code(front);
	front->awaited = 0;
	front->awaits_code = false;
	return e;
}
