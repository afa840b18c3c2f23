/* SPDX-License-Identifier: Apache-2.0 */
/* How a process comes to be in a jail: what the spawner does, and what its child. */
#ifndef XSBX_VM_JAIL_SETUP_H
#define XSBX_VM_JAIL_SETUP_H

#include <sys/types.h>

#include "cell.h"
#include "jail.h"

/**
 * jail_place() - Find a place: a number, ids, control groups with their limits
 * @spec: What is wanted
 * @ret_cell: Result; give it back with jail_release() when its last process is gone
 * @fault: Why not
 *
 * Return: 0 or -errno.
 */
int jail_place(const struct jail_spec *spec, struct jail_cell *ret_cell, struct jail_fault *fault);
void jail_release(struct jail_cell *cell);

/**
 * jail_clone() - Fork into new namespaces
 * @spec: Spec
 * @cell: From jail_place()
 * @ret_pidfd: In the parent: the child's
 * @ret_go: In the child: a pipe for jail_enter(), whose other end the parent holds
 * @fault: Why not
 *
 * Return: 0 in the child, its process id in the parent, or -errno.
 */
pid_t jail_clone(const struct jail_spec *spec, struct jail_cell *cell, int *ret_pidfd, int *ret_go,
		 struct jail_fault *fault);

/**
 * jail_join() - In the child, before anything else: into the control groups
 * @cell: From jail_place(), whose descriptors are still open
 * @fault: Why not
 *
 * Return: 0 or -errno; the process must then end.
 */
int jail_join(const struct jail_cell *cell, struct jail_fault *fault);

/**
 * jail_enter() - In the child: everything but exec
 * @spec: Spec
 * @cell: From jail_place()
 * @go: From jail_clone(); closed
 * @tied: Called after the last change of identity, to tie the process to its parent
 * @data: Its argument
 * @fault: Why not
 *
 * Return: 0 or -errno; the process must then end.
 */
int jail_enter(const struct jail_spec *spec, struct jail_cell *cell, int go, void (*tied)(int data),
	       int data, struct jail_fault *fault);

/**
 * jail_verify() - Look from outside at what holds, after the program was started
 * @spec: Spec
 * @pid: Process
 * @cell: Its `report` is filled in
 * @fault: What was to hold and does not
 *
 * Return: 0 or -errno; the process must then be killed.
 */
int jail_verify(const struct jail_spec *spec, pid_t pid, struct jail_cell *cell,
		struct jail_fault *fault);

/**
 * jail_keep() - Take hold of a directory of a jail, which then stays when its processes are gone
 * @spec: Says which
 * @pid: Its first process, which runs
 * @ret_fd: Result, for looking up only; -1 if nothing was asked for
 * @fault: Why not
 *
 * Return: 0 or -errno.
 */
int jail_keep(const struct jail_spec *spec, pid_t pid, int *ret_fd, struct jail_fault *fault);

#endif
