/* SPDX-License-Identifier: Apache-2.0 */
/* What a jail has of the host while it is there: its number and ids; and what kept it from being. */
#ifndef XSBX_VM_JAIL_CELL_H
#define XSBX_VM_JAIL_CELL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jail.h"

/* What failed. Names in cell.c. */
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

/* Why there is no jail: the step, its errno, and what it was about. */
struct jail_fault {
	uint32_t step;
	int32_t error; /* -errno */
	char what[JAIL_WHAT_MAX];
};

const char *jail_step_str(enum jail_step step);

/* Fills in a fault. Return: @error. */
int jail_fault_set(struct jail_fault *f, enum jail_step step, int error, const char *what);

/* What one sandbox has of the host: a number, from which its ids and its control groups follow. */
struct jail_cell {
	bool taken;
	unsigned index;
	bool private_ids; /* ids of its own; else the daemon's */
	uint32_t base;	  /* its first id on the host */
	unsigned groups;  /* bits of enum jail_control: there is a directory */
	int into;	  /* v2 control group to be born in, or -1 */
	bool into_counts; /* and that it only counts */
	struct jail_report report;
};

/**
 * jail_cell_take() - Give away a number that is free, and the ids that follow from it
 * @cell: Gets them; all else of it becomes as if there were nothing
 *
 * Return: 0, or -EAGAIN if all are taken. Give it back by jail_cell_return().
 */
int jail_cell_take(struct jail_cell *cell);
void jail_cell_return(struct jail_cell *cell);

/* Is it one of those that this spawner gives to jails? */
bool jail_has_id(uint32_t id);

/* Could a jail of this spawner's begin with it? */
bool jail_is_first_id(uint32_t id);

/* The id on the host of `user` of a spec. */
uint32_t jail_user_id(const struct jail_spec *spec, const struct jail_cell *cell);

/* The id on the host that the program begins with. */
uint32_t jail_first_id(const struct jail_spec *spec, const struct jail_cell *cell);

/* Has it an id of its own for what its program starts? */
bool jail_has_two_ids(const struct jail_spec *spec, const struct jail_cell *cell);

/* Does it work with the ids of an owner on the host? */
bool jail_is_as_owner(const struct jail_spec *spec, const struct jail_cell *cell);

/* ---- the instance: a daemon with its guard and its spawner ---- */

/* Before these are forked, so that all three agree. */
void jail_instance_begin(pid_t daemon);

/* A number that no other instance of this host is likely to have. */
uint32_t jail_instance_id(void);

/* The daemon's process id; 0 if nobody began an instance. */
pid_t jail_instance_daemon(void);

#endif
