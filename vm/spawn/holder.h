/* SPDX-License-Identifier: Apache-2.0 */
/* The holder: a process that only has descriptors, for a daemon that comes after the one that has
 * them. */
#ifndef XSBX_VM_SPAWN_HOLDER_H
#define XSBX_VM_SPAWN_HOLDER_H

#include <sys/types.h>

/*
 * Theory of operation
 * -------------------
 * What a sandbox is to the daemon are descriptors: without them the next daemon could do nothing
 * with what it knows. The spawner can't have them itself. Each child that it forks would have
 * copies, until it has closed them one by one, and some are files of a disk, whose close waits for
 * it.
 *
 * So a child of the spawner's has them, which sleeps otherwise. The daemon tells it what to hold
 * and what to drop (vm/base/lent.h), over a socket that the spawner has made, and that outlives the
 * daemon: what it said before its death is heard behind it. The next one gets a socket as well, and
 * over it all there is. One daemon at a time is heard; what the one before has said is done first.
 *
 * If it can't have one, by its limit or the system's, it ends. The spawner says so, and that
 * nothing survives the daemon until there is another one, which the daemon gives all that it has
 * lent once more.
 *
 * To close a file may take for ever. It is done by a thread, so that who is heard, and who comes
 * after, need not wait for that. If it is too much, it ends. It may not be able to: nobody waits
 * for that either.
 *
 * It believes nothing: who is heard can fill this table, which is his own, and no more than that.
 * It has no rights, and makes no system calls but those that this takes.
 */

/* Forks it; it ends with the other end of *@ret_control, for holder_admit(), or with its parent.
 * Return: its number, or -errno. */
pid_t holder_start(int *ret_control);

/* Makes a socket to it for a daemon. Return: that, or -errno. */
int holder_admit(int control);

#endif
