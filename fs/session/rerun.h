/* SPDX-License-Identifier: Apache-2.0 */
/* Replays: a run is executed once more, in a copy of the sandbox as it was before it, and what comes of that is compared. */
#ifndef XSBX_FS_SESSION_RERUN_H
#define XSBX_FS_SESSION_RERUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/buf.h"
#include "vm/base/wait.h"

struct run;
struct session;

#define RERUN_INPUT_MAX (64u << 10) /* bytes of a run's standard input that are kept for it */
#define RERUN_TEXT_MAX	(64u << 10) /* bytes of a result */
#define RERUN_TICK_MS	50u

/*
 * Theory of operation
 * -------------------
 * `replay N` makes a session of its own for run N, which everybody sees, beside the one that has the run, and with its limits and
 * settings: a copy of the checkpoint that is what run N began with, or a new one, if N was the first run in its sandbox. It is sent the
 * code, and the input that was kept, as run N; when that has ended its state is saved, and outputs, status and files are compared
 * with those of N and of the checkpoint behind N, by a thread, for they may be long. The result is the run's (runs/N/replay); the session
 * is removed.
 *
 * Each session knows what of its state was saved (struct rerun_base), and each run what it began with.
 *
 * A session that is a replay looks at itself every RERUN_TICK_MS: so it does not matter who goes on with it, another daemon among
 * them, nor how its run has ended. It goes when the run has, that it is of, or when that is told to want none any more; and when it is
 * removed by somebody else, that is the result.
 */

/* What the state of a session is, or what a run began with. All zeroes: nothing that was saved. */
struct rerun_base {
	uint32_t checkpoint; /* number of the one that it is as in; or 0 */
	bool anew;	     /* a sandbox in which nothing has run yet */
	bool stirred;	     /* since then, files were changed from outside, or jobs have run */
};

/* Of a run: what is known of its replay. */
struct rerun_result {
	bool going;
	struct buf text; /* what the last one came to */
};

/* Of a session that is one. */
struct rerun {
	unsigned slot, generation; /* of the session that has the run */
	char name[65];		   /* of that, which its sandbox has as well */
	uint32_t number;	   /* of the run */
	bool files_only;	   /* it began without the memory that the run had */
	bool begun;		   /* it is being compared */
	struct wait load;	   /* for files that were saved, and lie on a disk */
	bool loading, unreadable;
};

/* The session that has the run of which @copy is a replay; or NULL: it has gone. */
struct session *rerun_source(const struct session *copy);
/* The run, if somebody still wants its replay; or NULL. */
struct run *rerun_wanted(const struct session *copy);

/* @text is what came of the replay of @r, in a line @verdict. */
void rerun_finish(struct session *s, struct run *r, const char *verdict, const char *text,
		  size_t len);
/* ... or nothing did, because of @why. */
void rerun_fail(struct session *s, struct run *r, const char *why);

/* @copy, which is a replay, is removed. */
void rerun_gone(struct session *copy);

/* The replays of a session's runs are wanted no more, for it is closed: @why, in words. */
void rerun_cancel(struct session *s, const char *why);

/* Some input was sent to a run. */
void rerun_note_input(struct run *r, const void *data, size_t len);

void rerun_free(struct rerun *r);

/* What somebody reads who has asked for none: how one is asked for. */
int rerun_words(const struct run *r, struct buf *out);

#endif
