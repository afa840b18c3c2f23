/* SPDX-License-Identifier: Apache-2.0 */
/* A session: a directory, its queue of runs, and the sandbox behind them. */
#ifndef XSBX_FS_SESSION_SESSION_H
#define XSBX_FS_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>
#include <uv/tree.h>

#include "vm/vm.h"
#include "asleep.h"
#include "changes.h"
#include "checkpoint.h"
#include "connlog.h"
#include "lessons.h"
#include "file_events.h"
#include "learned.h"
#include "front.h"
#include "keeping.h"
#include "pause.h"
#include "question.h"
#include "fs/config/daemon.h"
#include "fs/request/handle.h"
#include "fs/request/touched.h"
#include "fs/request/trail.h"
#include "fs/request/waitlist.h"
#include "network.h"
#include "rerun.h"
#include "restoring.h"
#include "run.h"
#include "saving.h"
#include "scratch.h"

#define SESSION_QUEUE_MAX   64u		 /* queued runs */
#define SESSION_STDIN_MAX   (16u << 20)	 /* bytes of standard input for one run */
#define SESSION_CODE_MAX    (1u << 20)	 /* bytes of code */
#define SESSION_CONSOLE_MAX (256u << 10) /* newest console bytes that are kept */

struct files;
struct fs;

/* As text in the `state` node: session_state_str(). */
enum session_state {
	SESSION_NEW,	  /* no sandbox yet */
	SESSION_STARTING, /* one was requested */
	SESSION_IDLE,
	SESSION_RUNNING,
	SESSION_PAUSED,
	SESSION_ASLEEP, /* what was saved of a sandbox, instead of one; whatever needs one wakes it */
	SESSION_CLOSED, /* the sandbox is gone; results stay; `in` fails until `reset` */
	SESSION_FAILED, /* no sandbox could be started; the next run retries */
	SESSION_NSTATES,
};

/* Whose copy a session is. What it was a copy of may be gone. */
struct origin {
	char session[136],
		checkpoint[65];	   /* "python/demo"; empty: of none, and not of a checkpoint */
	unsigned slot, generation; /* of that session */
	struct timespec time;
};

/* What a sandbox has of its session, see below. */
struct binding {
	struct session *s;	   /* NULL: cut */
	uint64_t asked;		   /* uv_hrtime(); 0: by a daemon before this one */
	enum problem_code awaited; /* what its user was told first that it waits for */
};

TAILQ_HEAD(run_list, run);
TAILQ_HEAD(job_list, job);

/*
 * Theory of operation
 * -------------------
 * mkdir creates a session without a sandbox. The first run (or the first write below files/) requests
 * one; runs wait in `queue`, and binding_pump() sends them to the sandbox one by one. The sandbox
 * reports through callbacks whose argument is a binding, not the session: when a session drops its sandbox
 * (reset, fresh = yes, rmdir) the binding is cut, the sandbox ends in the background, and
 * its further reports are ignored. `epoch` counts sandboxes, so that handles and nodes below files/
 * can tell whether theirs still exists. What was
 * saved counts as well, for its files can be read: see asleep.h. `line` is the first epoch of those that came out of one
 * another, by sleep and by waking: a sandbox that begins anew, or from a checkpoint, may give its files numbers that others had.
 * A checkpoint has the numbers of its own life, which begins with a sandbox that begins from nothing, from the epoch `born` on.
 *
 * - `active` is the run in the sandbox; the state is then RUNNING.
 * - `sandbox` is set only in STARTING, IDLE, RUNNING, PAUSED.
 * - In the slot table until rmdir, then `dead`; freed with the last reference (open handles have one).
 */
struct session {
	struct fs *fs;
	unsigned slot, generation, refs;
	bool dead;
	char name[65];
	char path[136];		       /* "python/demo" */
	const struct conf_template *t; /* one of fs->conf->template */
	uid_t uid;
	gid_t gid;
	struct settings settings;
	enum session_state state;
	struct timespec created;
	struct timespec changed;     /* mtime of its directory: when scratch files came or went */
	struct timespec net_changed; /* likewise, of net/ */
	struct timespec state_mtime, config_mtime, files_mtime, runs_mtime, ports_mtime;

	struct sandbox *sandbox;
	struct binding *binding;
	bool ready; /* the sandbox has been READY, and everybody was let in */
	/* Requested before the sandbox was READY: done once it is, though not everybody may be let in yet. */
	bool reset_asked;
	uint32_t epoch, line;
	uint32_t life, born, lives; /* that it has now, and how many there were */
	struct sandbox_info info;   /* of the last sandbox, kept after its end, */
	char interpreter[128];	    /* with a copy of its version */

	LIST_ENTRY(session) kept; /* fs->sessions */
	RB_ENTRY(session) named;  /* fs->roster */
	/* Including removed ones that are still open. */
	LIST_HEAD(kept_runs, run) kept_runs;
	struct run_list runs, queue;
	unsigned nruns, nqueued;
	uint32_t last_number; /* of the newest run, 0: none yet */
	uint32_t last_ran;    /* ... of the last that was executed */
	/* What is added to the number of a run for how many made its sandbox what it is: more if that is a copy's, or from a
	 * checkpoint. Modulo 2^32. */
	uint32_t runs_before;
	uint32_t removed_runs;	     /* by the history's limits, or by rmdir */
	uint64_t first_event;	     /* number of the first that may be its */
	struct waitlist events_wait; /* readers of its `events` */
	struct run *active;	     /* reference */
	struct front front;

	struct job_list jobs;		     /* oldest first */
	LIST_HEAD(kept_jobs, job) kept_jobs; /* including removed ones that are still open */
	unsigned njobs;
	unsigned jobs_going; /* started, and not ended */
	uint32_t last_job;   /* number of the newest */
	struct timespec jobs_mtime;

	uint32_t dir_epoch; /* removed files/ and runs/ reappear (see names_rmdir()) with new inode
			     * numbers, because the kernel considers the old ones dead */
	struct scratch scratch;

	/* Permanent problem of this sandbox, which `error` falls back to. */
	struct problem_kept standing;
	struct problem_kept closed; /* why it is CLOSED */
	struct buf console;
	bool console_lost;    /* some of it was dropped: out of memory */
	uint64_t console_cut; /* bytes that were there before those of today */
	struct trail console_trail;
	struct timespec console_mtime;
	uint64_t idle_since; /* uv_now(), for idle_timeout_s */
	struct files *files; /* owned by files/, see session_watch */
	size_t held_bytes;   /* of what is to be written there, and waits */
	struct changes changes;
	struct file_events file_events;
	struct learned learned;
	struct pause pause;
	struct saving saving;
	struct asleep asleep;
	struct checkpoints checkpoints;
	struct restoring_list restoring; /* writes to `ctl` that wait for a checkpoint to be read */
	struct origin origin;
	struct session *parent;	      /* that it is of, as long as it is there, */
	TAILQ_ENTRY(session) sibling; /* ... which has it among its `children` then */
	TAILQ_HEAD(, session) children;
	struct netlog netlog;
	struct connlog connlog;
	struct lessons lessons; /* while `learn` is set */
	struct questions questions;
	/* Of its network: by sandboxes before the one that it has, and by that. */
	struct net_budget net_used, net_now;
	struct kept on_disk;
	struct rerun_base base; /* what of its state was saved */
	struct rerun *rerun;	/* it is a replay; or NULL */
	struct touch touch, touch_rest, touch_sandbox;
};

/* How records name it, also one that was removed and is still open. */
static inline uint64_t session_key(const struct session *s)
{
	return (uint64_t)s->slot << 32 | s->generation;
}

const char *session_state_str(enum session_state state);

/* What somebody should do who wants the session to be idle. */
const char *session_idle_fix(const struct session *s);

/* From which epoch on inode numbers may mean the same as in what was saved, as it is in @epoch. What was saved later in a line has
 * numbers that others had, as its sandbox has. */
static inline uint32_t session_saved_since(const struct session *s, uint32_t epoch)
{
	return epoch == s->line ? s->born : s->line;
}

/* Whose a line of the log is, for as long as the statement takes that it is in. */
#define session_label(s) (&(const struct log_label){.who = (s)->path})
#define run_label(s, r)	 (&(const struct log_label){(s)->path, (r)->number, (r)->began})

/**
 * session_create() - Create a session, for mkdir
 * @fs: Mount
 * @template_index: Template
 * @name: Name, validated here
 * @uid: Owner
 * @gid: Owner's group
 * @ret_s: Result, the table's reference
 *
 * Return: 0, -EINVAL, -ENAMETOOLONG, -EEXIST, -ENOENT (the template is gone), -EDQUOT (user has too many), -ENOSPC (table full), -ENOMEM.
 */
int session_create(struct fs *fs, unsigned template_index, const char *name, uid_t uid, gid_t gid,
		   struct session **ret_s);

/* Where one was, in the daemon before this one. */
struct session_place {
	unsigned slot, generation;
	bool dead; /* it was removed, and is still open */
};

/**
 * session_revive() - Make a session that was there before
 * @fs: Mount
 * @template_index: Template
 * @name: Name
 * @uid: Owner
 * @at: Its place; NULL: any
 * @ret_s: Result, the table's reference
 *
 * It is as one that mkdir has made, but no limit counts, and nobody is told.
 *
 * Return: 0, -EINVAL, -EEXIST, -ENOSPC, -ENOMEM.
 */
int session_revive(struct fs *fs, unsigned template_index, const char *name, uid_t uid,
		   const struct session_place *at, struct session **ret_s);
/* Removes a session, for rmdir, unless a copy of it is still to be made. Return: 0 or -EBUSY, and its `error` says why. */
int session_remove(struct session *s);
/* In any case: everything ends now, the sandbox in the background. */
void session_destroy(struct session *s);
/* It was revived in vain: it goes as if it had never been. */
void session_undo(struct session *s);
struct session *session_ref(struct session *s);
void session_unref(struct session *s);
struct session *session_find(struct fs *fs, unsigned template_index, const char *name);
/* Index of its template in the configuration. */
unsigned session_template(const struct session *s);
struct session *session_by_slot(struct fs *fs, unsigned slot, unsigned generation);

/* Can it be read from state_dir? Else nothing is to become of it that would take the place of what is there. Return: 0; -ESTALE:
 * its `error` says so again. */
int session_check_damaged(struct session *s);

/* May anything begin in it? @text: what it executes, see audit_may_run(); @why: filled in if not, unless it was removed. Return: 0,
 * -ESTALE, -ENOSPC; and of a run, -EBUSY: the queue is full. */
int session_may_begin(const struct session *s, const struct buf *text, struct problem *why);
int session_may_submit(const struct session *s, const struct buf *code, struct problem *why);
/* Likewise, and says why not. May a new run be submitted? Return: 0, -ESTALE (closed), -EBUSY (queue full), -ENOSPC. */
int session_can_submit(struct session *s, const struct buf *code);
/**
 * session_submit() - Queue a run
 * @s: Session
 * @code: Moved from
 * @mtime: When the code was last written, the new mtime of `in`
 *
 * Return: 0 or -errno as session_can_submit(), -ENOMEM.
 */
int session_submit(struct session *s, struct buf *code, const struct timespec *mtime);
/**
 * session_submit_late() - The same for code that was already accepted from its writer
 *
 * If it can't be queued any more, it becomes a refused run: readers that wait for its output must not get that
 * of the run before.
 *
 * Return: 0 or -ENOMEM. The session is not dead.
 */
int session_submit_late(struct session *s, struct buf *code, const struct timespec *mtime);
/* A new run, the newest of the history and the last of the queue, or NULL if out of memory. */
struct run *session_add_run(struct session *s, struct buf *code, const struct timespec *mtime);
/* A run of a named run, from which it has its standard input. Return: as session_submit(). */
int session_submit_named(struct session *s, struct buf *code, const struct timespec *mtime,
			 struct job *j);
/* Makes sure that there is a sandbox, or that one is starting. Return: 0, -ESTALE (closed), -EDQUOT, -errno. */
int session_start(struct session *s);
struct run *session_run(struct session *s, uint32_t number);
/* Removes a run from the history; a run that has not ended goes on. Return: 0, -ENOENT. */
int session_remove_run(struct session *s, uint32_t number);

/* Verbs of `ctl`. Return: 0, -ESRCH (nothing runs), -EBUSY, -errno. */
int session_interrupt(struct session *s);
int session_kill(struct session *s);
int session_reset(struct session *s);
int session_close(struct session *s);
/* Standard input of the newest run is at an end. */
int session_end_input(struct session *s);
/* Undoes pause_begin(). Return: as pause_end(). */
int session_resume(struct session *s);
/* Its sandbox goes, and it sleeps, now or soon. Return: 0; -EBUSY, -EOPNOTSUPP if it can't be saved. */
int session_sleep(struct session *s);
/* Return: 0, also if it is awake; -EBUSY if there is nothing to wake, -errno. */
int session_wake(struct session *s);
/* Likewise of mkdir: makes a checkpoint, which is saved now or soon. @when_idle: waits for runs and jobs. Return: as
 * checkpoint_new() and session_sleep(). */
int session_checkpoint(struct session *s, const char *name, bool when_idle,
		       struct checkpoint **ret_cp);
/* For rmdir. What waits for it waits no longer. */
void session_remove_checkpoint(struct session *s, struct checkpoint *cp);
/* It is what it was at that checkpoint, asleep. Return: 0, -ENOENT, -EBUSY, -ENOMEM. */
int session_restore(struct session *s, const char *name);

/* A sandbox begins from nothing, or the session goes back to what it was in another life, or may have been: none of its files was
 * there before. */
void session_live_anew(struct session *s);

/* It began as a copy of @origin; NULL: it is none any more. Its settings have said so. */
void session_set_origin(struct session *s, const struct origin *origin);
/* It is removed: no copy of anything, and nothing is a copy of it. What its copies say of themselves stays. */
void session_leave_kin(struct session *s);

void session_set_state(struct session *s, enum session_state state);

/* There is no way back to what it woke from (asleep.before): it is kept in another way, or not at all. */
void session_forget_sleep(struct session *s);
/* The session becomes CLOSED; new code is refused because of @why. */
void session_set_closed(struct session *s, const struct problem *why);

/* Sets the `error` node. NULL: empty, or the sandbox's permanent problem. */
void session_problem(struct session *s, const struct problem *problem);

/* problem_set() and session_problem() in one: for problems detected in fs/. */
void session_problemf(struct session *s, enum problem_code code, const char *fix, const char *cause,
		      ...) printf_like(4, 5);

/* Answers all that wait for it or its jobs with @err (-errno). */
void session_flush(struct session *s, int err);

/* Somebody uses it: restarts the idle timeout. */
void session_used(struct session *s);

/* Is something of it open that would not survive its sleep, or does somebody wait for its output? */
bool session_in_use(const struct session *s);
/* Called by the alarm. Return: the next uv_now() at which to call it, or UINT64_MAX. */
uint64_t session_tick(struct session *s, uint64_t now);

#endif
