/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner: the small process that is the parent of every sandbox's processes. */
#ifndef XSBX_VM_SPAWN_SPAWNER_H
#define XSBX_VM_SPAWN_SPAWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vm/base/log.h"

struct spawn_job;
struct spawner;

/* The rules of a spawner, fixed when it is forked. */
struct spawner_rules {
	/* Makes the job of a request: called in the spawner, with `data` as it was at the fork.
	 * The daemon uses policy_job(). Return: 0, or -errno to refuse it. */
	int (*job)(const void *data, const void *request, size_t len, size_t nfds,
		   struct spawn_job *ret_job);
	const void *data;
	void (*settle)(const void *data); /* called in it before all else; or NULL */
	/* Absolute; detached at the end, if it is a dead mount of ours; or NULL. */
	const char *mountpoint;
	/* Absolute; removed with its contents if the daemon dies; or NULL. */
	const char *runtime_dir;
	/* The command line of the mount, and the directory where it was given, for who takes it
	 * over; or NULL: nobody can. Valid for ever. */
	char *const *argv;
	const char *cwd; /* the caller's, in words: it may be removed, and is held */
	int lock;	 /* a descriptor that is kept until all that is done; 0: none */
	/* A descriptor of what the daemon goes by, sealed, for one that goes on where it has died;
	 * 0: none will. */
	int conf;
	unsigned deaths; /* how often the daemon may die in a row; 0: DEATHS_MOST */
	bool background; /* the guard gives up the terminal */
	int patience_ms; /* timeout for a child to execute its program, or to die; or 0 */
};

/**
 * spawner_start() - Fork the spawner and, from it, the daemon; call it before any thread or loop
 * exists
 * @rules: Only needed during the call
 * @ret_spawner: Result; end it with spawner_stop()
 *
 * It returns in the daemon. The caller does not return; it becomes the guard, which exits as the
 * daemon does, see guard.h.
 *
 * The spawner outlives a killed daemon just long enough to kill all children, detach the mount, and
 * remove the contents of the runtime directory. It does not keep the caller's descriptors,
 * terminal, or working directory.
 *
 * Return: 0; or, in the caller, -errno.
 */
int spawner_start(const struct spawner_rules *rules, struct spawner **ret_spawner);

/* The file system is mounted, with this connection to the kernel, which stays the caller's: it will
 * be detached if the daemon dies unexpectedly. Until then, or until spawner_unmount(), the spawner
 * keeps the connection as well. Return: 0 or -errno. */
int spawner_mounted(struct spawner *sp, int connection);

/**
 * spawner_unmount() - Detach the guarded mount point, which has to be the caller's own mount
 * @sp: Spawner
 *
 * The daemon can't do it itself after confining itself. It is done before spawner_stop() returns.
 */
void spawner_unmount(struct spawner *sp);

/**
 * spawner_watch() - Get notified if the spawner dies, which should never happen: nothing can start
 * then
 * @sp: Spawner
 * @died: Called at most once, from the loop; the mount should shut down
 * @data: Its argument
 */
void spawner_watch(struct spawner *sp, void (*died)(void *data), void *data);

pid_t spawner_pid(const struct spawner *sp);

/* Sets the level of the spawner's messages in the daemon's log; initially the level at the fork. */
void spawner_log_level(struct spawner *sp, enum log_level level);

/* Sends messages to the system's log from now on, until spawner_stop(). */
void spawner_log(const struct spawner *sp);

/* Tells the guard, for systemd: a word of herald.h, with @text behind it, or "". What does not fit into the pipe is
 * not said. */
void spawner_herald(const struct spawner *sp, char word, const char *text);

/* ---- another daemon takes the mount over, see heir.h ---- */

/* @begun is called from the loop when there is an heir, with a socket to it, which is the callee's.
 * 	Return of it: whether that
 * is the one that spawner_yield() means from now on. */
void spawner_on_heir(struct spawner *sp, bool (*begun)(void *data, int fd), void *data);

/* The daemon stands still, and is about to give all to its heir. Return: 0; -EAGAIN: there are
 * requests that the spawner has not taken yet, so it is no good moment; -EPIPE: the spawner is
 * gone. */
int spawner_yield(struct spawner *sp);

/* Behind spawner_yield(): waits until it is decided who the daemon is. If it returns, this one is
 * still, and goes on as if nothing had been. Return: 0, or -EPIPE if the spawner is gone. */
int spawner_await(struct spawner *sp);

/**
 * spawner_inherit() - The spawner of an heir, which was started with it
 * @ret_spawner: Result
 *
 * What it is asked for it hears of when spawner_ready() has returned.
 *
 * Return: 0, -EOPNOTSUPP if it is of another version than this program can talk to, or -errno.
 */
int spawner_inherit(struct spawner **ret_spawner);

/* What the heir goes by, sealed, which stays the caller's: for one that goes on where it has died.
 * To be said before anything else is. Return: 0 or -errno. */
int spawner_conf(struct spawner *sp, int conf);

/* The heir gets on with what it loads: to be called often, it is said now and then. In a daemon
 * nothing is said. */
void spawner_alive(struct spawner *sp);

/* The child with this id is the heir's. Return: 0 or -errno. */
int spawner_claim(struct spawner *sp, uint32_t id);

/* The heir has @tie, for spawner_log(). */
void spawner_tie(struct spawner *sp, int tie);

/* The heir is ready. Return: 0: it is the daemon; or -errno: it is not, and ends. */
int spawner_ready(struct spawner *sp);

/* ... and this is the signal by which whoever was the daemon before was asked to end, or this one
 * before it was; or 0. */
int spawner_asked(const struct spawner *sp);

/* The heir is not going to be the daemon: words for who wanted it. */
void spawner_refuse(struct spawner *sp, const char *words);

/* For the heir: the descriptor of @sp's tie, or -1. */
int spawner_tie_fd(const struct spawner *sp);

/* ---- what is left if this daemon dies, see fs/survival.h ---- */

/**
 * spawner_estate() - Another daemon is going to go on if this one dies
 * @sp: Spawner
 * @estate: What it leaves, by its file
 * @ret_holder: A socket for lent_begin()
 *
 * It counts from spawner_survives() on, and in an heir from spawner_ready(). It waits for the
 * spawner.
 *
 * Return: 0; -ENOTSUP: it could not, and nothing is left; or -errno.
 */
int spawner_estate(struct spawner *sp, int estate, int *ret_holder);

struct spawner_holder_ops {
	/* The answer to spawner_estate_again(): @fd is a socket for lent_again(), the callee's; -1:
	 * there is none, because of @err. */
	void (*begun)(void *data, int fd, int err);
	/* The holder has ended: this daemon's death is the end from now on. */
	void (*ended)(void *data);
};

void spawner_on_holder(struct spawner *sp, const struct spawner_holder_ops *ops, void *data);

/* Likewise once more, for another holder; it does not wait. Return: 0: there will be an answer; or
 * -errno. */
int spawner_estate_again(struct spawner *sp, int estate);

/* All is written there that another daemon needs, and the holder has what that speaks of. Return: 0:
 * that is said, or will be; or -errno. */
int spawner_survives(struct spawner *sp);

/* The holder does not hear, and is not needed any more: what is written down from now on is of no use
 * without. Return: 0: that is said, or will be; or -errno. */
int spawner_unheld(struct spawner *sp);

/* There is not to be another daemon any more. Return: likewise. */
int spawner_no_estate(struct spawner *sp);

/* In an heir of one that has died, before spawner_ready(): this is a copy of what that has left,
 * and counts then. Return: 0 or -errno. */
int spawner_copied(struct spawner *sp, int estate);

/* ---- the end ---- */

/* Ends the spawner: it kills remaining children, removes the runtime directory, and exits after
 * this process, which should do so now. If it is still attached to a loop, the loop is unusable.
 * NULL is fine. */
void spawner_stop(struct spawner *sp);

#endif
