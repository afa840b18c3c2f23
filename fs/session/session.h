/* SPDX-License-Identifier: Apache-2.0 */
/* A session: a directory, its queue of runs, and the sandbox behind them. */
#ifndef XSBX_FS_SESSION_SESSION_H
#define XSBX_FS_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "vm/vm.h"
#include "changes.h"
#include "pause.h"
#include "fs/config/daemon.h"
#include "fs/request/handle.h"
#include "fs/request/waitlist.h"
#include "network.h"
#include "run.h"
#include "scratch.h"

#define SESSION_QUEUE_MAX   64u		 /* runs that wait */
#define SESSION_STDIN_MAX   (16u << 20)	 /* bytes of standard input for one run */
#define SESSION_CODE_MAX    (1u << 20)	 /* bytes of code */
#define SESSION_CONSOLE_MAX (256u << 10) /* newest bytes of the console that are kept */

struct files;
struct fs;

/* Words of the `state` node: session_state_str(). */
enum session_state {
	SESSION_NEW,	  /* no sandbox yet */
	SESSION_STARTING, /* one was asked for */
	SESSION_IDLE,
	SESSION_RUNNING,
	SESSION_PAUSED,
	SESSION_CLOSED, /* the sandbox is gone; results stay; `in` fails until `reset` */
	SESSION_FAILED, /* no sandbox could be had; the next run tries again */
	SESSION_NSTATES,
};

/*
 * Theory of operation
 * -------------------
 * A session is made by mkdir without a sandbox. The first run (or the first write below files/) asks
 * for one; runs wait in `queue` and binding_pump() gives them to the sandbox one by one. The sandbox
 * reports through callbacks whose argument is a binding, not the session: when a session lets go of a sandbox
 * (reset, fresh = yes, rmdir) the binding is cut, the sandbox ends in the background, and
 * what it still reports goes nowhere. `epoch` counts sandboxes, so that handles and nodes below files/
 * know whether theirs still exists.
 *
 * - `active` is the run that the sandbox has; then state is RUNNING.
 * - `sandbox` is set in STARTING, IDLE, RUNNING, PAUSED and only there.
 * - In the slot table until rmdir, then `dead`; freed with the last reference (open handles keep one).
 */
struct binding {
	struct session *s; /* NULL: cut */
	struct buf input; /* of the run that was active then: vm/ reads it until the run's `exit` */
};

TAILQ_HEAD(run_list, run);

struct session {
	struct fs *fs;
	unsigned slot, generation, refs;
	bool dead;
	char name[65];
	char path[136]; /* "python/demo" */
	const struct conf_template *t;
	unsigned template_index;
	uid_t uid;
	gid_t gid;
	struct settings settings;
	enum session_state state;
	struct timespec created;
	struct timespec changed,
		net_changed; /* scratch files came or went: the directories' mtimes */
	struct timespec state_mtime, config_mtime, files_mtime, runs_mtime, ports_mtime;

	struct sandbox *sandbox;
	struct binding *binding;
	bool ready;	  /* the sandbox has been READY */
	bool reset_asked; /* while the sandbox was not READY: to be done once it is */
	uint32_t epoch;
	struct sandbox_info info; /* of the last sandbox, kept after its end, but for ... */
	char interpreter[128];	  /* ... its version, copied here */

	LIST_ENTRY(session) kept; /* fs->sessions */
	LIST_HEAD(kept_runs, run)
	kept_runs; /* with those that were removed and that somebody still has open */
	struct run_list runs, queue;
	unsigned nruns, nqueued;
	uint32_t last_number;  /* of the newest run, 0: none yet */
	uint32_t removed_runs; /* by the history's limits or by rmdir */
	struct run *active;    /* reference */
	struct run *latest;    /* reference; the newest run, also after its removal from history */

	TAILQ_HEAD(input_list, handle) inputs; /* writers of `in` */
	struct buf next_stdin;
	uint64_t stdin_taken; /* how often `next_stdin` was given away or emptied */
	struct buf last_code; /* reading `in` */
	struct timespec in_mtime, stdin_mtime;
	bool in_absent; /* unlinked by the user */
	uint32_t
		dir_epoch; /* files/ and runs/ outlive their removal (see names_rmdir()) under new inode
			     * numbers, because the kernel takes the old ones for dead */
	struct scratch scratch;

	struct waitlist wait;
	struct problem error;
	struct problem standing; /* of this sandbox for good: what `error` goes back to */
	struct problem closed;	 /* why it is CLOSED */
	bool config_error;	 /* `error` is about settings */
	struct timespec error_mtime;
	struct buf console;
	bool console_lost; /* there was no memory for some of it */
	struct timespec console_mtime;
	uint64_t idle_since; /* uv_now(), for idle_timeout_s */
	struct files *files; /* of who follows sessions, see session_watch */
	struct changes changes;
	struct pause pause;
	struct netlog netlog;
};

const char *session_state_str(enum session_state state);

/* Whose a line of the log is; run_label() for as long as the statement takes that it is in. */
#define run_label(s, r) (&(const struct log_label){(s)->path, (r)->number, (r)->began})

/**
 * session_create() - mkdir of a session
 * @fs: Mount
 * @template_index: Template
 * @name: Name, checked here
 * @uid: Owner
 * @gid: Owner's group
 * @ret_s: Result, the table's reference
 *
 * Return: 0, -EINVAL, -ENAMETOOLONG, -EEXIST, -EDQUOT (too many of this user), -ENOSPC (table full), -ENOMEM.
 */
int session_create(struct fs *fs, unsigned template_index, const char *name, uid_t uid, gid_t gid,
		   struct session **ret_s);
/* rmdir of a session: everything ends now, the sandbox in the background. */
void session_destroy(struct session *s);
struct session *session_ref(struct session *s);
void session_unref(struct session *s);
struct session *session_find(struct fs *fs, unsigned template_index, const char *name);
struct session *session_by_slot(struct fs *fs, unsigned slot, unsigned generation);

/* May a new run be submitted? Return: 0, -ESTALE (closed), -EBUSY (queue full). */
int session_can_submit(struct session *s);
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
 * session_submit_late() - The same for code whose writer was already told that it was taken
 *
 * What can't be queued any more becomes a run that was refused: who waits for the code's output must not get that
 * of the run before.
 *
 * Return: 0 or -ENOMEM. The session is not dead.
 */
int session_submit_late(struct session *s, struct buf *code, const struct timespec *mtime);
/* A new run, the newest of the history and last of the queue, or NULL for want of memory. */
struct run *session_add_run(struct session *s, struct buf *code, struct buf *input,
			    const struct timespec *mtime);
/* Makes sure that a sandbox is there or on its way. Return: 0, -ESTALE (closed), -errno. */
int session_start(struct session *s);
struct run *session_run(struct session *s, uint32_t number);
/* Removes a run from the history; one that has not ended goes on. Return: 0, -ENOENT. */
int session_remove_run(struct session *s, uint32_t number);

/* Verbs of `ctl`. Return: 0, -ESRCH (nothing runs), -EBUSY, -errno. */
int session_interrupt(struct session *s);
int session_kill(struct session *s);
int session_reset(struct session *s);
int session_close(struct session *s);
/* What pause_begin() has stopped goes on. Return: as pause_end(). */
int session_resume(struct session *s);

void session_set_state(struct session *s, enum session_state state);
/* The session is CLOSED from now on, and says @why to whoever has code for it. */
void session_set_closed(struct session *s, const struct problem *why);

/* Sets what the `error` node says. NULL: nothing, or what is wrong with the sandbox for good. */
void session_problem(struct session *s, const struct problem *problem);

/* problem_set(), and the former: for what is decided in fs/ and told to nobody else. */
void session_problemf(struct session *s, enum problem_code code, const char *fix, const char *cause,
		      ...) printf_like(4, 5);

/* Is there code in an `in` that is open, so that it may become a run any moment? */
bool session_input_pending(const struct session *s);
/* Activity: starts the idle time anew. */
void session_touch(struct session *s);
/* Called at alarms. Return: the next uv_now() at which to call it, or UINT64_MAX. */
uint64_t session_tick(struct session *s, uint64_t now);

#endif
