/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the host directories to be mounted in a jail, without hanging on servers that never answer. */
#ifndef XSBX_VM_JAIL_SOURCE_H
#define XSBX_VM_JAIL_SOURCE_H

struct jail_mount;
struct statx;

/* Sets how long the spawner waits for another process, and the daemon's socket: waiting ends when
 * the daemon is gone. */
void jail_source_patience(int ms, int sock);

/* Waits that long. Return: 0 when @from is readable or at its end, -ETIMEDOUT, or -ECANCELED if the
 * daemon is gone. */
int jail_source_await(int from);

/* Opens the source of a mount. Return: a descriptor (O_PATH) or -errno. */
int jail_source_open(const struct jail_mount *m);

/* The same in the spawner, with that timeout. */
int jail_source_open_patiently(const struct jail_mount *m);

/* Opens @path by what the kernel has in its caches, so this never waits. Return: a descriptor
 * (O_PATH), -EAGAIN if a server or a disk would have to be asked, or another -errno. */
int jail_source_open_cached(const char *path);

/* Gets type, ids and device of @fd from caches only, because a server might never answer. Return: 0 or
 * -errno. */
int jail_source_look(int fd, struct statx *ret_stat);

#endif
