/* SPDX-License-Identifier: Apache-2.0 */
/* The host resources of one jail: its number, ids and control groups; and why making a jail failed. */
#include "cell.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "vm/base/util.h"

#define CELLS_MAX   2048u
#define CELL_IDS    2u
#define BASE_FIRST  0x70000000u /* above what user databases, subuids and containers use */
#define BASE_BLOCKS 32768u	/* one for each instance, by its id: two daemons rarely share ids */

static bool taken[CELLS_MAX];
static pid_t daemon_pid;
static uint32_t instance;

static const char *const step_str[] = {
	[JAIL_STEP_SPEC] = "its description",
	[JAIL_STEP_PLACE] = "finding a place (too many sandboxes)",
	[JAIL_STEP_CLONE] = "making namespaces",
	[JAIL_STEP_IDS_MAP] = "mapping ids",
	[JAIL_STEP_CGROUP] = "its control group",
	[JAIL_STEP_OWNED] = "mapping the ids of",
	[JAIL_STEP_SYNC] = "waiting for the parent",
	[JAIL_STEP_IDS] = "taking its ids",
	[JAIL_STEP_HOST_NAME] = "setting the host name",
	[JAIL_STEP_LOOPBACK] = "bringing up the loopback interface",
	[JAIL_STEP_CARD] = "making a network card (/dev/net/tun)",
	[JAIL_STEP_BUDGET] = "setting what it may use up (/proc/sys/user, /proc/sys/net)",
	[JAIL_STEP_SOURCE] = "opening",
	[JAIL_STEP_ROOT] = "making a root file system",
	[JAIL_STEP_MOUNT] = "mounting",
	[JAIL_STEP_PIVOT] = "leaving the host's root",
	[JAIL_STEP_RLIMITS] = "setting limits",
	[JAIL_STEP_PRIVILEGES] = "dropping privileges",
	[JAIL_STEP_LANDLOCK] = "Landlock",
	[JAIL_STEP_SECCOMP] = "filtering system calls",
	[JAIL_STEP_KEEP] = "holding on to",
	[JAIL_STEP_VERIFY] = "verifying",
};
static_assert(ARRAY_SIZE(step_str) == JAIL_NSTEPS, "a name for each step");

/* ---- why there is none ---- */

const char *jail_step_str(enum jail_step step)
{
	return step_str[MIN(step, JAIL_NSTEPS - 1)];
}

int jail_fault_set(struct jail_fault *f, enum jail_step step, int error, const char *what)
{
	*f = (struct jail_fault){.step = step, .error = error};
	snprintf(f->what, sizeof(f->what), "%s", what);
	return error;
}

/* ---- the instance ---- */

uint32_t jail_instance_id(void)
{
	/* Never short, once the kernel has booted. A process id would not do: another PID namespace
	 * has the same ones. */
	while (!instance)
		(void)!getrandom(&instance, sizeof(instance), 0);
	return instance;
}

void jail_instance_join(uint32_t id)
{
	instance = id;
}

void jail_instance_begin(pid_t daemon)
{
	(void)jail_instance_id();
	daemon_pid = daemon;
}

pid_t jail_instance_daemon(void)
{
	return daemon_pid;
}

/* ---- numbers and ids ---- */

/* Can we map ids @first to @first + @n - 1 into a user namespace? */
static bool ids_mappable(uint32_t first, uint32_t n)
{
	_cleanup_file_ FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned long long inside, outside, count;

	if (geteuid() != 0 || !f)
		return false;
	while (fscanf(f, "%llu %llu %llu", &inside, &outside, &count) == 3) {
		if (inside <= first && first + (unsigned long long)n <= inside + count)
			return true;
	}
	return false;
}

static uint32_t ids_base(void)
{
	return BASE_FIRST + jail_instance_id() % BASE_BLOCKS * CELLS_MAX * CELL_IDS;
}

bool jail_has_id(uint32_t id)
{
	return jail_has_private_ids() && id >= ids_base() && id - ids_base() < CELLS_MAX * CELL_IDS;
}

bool jail_is_first_id(uint32_t id)
{
	return !jail_has_private_ids() || (jail_has_id(id) && (id - ids_base()) % CELL_IDS == 0);
}

bool jail_has_private_ids(void)
{
	static int mappable = -1;

	if (mappable < 0)
		mappable = ids_mappable(ids_base(), CELLS_MAX * CELL_IDS);
	return mappable;
}

int jail_cell_take(struct jail_cell *cell)
{
	unsigned index = 0;

	while (index < CELLS_MAX && taken[index])
		index++;
	if (index == CELLS_MAX)
		return -EAGAIN;
	*cell = (struct jail_cell){.taken = true, .index = index, .into = -1};
	cell->private_ids = jail_has_private_ids();
	cell->base = cell->private_ids ? ids_base() + index * CELL_IDS : geteuid();
	taken[index] = true;
	return 0;
}

void jail_cell_return(struct jail_cell *cell)
{
	taken[cell->index] = cell->taken = false;
}

bool jail_has_two_ids(const struct jail_spec *spec, const struct jail_cell *cell)
{
	return cell->private_ids && (spec->flags & JAIL_TWO_IDS);
}

bool jail_is_as_owner(const struct jail_spec *spec, const struct jail_cell *cell)
{
	return cell->private_ids && (spec->flags & JAIL_AS_OWNER);
}

uint32_t jail_first_id(const struct jail_spec *spec, const struct jail_cell *cell)
{
	return jail_is_as_owner(spec, cell) ? spec->owner : cell->base;
}

uint32_t jail_user_id(const struct jail_spec *spec, const struct jail_cell *cell)
{
	return jail_has_two_ids(spec, cell) ? cell->base + 1 : cell->base;
}
