/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a jail's control groups, read through files that stay open. */
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

/* Descriptors, -1 for those that this host does not have. The spawner opens them, because the daemon
 * can only see its own files. */
struct cgroup_stat {
	int fd[CGROUP_STAT_NFILES];
	uint64_t oom_noted; /* last result of cgroup_stat_note_oom() */
};

#define CGROUP_STAT_NONE ((struct cgroup_stat){{-1, -1, -1}, 0})

void cgroup_stat_close(struct cgroup_stat *g);

/* How many processes the OOM killer has killed; 0 also if they are not counted. */
uint64_t cgroup_stat_oom_kills(const struct cgroup_stat *g);

/* The same; it is remembered, to tell later kills from these. */
uint64_t cgroup_stat_note_oom(struct cgroup_stat *g);

/* Microseconds of processor time that all processes of it have used, also those that have ended. Return: false if that is not
 * counted. */
bool cgroup_stat_used_us(const struct cgroup_stat *g, uint64_t *ret_us);

/**
 * cgroup_stat_demand_ms() - Get the processor time that was used, and waited for
 * @g: Of its jail
 * @ret_ms: The sum; only the time used, if the kernel does not report the time waited
 *
 * Return: false if it is not counted.
 */
bool cgroup_stat_demand_ms(const struct cgroup_stat *g, uint64_t *ret_ms);

#endif
