/* SPDX-License-Identifier: Apache-2.0 */
/* The live form of sessions, as it is read: record by record. See keep.h. */
#include <errno.h>
#include <string.h>

#include "fs/session/fs.h"
#include "internal.h"

struct session *keep_session(struct fs *fs, uint64_t key)
{
	const unsigned slot = (unsigned)(key >> 32), generation = (unsigned)key;
	struct session *s = session_by_slot(fs, slot, generation);

	if (s)
		return s;
	LIST_FOREACH(s, &fs->sessions, kept) {
		if (s->slot == slot && s->generation == generation)
			return s;
	}
	return NULL;
}

/* The first record of a session is its head; whatever others there are say more of it. What of it could be read is there still if
 * something could not, where keep_salvage() is to follow. */
static int get_session(struct keep_in *in, const struct record *record)
{
	struct session_place at = {.slot = (unsigned)(record->key >> 32),
				   .generation = (unsigned)record->key};
	int e;

	if (in->s)
		return keep_fill(in, record);
	e = keep_revive(in, record, &at);
	if (e < 0)
		return e;
	e = keep_fill(in, record);
	if (e < 0 && !in->fs->inherited.died)
		keep_discard(in->s);
	return e;
}

int keep_get_live(struct fs *fs, const struct record *record, const struct keep_io *io,
		  struct problem *why)
{
	struct keep_in in = {.fs = fs, .io = io, .why = why, .s = keep_session(fs, record->key)};
	int e;

	if (fs->inherited.complete || (!in.s && record->kind != KEEP_SESSION))
		return keep_damaged(why, "");
	switch (record->kind) {
	case KEEP_SESSION: return get_session(&in, record);
	case KEEP_RUN: e = keep_get_live_run(&in, record); break;
	case KEEP_JOB: e = keep_get_live_job(&in, record); break;
	case KEEP_SCRATCH: e = keep_get_live_scratch(&in, record); break;
	default: return -EBADMSG;
	}
	return e == -EBADMSG ? keep_damaged(why, "") : e;
}

void keep_drop(struct session *s)
{
	struct run *r, *next;

	LIST_FOREACH(r, &s->kept_runs, kept)
		r->state = run_ended(r) ? r->state : RUN_LOST;
	for (r = LIST_FIRST(&s->kept_runs); r; r = next) {
		next = LIST_NEXT(r, kept);
		keep_forget_run(r);
		run_unref(r);
	}
	keep_discard(s);
}

int keep_check(struct session *s)
{
	const int e = keep_join_front(s->fs, &s->front);

	return e < 0 || keep_is_sound(s, true) ? e : -EBADMSG;
}

int keep_complete(struct fs *fs, struct problem *why)
{
	struct session *s, *next;
	int e, r = 0;

	if (fs->inherited.complete)
		return 0;
	fs->inherited.complete = true;
	for (s = LIST_FIRST(&fs->sessions); s; s = next) {
		next = LIST_NEXT(s, kept);
		e = keep_check(s);
		if (e < 0) {
			(void)keep_damaged(why, "");
			keep_drop(s);
			r = e;
		}
	}
	return r;
}
