/* SPDX-License-Identifier: Apache-2.0 */
/* Hides from user code what it must not access in a guest. */
#ifndef XSBX_AGENT_GUEST_HARDEN_H
#define XSBX_AGENT_GUEST_HARDEN_H

/** harden_sysctls() - Set kernel parameters through /proc/sys; absent ones are skipped. */
void harden_sysctls(void);

/** harden_memory() - Make the kernel detect early that memory is exhausted. */
void harden_memory(void);

/**
 * harden_dev() - Fill a directory with the few devices that programs need
 * @dir: Empty directory of the new root; a read-only tmpfs is mounted on it
 *
 * Return: 0 or -errno.
 */
int harden_dev(const char *dir);

/**
 * harden_proc() - Hide dangerous files in a mounted /proc
 * @proc: Where it is mounted
 * @null: A /dev/null to cover files with
 *
 * Return: 0 or -errno.
 */
int harden_proc(const char *proc, const char *null);

#endif
