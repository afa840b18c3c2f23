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

/* ---- cgroup.c ---- */

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
void jail_cgroup_remove_all(void);

/* Opens what the groups of @cell count. */
void jail_cgroup_watch(const struct jail_cell *cell, struct cgroup_stat *ret_stat);

/* For a spawner that was killed, by a process with the same jail_instance_id(): away with all its groups. */
void jail_cgroup_sweep(void);

/* ---- cgroup_limit.c ---- */

/* Writes to a file of a group. Return: 0 or -errno. */
int jail_limit_write(int dir, const char *name, const char *text);

/* A kernel may have a controller, but not its limit. */
bool jail_limit_can(int dir, enum jail_control c, int version);

/* Limits what a group may have; JAIL_C_COUNT has no limits. Return: 0 or -errno. */
int jail_limit_set(int dir, enum jail_control c, int version, uint64_t value);

/* ---- cgroup_sweep.c ---- */

#define JAIL_GROUP_PREFIX "xsbxfs_" /* of the names of groups on which there is a lock */

/* Removes groups below @parent that a dead spawner left, but not @ours. */
void cgroup_sweep_dead(int parent, const char *ours);

/* Removes a group and those in it, of whose processes the last may still be ending. */
void cgroup_sweep_one(int parent, const char *name);

/* Makes a group that stays ours while we live. Return: its descriptor, or -errno. */
int cgroup_sweep_claim(int parent, const char *name);

#endif
