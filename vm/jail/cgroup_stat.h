/* SPDX-License-Identifier: Apache-2.0 */
/* What the control groups of a jail have counted: read as often as needed, through open files. */
#ifndef XSBX_VM_JAIL_CGROUP_STAT_H
#define XSBX_VM_JAIL_CGROUP_STAT_H

#include <stdbool.h>
#include <stdint.h>

enum gauge {
	GAUGE_OOM,  /* memory.events, or memory.oom_control */
	GAUGE_CPU,  /* cpu.stat, or cpuacct.usage */
	GAUGE_WAIT, /* cpu.pressure */
	GAUGE_NUMBER,
};

/* Descriptors, -1 where this host has no such thing. The spawner opens them, because the daemon sees
 * no files but its own. */
struct gauges {
	int fd[GAUGE_NUMBER];
	uint64_t oom_noted; /* what gauges_oom_note() found last */
};

#define GAUGES_NONE ((struct gauges){{-1, -1, -1}, 0})

void gauges_close(struct gauges *g);

/* How many processes the kernel has killed for want of memory; 0 also if nobody counts them. */
uint64_t gauges_oom_kills(const struct gauges *g);

/* The same; it is remembered, so that later ones can be told from these. */
uint64_t gauges_oom_note(struct gauges *g);

/**
 * gauges_demand_ms() - How much processor time was had, and waited for
 * @g: Gauges
 * @ret_ms: Both together; where the kernel does not tell how long was waited, the first
 *
 * Return: false if nobody counts it.
 */
bool gauges_demand_ms(const struct gauges *g, uint64_t *ret_ms);

#endif
