/* SPDX-License-Identifier: Apache-2.0 */
/* The host resources of one jail: its number, ids and control groups; and why making a jail failed. */
#ifndef XSBX_VM_JAIL_CELL_H
#define XSBX_VM_JAIL_CELL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jail.h"

/* The step that failed. Names in cell.c. */
enum jail_step {
	JAIL_STEP_SPEC,
	JAIL_STEP_PLACE,
	JAIL_STEP_CLONE,
	JAIL_STEP_IDS_MAP,
	JAIL_STEP_CGROUP,
	JAIL_STEP_OWNED,
	JAIL_STEP_SYNC,
	JAIL_STEP_IDS,
	JAIL_STEP_HOST_NAME,
	JAIL_STEP_LOOPBACK,
	JAIL_STEP_CARD,
	JAIL_STEP_BUDGET,
	JAIL_STEP_SOURCE,
	JAIL_STEP_ROOT,
	JAIL_STEP_MOUNT,
	JAIL_STEP_PIVOT,
	JAIL_STEP_RLIMITS,
	JAIL_STEP_PRIVILEGES,
	JAIL_STEP_LANDLOCK,
	JAIL_STEP_SECCOMP,
	JAIL_STEP_KEEP,
	JAIL_STEP_VERIFY,
	JAIL_NSTEPS,
};

/* Why there is no jail: the failed step, its errno, and the object concerned. */
struct jail_fault {
	uint32_t step;
	int32_t error; /* -errno */
	char what[JAIL_WHAT_MAX];
};

const char *jail_step_str(enum jail_step step);

/* Fills in a fault. Return: @error. */
int jail_fault_set(struct jail_fault *f, enum jail_step step, int error, const char *what);

/* The host resources of one sandbox: a number, from which its ids and control groups are derived. */
struct jail_cell {
	bool taken;
	unsigned index;
	bool private_ids; /* it has its own ids; else the daemon's */
	uint32_t base;	  /* its first id on the host */
	unsigned groups;  /* bits of enum jail_control: its directory exists */
	int into;	  /* v2 control group to clone into, or -1 */
	bool into_counts; /* that group only counts */
	struct jail_report report;
};

/**
 * jail_cell_take() - Allocate a free number and the ids derived from it
 * @cell: Result; its other members are reset
 *
 * Return: 0, or -EAGAIN if all are taken. Release it with jail_cell_return().
 */
int jail_cell_take(struct jail_cell *cell);
void jail_cell_return(struct jail_cell *cell);

/* Is it an id that this spawner gives to jails? */
bool jail_has_id(uint32_t id);

/* Could it be the first id of one of this spawner's jails? */
bool jail_is_first_id(uint32_t id);

/* The host's id for `user` of a spec. */
uint32_t jail_user_id(const struct jail_spec *spec, const struct jail_cell *cell);

/* The host's id that the program starts with. */
uint32_t jail_first_id(const struct jail_spec *spec, const struct jail_cell *cell);

/* Does it have a second id for processes that its program starts? */
bool jail_has_two_ids(const struct jail_spec *spec, const struct jail_cell *cell);

/* Does it use the ids of an owner on the host? */
bool jail_is_as_owner(const struct jail_spec *spec, const struct jail_cell *cell);

/* ---- the instance: a daemon with its guard and its spawner ---- */

/* Called before these are forked, so that all three agree. */
void jail_instance_begin(pid_t daemon);

/* In a daemon that joins an instance which is there: its number. */
void jail_instance_join(uint32_t id);

/* A number that no other instance of this host is likely to have. */
uint32_t jail_instance_id(void);

/* The daemon's process id; 0 if there is no instance. */
pid_t jail_instance_daemon(void);

#endif
