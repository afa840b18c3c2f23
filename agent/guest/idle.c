/* SPDX-License-Identifier: Apache-2.0 */
/* Lets the kernel of an idle guest sleep. */
#include "idle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/log.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * Each time that a guest's kernel wakes, QEMU wakes on the host several times: for the timer, for the interrupt, for
 * each timer that is set anew. Many sandboxes are idle most of the time, and what their kernels would
 * do at intervals is of no use there. With cgroup_disable=memory (vm/backend/qemu_argv.c) what is left is
 * the average of pressure, every two seconds, on which the guard of memory depends (swap.c).
 */

static const struct setting {
	const char *name, *value;
} settings[] = {
	/* twice a second: is memory fragmented? It is looked at as well when somebody needs a large piece */
	{"vm/compaction_proactiveness", "0"},
	/* every second: counters of memory, which who reads them brings up to date */
	{"vm/stat_interval", "3600"},
	/* every four seconds: does a processor hang? The host would hear of it by the agent's silence */
	{"kernel/watchdog", "0"},
	/* every five seconds: neighbours that somebody has asked to watch */
	{"net/ipv4/neigh/default/interval_probe_time_ms", "3600000"},
	{"net/ipv6/neigh/default/interval_probe_time_ms", "3600000"},
};

void idle_sysctls(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		char path[128];
		int r;

		snprintf(path, sizeof(path), "/proc/sys/%s", settings[i].name);
		r = proc_write(path, settings[i].value);
		if (r < 0 && r != -ENOENT)
			log_line("%s: %s", path, strerror(-r));
	}
}
