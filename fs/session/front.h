/* SPDX-License-Identifier: Apache-2.0 */
/* What a session and a job have alike: programs are written to it, and the results of the newest
 * are read. */
#ifndef XSBX_FS_SESSION_FRONT_H
#define XSBX_FS_SESSION_FRONT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "fs/request/handle.h"
#include "fs/request/trail.h"
#include "fs/request/waitlist.h"
#include "run.h"

struct job;

TAILQ_HEAD(input_list, handle);

/*
 * Embedded in a session, and in a job. The nodes `in`, `stdin`, `stdout` and so on work on this,
 * whosever they are.
 *
 * - `latest` is the newest run, also after its removal from the history; a job has one at most,
 *   once it was started.
 */
struct front {
	struct session *s; /* whose it is, or whose the job is */
	struct job *job;   /* NULL: the session's own */
	struct timespec created;

	struct input_list inputs; /* writers of `in` */
	struct buf last_code;	  /* content of `in` for readers */
	uint64_t code_lost;	  /* bytes of it that can't be read: see run.h; it is empty then */
	struct timespec in_mtime;
	bool in_absent; /* unlinked by the user */

	struct input_list feeders; /* writers of `stdin` */
	struct buf next_stdin;	   /* for the run to come */
	uint64_t stdin_taken;	   /* how often that was used or emptied */
	struct trail stdin_trail;
	struct timespec stdin_mtime;

	struct run *latest; /* reference */
	/* While it is read: the mark of that, and that its code is the one to show. */
	uint64_t awaited;
	bool awaits_code;
	struct waitlist wait;
	/* Where who reads its nodes waits: `wait`, or that of the front whose run it is as well */
	struct waitlist *waitlist;

	struct problem_kept error;
	bool config_error; /* `error` is about settings */
	struct timespec error_mtime;
};

/* @job: NULL for the session's own. */
void front_init(struct front *f, struct session *s, struct job *job);
/* Frees what can no longer be reached by name. Open handles keep references to what they need. */
void front_clear(struct front *f);
/* Frees the rest: nobody has it open. */
void front_fini(struct front *f);

/* Was it removed? Handles on its nodes outlive it, and mostly answer ESTALE then. */
bool front_is_gone(const struct front *f);

/* Does an open `in` have code, so that it may become a run any moment? */
bool front_input_pending(const struct front *f);

/* Sets the `error` node. */
void front_problem(struct front *f, const struct problem *problem);
/* problem_set() and front_problem() in one: for problems detected in fs/. */
void front_problemf(struct front *f, enum problem_code code, const char *fix, const char *cause,
		    ...) printf_like(4, 5);

/* Is this run's code there, @r or NULL; is what `in` shows? Return: 0, or -EIO, which `error` explains. */
int front_check_code(struct front *f, const struct run *r);
int front_check_last_code(struct front *f);

/* @r is the newest run now, of @code (a copy of what it has), which was last written at @mtime. */
void front_show(struct front *f, struct run *r, struct buf *code, const struct timespec *mtime);

/* Binds @h to the run @r, with a reference, instead of the one before. */
void front_bind(struct handle *h, struct run *r);

/* The input that was written so far, and those who still write, are this run's. */
void front_feed(struct front *f, struct run *r);
/* Only the latter: those who write to no run, or to one that does not read any more. */
void front_join(struct front *f, struct run *r);

/* The run that is fed by those who write, if it still takes anything; or NULL. A named run is not
 * its session's. */
struct run *front_fed(const struct front *f);

#endif
