/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the processes of user code, and reading values from /proc. */
#ifndef XSBX_AGENT_CORE_PROC_H
#define XSBX_AGENT_CORE_PROC_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * User code is every descendant of the agent: as PID 1, or as a subreaper, the agent inherits
 * all processes that detach themselves, so no descendant can escape. Nothing else is ever signalled.
 * Interpreters that have not received any code yet are exempt.
 *
 * A holder is a child of the agent that inherits what detaches itself below it, as a subreaper: so whatever descends from
 * it belongs together, for ever. It is ours, and exempt itself.
 */

struct proc {
	pid_t pid, parent;
	uint64_t start; /* clock ticks since boot; with pid it identifies a process; 0: hidden */
	bool live;	/* not a zombie */
	bool ours;	/* descends from the agent */
	pid_t holder;	/* and from this one; or 0 */
	int fd;		/* pidfd, while it is being ended */
};

/* Values from /proc/PID/stat; times in clock ticks. */
struct proc_stat {
	char state;
	pid_t parent;
	uint64_t faults; /* of pages, by all threads so far */
	uint64_t utime, stime, cutime, cstime;
	uint64_t threads, start;
	unsigned flags; /* PF_* of the kernel */
};

struct proc_set {
	struct proc *v;
	size_t n, cap;
	uint64_t as_of; /* now_us() when the scan began: who came later may not be in it */
};

/* Which processes of user code are meant; NULL: all. */
struct proc_scope {
	pid_t holder;		     /* those below this one; 0: those that are below none */
	const struct proc_set *keep; /* without these and their descendants; or NULL */
	pid_t not_kept;		     /* but with this one; or 0 */
};

/** proc_text() - Read a small file of /proc as text. Return: its length or -errno. */
ssize_t proc_text(const char *path, char *buf, size_t size);

/** proc_text_again() - The same from a descriptor that stays open, from the beginning; "" if that fails. */
void proc_text_again(int fd, char *buf, size_t size);

/** proc_write() - Write @text to a file of /proc or /sys. Return: 0 or -errno. */
int proc_write(const char *path, const char *text);

/** proc_threads() - Open the list of a process's threads. Return: it, or NULL with errno. */
DIR *proc_threads(pid_t pid);

/** proc_next() - The next process of /proc, or the next thread of proc_threads(); 0 at the end. */
pid_t proc_next(DIR *d);

/** proc_parse_stat() - Parse the text of /proc/PID/stat. Return: 0 or -EINVAL. */
int proc_parse_stat(const char *text, struct proc_stat *ret_s);

/** proc_read_stat() - The same from a file. Return: 0 or -errno. */
int proc_read_stat(const char *path, struct proc_stat *ret_s);

/** proc_set_clear() - Empty a set and free its memory. */
void proc_set_clear(struct proc_set *set);

/** proc_jailed() - We are PID 1 of a jail: all processes are ours, and /proc may hide some of them. */
void proc_jailed(void);

#define PROC_HOLDERS_MAX 64u

/** proc_parent() - Return: the parent of a process, or 0 if it is hidden or has gone. */
pid_t proc_parent(pid_t pid);

/** proc_hold() - A child of ours is a holder, one of at most PROC_HOLDERS_MAX. */
void proc_hold(pid_t pid);

/** proc_let_go() - It is one no more: it has ended. */
void proc_let_go(pid_t pid);

/** proc_exempt() - Set the two descendants that are not user code; 0 for none. */
void proc_exempt(pid_t one, pid_t two);

/**
 * proc_scan() - List the processes of user code
 * @set: Filled with every descendant of the agent, zombies included
 *
 * Return: 0 or -errno.
 */
int proc_scan(struct proc_set *set);

/** proc_scan_lately() - As proc_scan(), but it may be one that another got a moment ago, see @set->as_of. */
int proc_scan_lately(struct proc_set *set);

/**
 * proc_children() - As proc_scan(), but faster, and may miss children of a process that is losing
 * other children at the same time
 */
int proc_children(struct proc_set *set);

/** proc_is_whole() - Does proc_scan() find all processes that there are, and proc_forked_since() know of new ones? So it is
 * in a machine, and not in a jail. */
bool proc_is_whole(void);

/** proc_set_has() - True if exactly this process is in the set. */
bool proc_set_has(const struct proc_set *set, pid_t pid, uint64_t start);

/** proc_set_remove() - Take exactly this process out, if it is in the set. */
void proc_set_remove(struct proc_set *set, pid_t pid, uint64_t start);

/** proc_set_has_pid() - True if a process with this id is in the set; it may have ended since. */
bool proc_set_has_pid(const struct proc_set *set, pid_t pid);

/** proc_set_find() - Find a process by id in a set filled by proc_scan(). Return: it or NULL. */
struct proc *proc_set_find(struct proc_set *set, pid_t pid);

/** proc_is() - True if the process has not ended, nor its id been reused. */
bool proc_is(const struct proc *p);

/** proc_number() - Read the number after @key in a file of /proc, in this base. Return: it or 0. */
uint64_t proc_number(const char *path, const char *key, int base);

/** proc_last_pid() - The newest process id, which changes with each fork; 0 if unknown. */
pid_t proc_last_pid(void);

/** proc_forked_since() - Is there a newer process than @newest, a result of proc_last_pid()? Only known to
 * PID 1, in whose namespace all processes are its own; else false. */
bool proc_forked_since(pid_t newest);

/** proc_oom_kills() - How many processes the kernel's OOM killer has killed since boot. */
uint64_t proc_oom_kills(void);

/** proc_exit_status() - As what a process has ended with, by wait(2)'s word. */
uint32_t proc_exit_status(int wait_status);

/**
 * proc_maps_shared() - Does a process have a file mapped so that it may write to it?
 * @pid: Process
 * @dev: Device of the file; 0: any, also memory that is shared and no file's
 *
 * Return: also true if that can't be known.
 */
bool proc_maps_shared(pid_t pid, dev_t dev);

/* Memory of a process that is not shared with a file or another process, or 0. */
uint64_t proc_private_kib(pid_t pid);

#endif
