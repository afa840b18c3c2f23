/* SPDX-License-Identifier: Apache-2.0 */
/* What of the host is mounted in a jail: opened, also where a server may never answer. */
#ifndef XSBX_VM_JAIL_SOURCE_H
#define XSBX_VM_JAIL_SOURCE_H

struct jail_mount;
struct statx;

/* For how long a word of another process is waited for in the spawner, and the socket of the daemon, without
 * which none is. */
void jail_source_patience(int ms, int sock);

/* Waits for so long. Return: 0 when there is something to be read, or its end, -ETIMEDOUT, or -ECANCELED if
 * there is nobody any more for whom it would be. */
int jail_source_await(int from);

/* The source of a mount, as it is asked for. Return: a descriptor (O_PATH) or -errno. */
int jail_source_open(const struct jail_mount *m);

/* The same in the spawner, with that patience. */
int jail_source_open_patiently(const struct jail_mount *m);

/* What is known of @fd without asking anybody, as a server might never answer: kind, ids, device. Return: 0
 * or -errno. */
int jail_source_look(int fd, struct statx *ret_stat);

#endif
