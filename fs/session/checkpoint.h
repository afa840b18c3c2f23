/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: states of a session that were saved under a name. */
#ifndef XSBX_FS_SESSION_CHECKPOINT_H
#define XSBX_FS_SESSION_CHECKPOINT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "fs/config/settings.h"
#include "vm/vm.h"

struct session;

#define CHECKPOINT_PLACES 4095u /* of one session: twelve bits, without 0 */
static_assert(CHECKPOINTS_MAX < CHECKPOINT_PLACES, "there is always a free one");

/* As text in its status.json: checkpoint_state_str(). */
enum checkpoint_state {
	CHECKPOINT_SAVING, /* it is wanted; see saving.h. Or it is `unwritten`, see checkpoint_shown() */
	CHECKPOINT_WHOLE,
	CHECKPOINT_FAILED,
	CHECKPOINT_NSTATES,
};

/*
 * In its session's list, oldest first, until rmdir. What began from it keeps what it needs.
 * - `saved` is set when it is WHOLE, `problem` when it has FAILED, or is `foreign`.
 */
struct checkpoint {
	TAILQ_ENTRY(checkpoint) link;
	uint32_t number; /* no other of its session has ever had it; not 0 */
	unsigned place; /* a small one, that no other has now: for the inode numbers of its files */
	char name[65];
	enum checkpoint_state state;
	bool automatic; /* by checkpoint_runs */
	bool unwritten; /* it is WHOLE, and to be kept, and on its way to the disk still */
	bool gave_up;	/* what was saved could not be written, and it is the end */
	bool naming; /* the record that is being written names what was saved; see fs/keep/keeper.c */
	bool leaving;	      /* somebody removes it with all that is in it, see names_unlink() */
	struct timespec time; /* when it was asked for, later: when it was saved */
	uint32_t run;	      /* the last before it; 0: none */
	uint32_t ordinal;     /* how many runs made it what it is, see session.h */
	uint32_t behind;      /* while it is SAVING: not before that run; see saving.h */
	struct saved *saved;  /* reference */
	uint32_t life;	      /* of the session, of which that is (session.h) */
	struct settings settings; /* what the session had then */
	struct problem_kept problem;
	/* It is WHOLE on the disk, and of no use in this mount, which does not allow the settings that it has, as text: `problem` says
	 * so, and it stays there as it is. On the heap, or NULL. */
	char *foreign;
};

TAILQ_HEAD(checkpoint_list, checkpoint);

/* Embedded in a session. */
struct checkpoints {
	struct checkpoint_list list;
	unsigned n;
	uint32_t last; /* number of the newest */
	struct timespec mtime;
};

const char *checkpoint_state_str(enum checkpoint_state state);

/* What is said of it. Where sessions are kept, one that is said to be WHOLE is there after a power cut, or has a problem. */
enum checkpoint_state checkpoint_shown(const struct session *s, const struct checkpoint *cp);

/* Is there nothing of it that can be had here: it has failed, was found to be damaged on the disk, or is `foreign`? */
bool checkpoint_is_lost(const struct checkpoint *cp);

/* Why it has failed; or why one that is whole can't be written to the disk. Return: whether there is anything of that. */
bool checkpoint_problem(const struct session *s, const struct checkpoint *cp,
			struct problem *ret_p);

/**
 * checkpoint_new() - Make one, which is SAVING; one that has FAILED gives it its name. (That is asked
 * by `ctl`: before a mkdir the kernel looks the name up, and says EEXIST of whatever there is.)
 * @s: Session
 * @name: Name, validated here
 * @saved: What it will be; or NULL: that is to be saved yet, and what it takes is not known
 * @ret_cp: Result, its session's
 * @why: Filled in if it fails, but for -ENOMEM
 *
 * Return: 0, -EINVAL, -ENAMETOOLONG, -EEXIST, -EDQUOT (too many; or too much is saved of the session or of its owner's), -ENOMEM.
 */
int checkpoint_new(struct session *s, const char *name, const struct saved *saved,
		   struct checkpoint **ret_cp, struct problem *why);

/* Removes it from its session, and frees it. */
void checkpoint_remove(struct session *s, struct checkpoint *cp);

struct checkpoint *checkpoint_find(const struct session *s, const char *name);
/* Is there one that `restore` can go back to? */
bool checkpoint_any(const struct session *s);
/* ... which is added to the `fix` of @p. */
void checkpoint_advise(struct problem *p);
struct checkpoint *checkpoint_by_number(const struct session *s, uint32_t number);

/* It is WHOLE, with another reference to @saved. */
void checkpoint_whole(struct session *s, struct checkpoint *cp, struct saved *saved);
/* It is on the disk, or will not be soon, which the session's `error` says. Who waits is to be woken then. */
void checkpoint_written(struct session *s, struct checkpoint *cp);

/* It can't be, for now: whoever waits is told so. */
void checkpoint_not_written(struct session *s, struct checkpoint *cp);
/* It stays with its name, so that its `error` can be read, until rmdir or the next of that name. */
void checkpoint_failed(struct session *s, struct checkpoint *cp, const struct problem *why);

/* May the session's checkpoints take so much more? @more: NULL: at least something. Return: 0 or -EDQUOT with @why. */
int checkpoint_room(const struct session *s, const struct saved *more, struct problem *why);

/* Bytes that it takes, 0 unless it is WHOLE. */
uint64_t checkpoint_bytes(const struct checkpoint *cp);

/* After a run: makes the automatic one, where the settings want it. */
void checkpoint_after_run(struct session *s);

#endif
