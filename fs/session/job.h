/* SPDX-License-Identifier: Apache-2.0 */
/* A job: a program beside a session's interpreter, in the same sandbox; or a named run of that
 * interpreter. */
#ifndef XSBX_FS_SESSION_JOB_H
#define XSBX_FS_SESSION_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fs/config/job.h"
#include "front.h"
#include "session.h"

#define JOB_NUMBER_MAX 0xfffffu /* and then from 1 again; a mask */
#define JOBS_MORE      256u	/* that have not ended, or have left processes behind */
#define JOBS_GOING_MAX 63u	/* that were started and have not ended, beside one run */

/*
 * Theory of operation
 * -------------------
 * mkdir makes a job, which is nothing but a name and settings. Closing `in`, or `start`, makes its
 * one run (`front.latest`), which waits in the session's list for the sandbox to take it:
 * launch_pump(). A run of the session does not keep it waiting. What is read is bound to this run
 * for ever, so that nobody can be shown another's output.
 *
 * A named run (mkdir runs/NAME, `of_session`) is the same for a run of the session's interpreter:
 * it has a place for its code, its settings and its results before there is a run, so that many may
 * write to a session and each reads what is its own. Its run is one of the session's, with a
 * number, and waits in the session's queue.
 *
 * A job that has ended may have left processes. So it is `inside` from when it was sent until the
 * sandbox says that nothing is left of it, and removing it ends them.
 *
 * - In its session's list until it is removed, then `removed`; freed with the last reference (open
 *   handles have one).
 * - `unsent`: its run is QUEUED.
 */
struct job {
	TAILQ_ENTRY(job) link;
	LIST_ENTRY(job) kept;
	struct session *s;
	unsigned refs;
	bool of_session; /* a named run */
	bool removed;
	bool unsent, inside; /* not of a named run */
	bool reset;	     /* its sandbox is being reset */
	uint32_t number;
	char name[65];
	char path[208]; /* "python/demo/jobs/build", for the log */
	struct job_settings settings;
	struct timespec config_mtime;
	struct front front;
	struct touch touch;
	uint64_t mark; /* its id in records */
};

/* Whose a line of the log is; for as long as the statement takes that it is in. */
#define job_label(j) (&(const struct log_label){(j)->path, 0, (j)->front.latest->began})

/* ---- job.c ---- */

/**
 * job_create() - Create a job or a named run, for mkdir
 * @s: Session
 * @name: Name, validated here
 * @of_session: A named run
 * @ret_j: Result, the session's reference
 *
 * Return: 0, -EINVAL, -ENAMETOOLONG, -EEXIST, -EDQUOT (too many, none of which has ended),
 * -EOPNOTSUPP (every run has a sandbox of its own), -ENOMEM; the session's `error` says why.
 */
int job_create(struct session *s, const char *name, bool of_session, struct job **ret_j);
/**
 * job_revive() - Make a job that was there before
 * @s: Session
 * @name: Name
 * @of_session: A named run
 * @number: Its number
 * @removed: It was removed, and is still open: it is on no list but `kept_jobs`
 * @ret_j: Result, the session's reference; or, of a removed one, the caller's
 *
 * Return: 0, -EINVAL, -EEXIST, -ENOMEM.
 */
int job_revive(struct session *s, const char *name, bool of_session, uint32_t number, bool removed,
	       struct job **ret_j);
struct job *job_ref(struct job *j);
void job_unref(struct job *j);

struct job *job_find(const struct session *s, const char *name, bool of_session);
struct job *job_by_number(const struct session *s, uint32_t number);
/* The job whose run has this id in the sandbox, or NULL. */
struct job *job_by_id(const struct session *s, uint32_t id);

/* Where it begins; "" is files/. */
static inline const char *job_cwd(const struct job *j)
{
	const char *own = j->settings.cwd, *of_session = j->s->settings.cwd;

	return own ? own : of_session && !j->of_session ? of_session : "";
}

/* What users call it; the directory that it is in is the same with an s. */
static inline const char *job_noun(const struct job *j)
{
	return j->of_session ? "run" : "job";
}

/* What is left to do for one who wants what this one can't do any more: a fix. */
static inline const char *job_another(const struct job *j)
{
	return j->of_session ? "Make another one: mkdir runs/NAME."
			     : "Make another one: mkdir jobs/NAME.";
}

/* Was it started, and has it not ended? */
bool job_going(const struct job *j);

/* The run of the session has changed: tells its named run, if it has one. */
void job_run_over(struct session *s, struct run *r);

/* Its state, as text in the node: "new", or that of its run. */
const char *job_state_str(const struct job *j);

/* What the kernel may have kept of its attributes is not true any more. */
void job_changed(const struct job *j);

/* Its run has ended: counts, and tells whoever waits. */
void job_over(struct job *j);

/* Nothing is left of it in the sandbox, so it is history; of which there may be too much: it may be
 * freed. */
void job_gone(struct job *j);

/* Takes it out of its session's list. Its run has ended, or there is none, or it is the session's. */
void job_unlink(struct job *j);

/* ---- launch.c: between jobs and their sandbox ---- */

/* Is there a job that waits for a sandbox? */
bool launch_pending(const struct session *s);
/* Whom a sandbox is awaited for: the run that waits, or a job's; NULL: for neither. */
struct run *launch_waiting(const struct session *s);
/* Sends those that wait, to a sandbox that is ready. */
void launch_pump(struct session *s);
/* Ends all that wait, unstarted. */
void launch_refuse(struct session *s, const struct problem *why);
/* The sandbox is going, and will be heard of no more: ends those that go as well. */
void launch_cut(struct session *s, const struct problem *why);
/* The sandbox is being reset, which ends those that were sent. */
void launch_reset(struct session *s);
/* The sandbox is gone, with what ended jobs had left in it. */
void launch_unbind(struct session *s);
/* Hands over input of a run that was sent, the session's or a job's. Return: as feed_send(). */
bool launch_input(struct session *s, struct run *r);
/* It takes input, or there is more. */
void launch_feed(struct job *j);

/* ---- job_verbs.c: what its nodes ask for ---- */

/* May it be started, with or without (`start`) code? Return: 0, -EBUSY (it was), -EINVAL, -ESTALE;
 * its `error` says why. */
int job_can_start(struct job *j, bool with_code);
/**
 * job_start() - Start it
 * @j: Job
 * @code: Moved from; empty for `start`
 * @mtime: When it was written
 *
 * Return: as job_can_start(), -ENOMEM.
 */
int job_start(struct job *j, struct buf *code, const struct timespec *mtime);
/* The same for code that was accepted from its writer: what can't be started becomes refused.
 * Return: 0 or -ENOMEM. */
int job_start_late(struct job *j, struct buf *code, const struct timespec *mtime);

/* Sends enum sandbox_signal, or SANDBOX_SIGNAL + N. Return: 0, -ESRCH if it is not running,
 * -EOPNOTSUPP, -errno. */
int job_signal(struct job *j, unsigned sig);
/* Kills it, or refuses it if it was not sent yet. Return: likewise. */
int job_kill(struct job *j);
/* Its standard input is at an end. Return: likewise. */
int job_end_input(struct job *j);

/* Its terminal, if it has one, gets the size of its settings. */
void job_resize(struct job *j);

/* rmdir: kills all that is left of it, and forgets it. The run of a named run goes on. */
void job_remove(struct job *j);

#endif
