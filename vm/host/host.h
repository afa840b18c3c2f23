/* SPDX-License-Identifier: Apache-2.0 */
/* The host's resources: memory, processors, and memory pressure. */
#ifndef XSBX_VM_HOST_HOST_H
#define XSBX_VM_HOST_HOST_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define HOST_GROUPS_MAX	      32u /* most control groups above us to read */
#define HOST_PRESSURE_UNKNOWN UINT_MAX

/* A control group above the daemon, and the directory of its files. */
struct host_group {
	bool v2;
	char *dir;
};

/* What to read; determined once, because processes seldom change their group. */
struct host {
	char *root; /* put before every path; "" except in tests */
	struct host_group group[HOST_GROUPS_MAX];
	unsigned ngroups;
};

/*
 * A reading. Each value is the minimum of the machine's and of what each control group above the
 * daemon allows: a daemon in a container with 2 GiB has 2 GiB.
 */
struct host_reading {
	uint64_t total_mb, available_mb;
	unsigned pressure; /* "full" pressure of the last ten seconds, in hundredths of a percent;
				 * HOST_PRESSURE_UNKNOWN if the kernel does not tell */
	unsigned limited_groups; /* how many groups have a limit */
};

/**
 * host_open() - Find the control groups to read
 * @h: Result; host_close() it, also after a failure
 * @root: Put before every path; "" for this host
 *
 * Control groups that don't exist or can't be read count as having no limits.
 *
 * Return: 0 or -ENOMEM.
 */
int host_open(struct host *h, const char *root);
void host_close(struct host *h);

/* Takes a reading, which takes about 50 microseconds. */
void host_read(const struct host *h, struct host_reading *ret_reading);

/* Processors the daemon may use, in hundredths: the minimum of its affinity and control groups'
 * quotas. At least 1. */
unsigned host_cpus(const struct host *h);

/* Milliseconds for which threads of @pid and its descendants have run or were runnable: a thread that
 * computes adds the time that passes, however many share the processors. Threads that have ended are
 * not included, nor are all of a very large number. Return: 0 or -errno. */
int host_demand_ms(const struct host *h, int pid, uint64_t *ret_ms);

/* Microseconds of processor time that @pid and those children that it has waited for have used; with its descendants (@family),
 * and theirs, of a very large number not all. Return: 0 or -errno. */
int host_used_us(const struct host *h, int pid, bool family, uint64_t *ret_us);

/* Milliseconds for which threads of @pid, those that there are now, were runnable and had no processor. Return: 0 or -errno. */
int host_waited_ms(const struct host *h, int pid, uint64_t *ret_ms);

/* ---- parsers of the kernel's texts; exported for tests ---- */

/* A value of /proc/meminfo, in KiB. Return: 0 or -ENODATA. */
int host_parse_meminfo(const char *text, const char *name, uint64_t *ret_kib);

/* "full avg10=" of a pressure file, in hundredths. Return: 0 or -ENODATA. */
int host_parse_pressure(const char *text, unsigned *ret_centi);

/* A limit: a number, or "max" for UINT64_MAX; so is a number beyond any memory size.
 * Return: 0 or -ENODATA. */
int host_parse_limit(const char *text, uint64_t *ret_limit);

#endif
