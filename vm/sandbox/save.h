/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a sandbox. */
#ifndef XSBX_VM_SANDBOX_SAVE_H
#define XSBX_VM_SANDBOX_SAVE_H

#include <stdbool.h>

#include "vm/checkpoint/pack.h"
#include "vm/checkpoint/point.h"
#include "vm/guest/guest.h"

struct sandbox;

/* What is done of a save. */
enum save_step {
	SAVE_NONE,
	SAVE_PREPARE,  /* the machine is made ready to be copied */
	SAVE_FREEZE,   /* user code is being stopped */
	SAVE_PACK,     /* files are read */
	SAVE_POINT,    /* memory is copied */
	SAVE_DESCRIBE, /* ... and what it depends on is looked up */
	SAVE_CHECK,    /* has anything run since it was stopped? */
	SAVE_AGAIN,    /* there was no time for it: from the beginning, in a moment */
};

/* Part of struct sandbox. */
struct save {
	enum save_step step;
	bool memory; /* asked for */
	bool paused; /* user code stood still before, by sandbox_freeze(), and goes on doing so */
	uint64_t began;	 /* ms of the loop's clock */
	bool checking;	 /* that is asked for, while the others are under way too */
	int ran;	 /* ... and -ECANCELED if it has, or -errno */
	unsigned rounds; /* in which it has */
	struct guest_unstopped unstopped; /* who could not be stopped, */
	unsigned met;			  /* ... in so many tries, one after the other */
	bool stopped;	     /* user code stands still, or was asked to; unless it did before */
	uint64_t asked_at;   /* uv_hrtime(): for the log, when it was */
	struct pack *pack;   /* from SAVE_POINT on */
	struct point *point; /* from SAVE_DESCRIBE on */
};

/* Handle events of the guest. The first says whether it was waited for here. */
void save_on_point_ready(struct sandbox *s);
bool save_on_frozen(struct sandbox *s, int err);
void save_on_packed(struct sandbox *s, int err, struct pack *pack, const char *path);
void save_on_runs(struct sandbox *s);
void save_on_pointed(struct sandbox *s, int err, struct point *point);
/* More digests are known than before. */
void save_on_digests(struct sandbox *s);

/* It goes on behind it after all. */
static inline void save_unpause(struct save *save)
{
	save->paused = false;
	save->stopped = save->step != SAVE_NONE;
}

/* Nothing comes of it any more: the sandbox is reset or ends. */
static inline void save_cancel(struct save *save)
{
	save->pack = pack_unref(save->pack);
	save->point = point_unref(save->point);
	*save = (struct save){.step = SAVE_NONE};
}

#endif
