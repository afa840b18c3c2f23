/* SPDX-License-Identifier: Apache-2.0 */
/* The files of control groups, version 2 or 1, that limit. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"
#include "vm/base/util.h"

#define CPU_PERIOD_US 100000u

/* For versions 1 and 2. */
static const char *const limit_file[][2] = {
	[JAIL_C_MEMORY] = {"memory.limit_in_bytes", "memory.max"},
	[JAIL_C_PIDS] = {"pids.max", "pids.max"},
	[JAIL_C_CPU] = {"cpu.cfs_quota_us", "cpu.max"},
};
static_assert(ARRAY_SIZE(limit_file) == JAIL_NLIMITS, "a file for each limit");

int jail_limit_write(int dir, const char *name, const char *text)
{
	_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

bool jail_limit_can(int dir, enum jail_control c, int version)
{
	return faccessat(dir, limit_file[c][version - 1], F_OK, 0) == 0;
}

static int limit_memory(int dir, int version, uint64_t value)
{
	const char *file = limit_file[JAIL_C_MEMORY][version - 1];
	static const char with_swap[] = "memory.memsw.limit_in_bytes";
	char text[48];
	int r;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	r = jail_limit_write(dir, file, text);
	/* Without swap, or without accounting for it, there is no such file. */
	if (version == 2) {
		(void)jail_limit_write(dir, "memory.swap.max", "0");
		return r;
	}
	/* In a group that was left, the limit of both together may be a lower one, and has to go up first. */
	if (jail_limit_write(dir, with_swap, text) == 0 && r == -EINVAL)
		r = jail_limit_write(dir, file, text);
	/* What is in sockets' buffers is counted by itself, on top. */
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value / 4);
	(void)jail_limit_write(dir, "memory.kmem.tcp.limit_in_bytes", text);
	return r;
}

int jail_limit_set(int dir, enum jail_control c, int version, uint64_t value)
{
	const unsigned long long us = value * CPU_PERIOD_US / 100;
	char text[48];
	int r;

	if (c == JAIL_C_COUNT)
		return 0;
	if (c == JAIL_C_MEMORY)
		return limit_memory(dir, version, value);
	if (c == JAIL_C_PIDS)
		snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	else if (version == 2)
		snprintf(text, sizeof(text), "%llu %u", us, CPU_PERIOD_US);
	else
		snprintf(text, sizeof(text), "%llu", us);
	r = jail_limit_write(dir, limit_file[c][version - 1], text);
	/* Version 1 takes no more than a group above has; that one's limit is the lower one, and holds. */
	if (r == -EINVAL && c == JAIL_C_CPU && version == 1)
		r = jail_limit_write(dir, limit_file[c][0], "-1");
	return r;
}
