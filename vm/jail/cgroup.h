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

/* Makes the groups of @cell and records their limits in its report. Return: 0, or -errno if a working
 * controller could not be used for it; then its groups have been removed. */
int jail_cgroup_make(const struct jail_spec *spec, struct jail_cell *cell,
		     struct jail_fault *fault);

/**
 * jail_cgroup_look() - Check whether a controller is available, without making a group
 * @c: Controller
 * @ret_version: Of control groups
 *
 * Return: 0, -ENOENT if it is not available to us, -EBUSY if others are in our group, or -errno.
 */
int jail_cgroup_look(enum jail_control c, int *ret_version);
const char *jail_control_str(enum jail_control c);

/* Moves this process into its groups, unless it was cloned into them. Return: 0 or -errno. */
int jail_cgroup_enter(const struct jail_cell *cell);
void jail_cgroup_remove(struct jail_cell *cell);

/* Away with every control group of this process. */
void jail_cgroup_remove_all(void);

/* Opens the counters of the groups of @cell. */
void jail_cgroup_watch(const struct jail_cell *cell, struct cgroup_stat *ret_stat);

/* Removes all groups of a killed spawner; called by a process with the same jail_instance_id(). */
void jail_cgroup_sweep(void);

#define JAIL_GROUP_PREFIX "xsbxfs_" /* of the names of groups that are locked */

#endif
