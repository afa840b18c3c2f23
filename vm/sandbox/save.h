/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a sandbox, and beginning from what was saved. */
#ifndef XSBX_VM_SANDBOX_SAVE_H
#define XSBX_VM_SANDBOX_SAVE_H

#include <stdbool.h>

#include "vm/checkpoint/pack.h"

struct point;
struct sandbox;

/* What is done of a save. */
enum save_step {
	SAVE_NONE,
	SAVE_FREEZE, /* user code is being stopped */
	SAVE_PACK,   /* files are read */
	SAVE_POINT,  /* memory is copied */
};

/* Part of struct sandbox. */
struct save {
	enum save_step step;
	bool memory; /* asked for */
	bool paused; /* user code stood still before, by sandbox_freeze(), and goes on doing so */
	struct pack *pack; /* of SAVE_POINT */
};

/* Handle events of the guest. The first says whether it was waited for here. */
bool save_on_frozen(struct sandbox *s, int err);
void save_on_packed(struct sandbox *s, int err, struct pack *pack, const char *path);
void save_on_pointed(struct sandbox *s, int err, struct point *point);
void save_on_unpacked(struct sandbox *s, int err, const char *path);

/* Nothing comes of it any more: the sandbox is reset or ends. */
static inline void save_cancel(struct save *save)
{
	save->pack = pack_unref(save->pack);
	save->step = SAVE_NONE;
}

/* Its guest is up: if there are files that have to come first, has them put in. Return: whether that has begun; then it
 * becomes READY, or ends, later. */
bool save_fill(struct sandbox *s);

/* Does it go on from a machine's memory? */
bool save_has_memory(const struct sandbox *s);

/* Does what it begins from fit it? If not, ends it. */
bool save_check(struct sandbox *s);

#endif
