/* SPDX-License-Identifier: Apache-2.0 */
/* What user code of a guest must not reach. */
#ifndef XSBX_AGENT_GUEST_HARDEN_H
#define XSBX_AGENT_GUEST_HARDEN_H

/** harden_sysctls() - Set kernel parameters through /proc/sys; absent ones are skipped. */
void harden_sysctls(void);

/** harden_memory() - Have the kernel notice early that memory is used up. */
void harden_memory(void);

/**
 * harden_dev() - Fill a directory with the few devices that programs need
 * @dir: Empty directory of the new root; a read-only tmpfs is mounted on it
 *
 * Return: 0 or -errno.
 */
int harden_dev(const char *dir);

/**
 * harden_proc() - Cover what is dangerous in a mounted /proc
 * @proc: Where it is mounted
 * @null: A /dev/null to cover files with
 *
 * Return: 0 or -errno.
 */
int harden_proc(const char *proc, const char *null);

#endif
