/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the processes of user code, and numbers that /proc has. */
#ifndef XSBX_AGENT_CORE_PROC_H
#define XSBX_AGENT_CORE_PROC_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * User code is every descendant of the agent: as PID 1, or as a subreaper, the agent inherits
 * whatever detaches itself, so no descendant can leave. Nothing else is ever signalled. Exempt
 * are interpreters that have not been given any code yet.
 */

struct proc {
	pid_t pid, parent;
	uint64_t start; /* clock ticks since boot; with pid it names one process; 0: it is hidden */
	bool live;	/* not a zombie */
	bool ours;	/* descends from the agent */
	int fd;		/* while it is being ended */
};

/* What /proc/PID/stat says; times in clock ticks. */
struct proc_stat {
	char state;
	pid_t parent;
	uint64_t faults; /* of pages, by all threads so far */
	uint64_t utime, stime, cutime, cstime;
	uint64_t threads, start;
};

struct proc_set {
	struct proc *v;
	size_t n, cap;
};

/** proc_text() - Read a small file of /proc as text. Return: its length or -errno. */
ssize_t proc_text(const char *path, char *buf, size_t size);

/** proc_text_again() - The same from a descriptor that is kept, from the beginning; "" if that fails. */
void proc_text_again(int fd, char *buf, size_t size);

/** proc_write() - Write @text to a file of /proc or /sys. Return: 0 or -errno. */
int proc_write(const char *path, const char *text);

/** proc_threads() - Open the list of a process's threads. Return: it, or NULL with errno. */
DIR *proc_threads(pid_t pid);

/** proc_next() - The next process of /proc, or the next thread of proc_threads(); 0 at the end. */
pid_t proc_next(DIR *d);

/** proc_parse_stat() - Read the text of /proc/PID/stat. Return: 0 or -EINVAL. */
int proc_parse_stat(const char *text, struct proc_stat *ret_s);

/** proc_read_stat() - The same from a file. Return: 0 or -errno. */
int proc_read_stat(const char *path, struct proc_stat *ret_s);

/** proc_set_clear() - Empty a set and free its memory. */
void proc_set_clear(struct proc_set *set);

/** proc_jailed() - We are PID 1 of a jail: all there is is ours, and /proc may hide some of it. */
void proc_jailed(void);

/** proc_exempt() - Name the two descendants that are not user code; 0 for none. */
void proc_exempt(pid_t one, pid_t two);

/**
 * proc_scan() - List the processes of user code
 * @set: Filled with every descendant of the agent, zombies included
 *
 * Return: 0 or -errno.
 */
int proc_scan(struct proc_set *set);

/**
 * proc_children() - As proc_scan(), faster, and possibly without children of a process that lost
 * others in the same moment
 */
int proc_children(struct proc_set *set);

/** proc_set_has() - True if this very process is in the set. */
bool proc_set_has(const struct proc_set *set, pid_t pid, uint64_t start);

/** proc_set_has_pid() - True if one of this number is, which may have ended since. */
bool proc_set_has_pid(const struct proc_set *set, pid_t pid);

/** proc_set_find() - The process of this number in a set that proc_scan() has filled, or NULL. */
struct proc *proc_set_find(struct proc_set *set, pid_t pid);

/** proc_is() - True if the process that was found has not ended, nor its number been given away. */
bool proc_is(const struct proc *p);

/** proc_number() - The number behind @key in a file of /proc, to this base, or 0. */
uint64_t proc_number(const char *path, const char *key, int base);

/** proc_last_pid() - The newest process number, which changes with each fork; 0 if unknown. */
pid_t proc_last_pid(void);

/** proc_forked_since() - Is there a newer process than @newest, which proc_last_pid() has said? Only PID 1,
 * whose numbers nobody else takes, can tell; else false. */
bool proc_forked_since(pid_t newest);

/** proc_oom_kills() - How many processes the kernel killed for want of memory since boot. */
uint64_t proc_oom_kills(void);

/* Memory of a process that is not shared with a file or another process, or 0. */
uint64_t proc_private_kib(pid_t pid);

#endif
