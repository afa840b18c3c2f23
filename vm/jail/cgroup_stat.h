/* SPDX-License-Identifier: Apache-2.0 */
/* What the control groups of a jail have counted: read as often as needed, through open files. */
#ifndef XSBX_VM_JAIL_CGROUP_STAT_H
#define XSBX_VM_JAIL_CGROUP_STAT_H

#include <stdbool.h>
#include <stdint.h>

enum cgroup_stat_file {
	CGROUP_STAT_OOM,  /* memory.events, or memory.oom_control */
	CGROUP_STAT_CPU,  /* cpu.stat, or cpuacct.usage */
	CGROUP_STAT_WAIT, /* cpu.pressure */
	CGROUP_STAT_NFILES,
};

/* Descriptors, -1 where this host has no such thing. The spawner opens them, because the daemon sees
 * no files but its own. */
struct cgroup_stat {
	int fd[CGROUP_STAT_NFILES];
	uint64_t oom_noted; /* what cgroup_stat_note_oom() found last */
};

#define CGROUP_STAT_NONE ((struct cgroup_stat){{-1, -1, -1}, 0})

void cgroup_stat_close(struct cgroup_stat *g);

/* How many processes the kernel has killed on OOM; 0 also if nobody counts them. */
uint64_t cgroup_stat_oom_kills(const struct cgroup_stat *g);

/* The same; it is remembered, so that later ones can be told from these. */
uint64_t cgroup_stat_note_oom(struct cgroup_stat *g);

/**
 * cgroup_stat_demand_ms() - How much processor time was had, and waited for
 * @g: Of its jail
 * @ret_ms: Both together; where the kernel does not tell how long was waited, the first
 *
 * Return: false if nobody counts it.
 */
bool cgroup_stat_demand_ms(const struct cgroup_stat *g, uint64_t *ret_ms);

#endif
