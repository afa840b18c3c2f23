/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own confinement, entered once it has started. */
#ifndef XSBX_VM_CONFINE_H
#define XSBX_VM_CONFINE_H

struct confine_spec {
	const char *cache_dir, *runtime_dir, *spool_dir, *agent;
	const char *shared_dir, *state_dir; /* or NULL */
	const char *notify;		    /* a file that is written once, or NULL */
	const char *audit_dir;		    /* where the audit log is rotated, or NULL */
};

/**
 * confine_rings() - Give up io_uring
 *
 * Call it after mounting and before creating the event loop: newer libuv keeps a ring for its
 * epoll_ctl() calls, whatever its settings, and a ring bypasses the system call filter of
 * confine(). Without a ring it uses the plain system calls.
 *
 * Return: 0 or -errno; the process should end then.
 */
int confine_rings(void);

/**
 * confine() - Permanently give up what the daemon no longer needs
 * @spec: The paths it works with
 * @ret_step: On failure, the step that failed
 *
 * Call it after mounting and before there is a second thread. From then on the process can't run
 * programs, fork, use the network, change mounts, or access files outside of its own
 * directories. The spawner does these things for it.
 *
 * Return: 0 or -errno; the process should end then.
 */
int confine(const struct confine_spec *spec, const char **ret_step);

/* `key: value` lines about what is in effect, for `isolation`. */
void confine_tell(void (*line)(void *data, const char *key, const char *value), void *data);

/* The kernel's Landlock version, even when it can't be queried any more. Return: 0, or -errno if it
 * has none. */
int confine_landlock(void);

#endif
