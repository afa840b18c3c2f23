/* SPDX-License-Identifier: Apache-2.0 */
/* The control groups of jails. */
#ifndef XSBX_VM_JAIL_CGROUP_H
#define XSBX_VM_JAIL_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "jail.h"

struct cgroup_stat;
struct jail_cell;
struct jail_fault;

enum jail_control {
	JAIL_C_MEMORY,
	JAIL_C_PIDS,
	JAIL_C_CPU,
	JAIL_NLIMITS,
	JAIL_C_COUNT = JAIL_NLIMITS, /* limits nothing, counts processor time */
	JAIL_NCONTROLS,
};

/* Makes the groups of @cell and notes in its report what they limit. Return: 0, or -errno if a controller that
 * works could not be used for it; then nothing is left of it. */
int jail_cgroup_make(const struct jail_spec *spec, struct jail_cell *cell,
		     struct jail_fault *fault);

/**
 * jail_cgroup_look() - Could a controller be had? Nothing is made.
 * @c: Controller
 * @ret_version: Of control groups
 *
 * Return: 0, -ENOENT if it is not there for us, -EBUSY if others are in our group, or -errno.
 */
int jail_cgroup_look(enum jail_control c, int *ret_version);
const char *jail_control_str(enum jail_control c);

/* Moves this process in, where it was not born there. Return: 0 or -errno. */
int jail_cgroup_enter(const struct jail_cell *cell);
void jail_cgroup_remove(struct jail_cell *cell);

/* Away with every control group of this process. */
void jail_cgroup_remove_all(void);

/* Opens what the groups of @cell count. */
void jail_cgroup_watch(const struct jail_cell *cell, struct cgroup_stat *ret_stat);

/* For a spawner that was killed, by a process with the same jail_instance_id(): away with all its groups. */
void jail_cgroup_sweep(void);

#define JAIL_GROUP_PREFIX "xsbxfs_" /* of the names of groups on which there is a lock */

#endif
