/* SPDX-License-Identifier: Apache-2.0 */
/* A session's sandbox is being saved: who wants that, for what, and what comes of it. */
#ifndef XSBX_FS_SESSION_SAVING_H
#define XSBX_FS_SESSION_SAVING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vm/base/problem.h"

struct saved;
struct session;

/*
 * Theory of operation
 * -------------------
 * What was saved serves all who want it at that moment: each checkpoint that is SAVING, the
 * sessions in `copies`, which are to begin as a copy of this one, and `sleep`. They wait for a
 * moment between two runs at which no job goes on; binding_pump() looks for it with saving_step(),
 * before it starts the next run. Until the sandbox has answered no run and no job is sent to it,
 * and requests that would change its files are held back (see files.c): what was saved is all that
 * was ever answered.
 *
 * Whoever asks for it when the session is busy is refused, unless he says that he would wait (`when
 * = idle`). What he gets is behind all that was asked of the session before, also where its sandbox
 * is only starting, or waking up, for that: each checkpoint and copy is `behind` the run that was
 * the newest then, and is not served at a moment before. Later runs come behind it. A session falls
 * asleep behind them all.
 *
 * Nobody waits for a session without a sandbox: one that is asleep has been saved, and of the
 * others there is nothing.
 */
struct saving {
	bool going;	/* sandbox_save() was called, and not answered yet; */
	uint64_t began; /* ... then, uv_hrtime() */
	bool sleep;	/* behind it the session goes to sleep, */
	bool by_idle;	/* ... because nobody has used it */
	/* At the end of the mount: */
	bool last;  /* the save that is under way was begun then, */
	bool tried; /* there is no other: it was answered, and it does not sleep */
	struct problem_kept
		unsaved; /* because of that; or it could not begin yet, because of that */
	LIST_HEAD(copies, session) copies; /* linked by `copy` */
	struct session *of;		   /* of a copy: whose save it waits for; NULL: none */
	uint32_t behind;		   /* ... and behind which of its runs; 0: any */
	LIST_ENTRY(session) copy;	   /* ... and on whose `copies` it is then */
	unsigned of_slot, of_generation;   /* its place, while records are read (fs/keep/) */
};

/**
 * saving_may() - Can the session be saved?
 * @s: Session
 * @when_idle: If it is busy, later
 * @why: Filled in if not
 *
 * Return: 0, -EBUSY, -EOPNOTSUPP, -ESTALE: it is damaged.
 */
int saving_may(const struct session *s, bool when_idle, struct problem *why);

/* Refuses what is not possible while it is being saved, as now. Return: -EBUSY, with @why. */
int saving_refuse(const struct session *s, struct problem *why);

/* Does anybody want it saved, now or later? */
bool saving_wanted(const struct session *s);

/* Is it to fall asleep (`when = idle`) when runs and jobs have ended that are there already? */
bool saving_sleeps_later(const struct session *s);

/* Begins, if it is wanted and this is the moment. Return: 1 if nothing may be sent to the sandbox
 * now, else 0; -errno if it could not begin. */
int saving_step(struct session *s);

enum saving_whom {
	SAVING_DUE, /* those for whom this is the moment */
	SAVING_ALL,
};

/* It was saved: serves the checkpoints for which this was the moment. Copies are served by saving_next(). */
void saving_done(struct session *s, struct saved *saved);

/* It was not, or will not be, because of @why: tells @whom, but not the copies. */
void saving_failed(struct session *s, enum saving_whom whom, const struct problem *why);

/* At the end of the mount: it was not, because of @why. @tried: nor will it be. At any other time: nothing. */
void saving_ends(struct session *s, bool tried, const struct problem *why);

/* Takes the next copy of @whom off the list. Return: it, or NULL if there is none. */
struct session *saving_next(struct session *s, enum saving_whom whom);

/* @copy waits for @s, behind that run; waits no longer. */
void saving_join(struct session *copy, struct session *s, uint32_t behind);
void saving_leave(struct session *copy);

#endif
