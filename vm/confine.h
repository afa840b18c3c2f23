/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon confines itself when it has started. */
#ifndef XSBX_VM_CONFINE_H
#define XSBX_VM_CONFINE_H

struct confine_spec {
	const char *cache_dir, *runtime_dir, *spool_dir, *agent;
	const char *notify; /* a file to be written once, or NULL */
};

/**
 * confine_rings() - Give up io_uring
 *
 * To be called when all is mounted and before the event loop is made: newer libuv keeps a ring for its
 * epoll_ctl() calls, whatever its settings say, and a ring is a way around the list of system calls
 * that confine() puts around the process. Without one it makes those calls itself.
 *
 * Return: 0 or -errno; the process should end then.
 */
int confine_rings(void);

/**
 * confine() - Give up, for ever, what the daemon needs no more
 * @spec: The places it works with
 * @ret_step: If it fails, at what
 *
 * To be called when all is mounted and before there is a second thread. From then on the process runs
 * no program, forks no process, talks to no network, changes no mount, and sees no files but those of its
 * own directories. The spawner does the rest.
 *
 * Return: 0 or -errno; the process should end then.
 */
int confine(const struct confine_spec *spec, const char **ret_step);

/* `key: value` lines of what holds now, for `isolation`. */
void confine_tell(void (*line)(void *data, const char *key, const char *value), void *data);

/* The kernel's version of Landlock, also when it can't be asked any more. Return: 0 or -errno: none. */
int confine_landlock(void);

#endif
