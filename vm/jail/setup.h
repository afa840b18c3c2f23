/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a process in a jail: the spawner's part and the child's part. */
#ifndef XSBX_VM_JAIL_SETUP_H
#define XSBX_VM_JAIL_SETUP_H

#include <sys/types.h>

#include "cell.h"
#include "jail.h"

/**
 * jail_place() - Allocate a number, ids, and control groups with their limits
 * @spec: Spec
 * @ret_cell: Result; release it with jail_release() after its last process has exited
 * @fault: Why it failed
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
 * @ret_go: In the child: a pipe for jail_enter(), the parent has its other end
 * @fault: Why it failed
 *
 * Return: 0 in the child, its process id in the parent, or -errno.
 */
pid_t jail_clone(const struct jail_spec *spec, struct jail_cell *cell, int *ret_pidfd, int *ret_go,
		 struct jail_fault *fault);

/**
 * jail_join() - In the child, before anything else: enter the control groups
 * @cell: From jail_place(), with its descriptors still open
 * @fault: Why it failed
 *
 * Return: 0 or -errno; the process must then end.
 */
int jail_join(const struct jail_cell *cell, struct jail_fault *fault);

/**
 * jail_enter() - In the child: everything except exec
 * @spec: Spec
 * @cell: From jail_place()
 * @go: From jail_clone(); closed
 * @tied: Called after the last change of identity, to tie the process to its parent
 * @data: Its argument
 * @fault: Why it failed
 *
 * Return: 0 or -errno; the process must then end.
 */
int jail_enter(const struct jail_spec *spec, struct jail_cell *cell, int go, void (*tied)(int data),
	       int data, struct jail_fault *fault);

/**
 * jail_verify() - Check from outside which layers are in effect, after the program was started
 * @spec: Spec
 * @pid: Process
 * @cell: Its `report` is filled in
 * @fault: Which required layer is missing
 *
 * Return: 0 or -errno; the process must then be killed.
 */
int jail_verify(const struct jail_spec *spec, pid_t pid, struct jail_cell *cell,
		struct jail_fault *fault);

/**
 * jail_keep() - Open a directory of a jail, so that it outlives the jail's processes
 * @spec: Names the directory
 * @pid: The jail's first process, which is running
 * @ret_fd: Result (O_PATH); -1 if the spec names none
 * @fault: Why it failed
 *
 * Return: 0 or -errno.
 */
int jail_keep(const struct jail_spec *spec, pid_t pid, int *ret_fd, struct jail_fault *fault);

#endif
