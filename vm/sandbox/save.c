/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a sandbox, and beginning from what was saved. */
#include "save.h"

#include <errno.h>
#include <string.h>

#include "internal.h"
#include "network.h"
#include "vm/base/log.h"
#include "vm/checkpoint/point.h"

/*
 * Theory of operation
 * -------------------
 *	READY -> FREEZE -> PACK [-> POINT] -> `saved`
 *
 * All user code stands still meanwhile, also what runs in the background, so that files and memory are of one moment, and
 * goes on behind it, unless its user has paused it before.
 *
 * What is saved with its memory goes on as a clone of it does: no interpreter starts, and its files are in its memory. What has
 * files alone starts as any other sandbox, which may come from the pool, and is READY when its files are in it.
 */

static void tell(struct sandbox *s, struct saved *saved, const struct problem *why)
{
	const bool paused = s->save.paused;

	s->save = (struct save){.step = SAVE_NONE};
	if (!paused)
		guest_thaw(s->guest);
	if (s->events->saved)
		s->events->saved(s->data, saved, why);
	else
		saved_unref(saved);
}

/* What its user can do about a save that has failed. */
static const char *fix_of(int err)
{
	switch (-err) {
	case EFBIG: return "Remove some of its files, or raise files_mb or files_inodes.";
	case ENAMETOOLONG: return "Remove what is more than 1023 directories deep.";
	default: return "Try it again.";
	}
}

/* @path: of a file in the sandbox, or "". */
static void failed(struct sandbox *s, const char *what, int err, const char *path)
{
	struct problem p;

	s->save.pack = pack_unref(s->save.pack);
	problem_set(&p, PROBLEM_NOT_SAVED, fix_of(err), "%s: %s%s%s", what, path, *path ? ": " : "",
		    strerror(-err));
	tell(s, NULL, &p);
}

static void whole(struct sandbox *s, struct point *point)
{
	struct saved *saved = saved_new(s->save.pack, point);

	s->save.pack = NULL;
	if (saved)
		tell(s, saved, NULL);
	else
		failed(s, "the sandbox was not saved", -ENOMEM, "");
}

int sandbox_save(struct sandbox *s, bool memory)
{
	const struct save save = {
		.step = SAVE_FREEZE, .memory = memory && s->ops->point, .paused = s->still};
	int r = -EBUSY;

	if (s->state == SANDBOX_READY && s->save.step == SAVE_NONE)
		r = guest_freeze(s->guest, save.memory);
	if (r == 0)
		s->save = save;
	return r;
}

bool save_on_frozen(struct sandbox *s, int err)
{
	if (s->save.step != SAVE_FREEZE)
		return false;
	if (err < 0) {
		failed(s, "what runs in the sandbox could not be stopped", err, "");
		return true;
	}
	s->save.step = SAVE_PACK;
	err = guest_pack(s->guest);
	if (err < 0)
		failed(s, "its files could not be read", err, "");
	return true;
}

void save_on_packed(struct sandbox *s, int err, struct pack *pack, const char *path)
{
	if (s->save.step != SAVE_PACK) {
		pack_unref(pack);
		return;
	}
	if (err < 0) {
		failed(s, "its files could not be read", err, path);
		return;
	}
	s->save.pack = pack;
	if (!s->save.memory) {
		whole(s, NULL);
		return;
	}
	s->save.step = SAVE_POINT;
	err = guest_point(s->guest);
	if (err < 0)
		failed(s, "its memory could not be copied", err, "");
}

void save_on_pointed(struct sandbox *s, int err, struct point *point)
{
	if (s->save.step != SAVE_POINT)
		point_unref(point);
	else if (err < 0)
		failed(s, "its memory could not be copied", err, "");
	else
		whole(s, point);
}

/* ---- beginning ---- */

bool save_has_memory(const struct sandbox *s)
{
	return s->from && s->from->point;
}

/* Would its agent go on with the interpreter that it has? */
static bool suits_interpreter(const struct sandbox *s, const struct point_fit *f)
{
	char sum[DIGEST_HEX];

	return !*f->interpreter ||
	       (guest_interpreter_sum(&s->spec, sum) == 0 && strcmp(sum, f->interpreter) == 0);
}

bool save_check(struct sandbox *s)
{
	const struct point_fit *f = save_has_memory(s) ? &s->from->point->fit : NULL;

	if (!f)
		return true;
	if (!s->ops->point || f->memory_mb != s->spec.memory_mb || f->cpus != s->spec.cpus ||
	    f->network != s->spec.network || f->root != s->spec.root || f->layer != s->layer) {
		sandbox_failf(s, PROBLEM_NOT_RESTORED,
			      "Leave memory_mb, cpus, network, packages and backend as they were.",
			      "what was saved is of another kind of sandbox");
		return false;
	}
	if (!suits_interpreter(s, f)) {
		sandbox_failf(s, PROBLEM_NOT_RESTORED,
			      "Leave env, processes, open_files and file_size_mb as they were.",
			      "what was saved has an interpreter with other variables or limits");
		return false;
	}
	return true;
}

bool save_fill(struct sandbox *s)
{
	int r;

	if (!s->from || s->filled || save_has_memory(s) || !s->from->pack)
		return false;
	s->filled = true;
	r = guest_unpack(s->guest, s->from->pack);
	if (r < 0)
		save_on_unpacked(s, r, "");
	return true;
}

void save_on_unpacked(struct sandbox *s, int err, const char *path)
{
	if (s->state != SANDBOX_STARTING)
		return;
	if (err < 0) {
		sandbox_failf(s, PROBLEM_NOT_RESTORED, "",
			      "its files could not be put back: %s%s%s", path, *path ? ": " : "",
			      strerror(-err));
		return;
	}
	network_start(s);
	sandbox_set_state(s, SANDBOX_READY);
}
