/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that have what was saved of a sandbox instead of one. */
#ifndef XSBX_FS_SESSION_ASLEEP_H
#define XSBX_FS_SESSION_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "vm/base/problem.h"

struct saved;
struct session;

/*
 * Theory of operation
 * -------------------
 * A session that is ASLEEP has `saved`, and its next sandbox begins from that. It keeps it until
 * that sandbox is up: one that does not start leaves the session asleep, and nothing is lost. With
 * fresh = yes it keeps it for good, and each run begins from there. Up it is when the files are open there that were open here
 * (session_watch.wakes()): until then nobody is let in, and neither its end nor the daemon's changes anything.
 *
 * The only one without `saved` is a copy of a session that is being saved (saving.of): what is
 * asked of it waits.
 *
 * How a session came to be asleep makes no difference: it fell asleep, went back to a checkpoint,
 * or began as a copy.
 */
struct asleep {
	struct saved *saved; /* reference */
	bool files_only;     /* its memory did not fit: the next sandbox has its files alone */
	struct problem_kept unfit; /* ... because of that */
	bool copy;		   /* it began as one, and has not been awake */
	bool anew;		   /* its interpreter was to be a fresh one */
	bool wake;		   /* asked for before there is anything to wake */
	struct timespec since;
	uint64_t since_ms, asked_ms; /* uv_now() of that, and of when its sandbox was asked for */
	/* Of the sandbox that was the last to begin from something saved: */
	bool woken, kept; /* was there one; has its interpreter the state that it had */
	uint64_t slept_ms, took_ms;
	char *lost; /* what it has not of what there was, in words; NULL: nothing */
	/* Where sessions are kept: what the sandbox that it has began from, on the disk, until it
	 * has fallen asleep again and that is there instead. After a power cut it is that once
	 * more. */
	struct saved *before; /* reference */
	struct timespec before_since;
	/* The session is CLOSED because `before`, which it slept with, can't be read. It is kept all the same, also on the disk,
	 * until somebody makes the session another one, or has it read once more: the next mount, and `wake`. */
	bool damaged;
	bool tried; /* that is read once more, and `error` says until it is awake that it can't be */
	bool gave_up; /* `saved` could not be written, and it is the end */
};

/* It sleeps, with @saved, a reference which it takes; NULL: that is still to come. */
void asleep_begin(struct session *s, struct saved *saved);
/* ... with what it was before: what came behind that is no more, and a new line begins (session.h). */
void asleep_return(struct session *s, struct saved *saved);

/* Forgets what was saved: the session is to be closed, or to go. */
void asleep_end(struct session *s);
/* The session is gone. */
void asleep_fini(struct session *s);

/* It is asleep as it was the last time, because it was not saved since then. That is told. @why: in words; "": nobody knows. */
void asleep_tell_back(struct session *s, const char *why);

/* It has no sandbox any more that could be saved, @why: likewise. Return: whether it is asleep as it was the last
 * time, which is told then. */
bool asleep_back(struct session *s, const char *why);

/* A sandbox is asked for. Return: what it is to begin from, a reference of the caller's; NULL:
 * nothing was saved, or, with *@ret_err -ENOMEM, there is no memory. */
struct saved *asleep_wake(struct session *s, int *ret_err);

/* That is up. */
void asleep_woken(struct session *s);

/* That did not start, because of @why. Return: whether another one should be tried, with the files
 * alone. */
bool asleep_again(struct session *s, const struct problem *why);

/* Of what was saved not even the files can be had, whoever tries it: if so, the session is closed, and says why; or it is as it was
 * before it had that, where this is kept. */
bool asleep_lost(struct session *s);

/* It is closed, and says so, for it slept since then with what can't be read. @saved: that, a reference which it takes. @cause: why
 * not, in words, or "". */
void asleep_close_damaged(struct session *s, struct saved *saved, struct timespec since,
			  const char *cause);

/* What can't be read is tried once more, if there is something. Return: whether the session is asleep now. */
bool asleep_try(struct session *s);

/*
 * asleep_stays() - It stays asleep, because of @why
 *
 * Whatever is not about what was saved may be over by the next time (no place, no memory, a host
 * that is too slow), so nothing is given up for it. Who can't wait for that has a way out, which is
 * added to @why.
 */
void asleep_stays(const struct session *s, struct problem *why);

/* Its interpreter is to be a fresh one. Return: 0 or -ENOMEM. */
int asleep_reset(struct session *s);

#endif
