/* SPDX-License-Identifier: Apache-2.0 */
/* What the host has to give: memory, processors, and how hard it is pressed for memory. */
#ifndef XSBX_VM_HOST_HOST_H
#define XSBX_VM_HOST_HOST_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define HOST_GROUPS_MAX	      32u /* control groups above us that are looked at */
#define HOST_PRESSURE_UNKNOWN UINT_MAX

/* One control group above the daemon, and where its figures are. */
struct host_group {
	bool v2;
	char *dir;
};

/* Where to look; found out once, because processes seldom change their group. */
struct host {
	char *root; /* "" but in tests: put before every path */
	struct host_group group[HOST_GROUPS_MAX];
	unsigned ngroups;
};

/*
 * A reading. Everything is the least of what the machine has and what each control group above the
 * daemon allows: a daemon in a container of 2 GiB has 2 GiB.
 */
struct host_reading {
	uint64_t total_mb, available_mb;
	unsigned pressure; /* hundredths of a per cent of the last ten seconds in which nothing got
				 * on for want of memory; HOST_PRESSURE_UNKNOWN if nobody says */
	unsigned limited_groups; /* how many groups have a limit */
};

/**
 * host_open() - Find out where to look
 * @h: Result; host_close() it, also after a failure
 * @root: Put before every path; "" for this host
 *
 * A host without control groups, or with some that can't be read, is a host without their limits.
 *
 * Return: 0 or -ENOMEM.
 */
int host_open(struct host *h, const char *root);
void host_close(struct host *h);

/* Takes a reading, in some 50 microseconds. */
void host_read(const struct host *h, struct host_reading *ret_reading);

/* Processors the daemon may use, in hundredths of one: those of its affinity, or of a control
 * group's quota if that is less. At least 1. */
unsigned host_cpus(const struct host *h);

/* Milliseconds that the threads of @pid and of what it has started have used a processor or stood in
 * line for one: one that computes adds as many as pass, however many share the processors. What ended
 * is not in it, nor is everybody of a large crowd. Return: 0 or -errno. */
int host_demand_ms(const struct host *h, int pid, uint64_t *ret_ms);

/* ---- texts of the kernel, taken apart; for tests ---- */

/* A value of /proc/meminfo, in KiB. Return: 0 or -ENODATA. */
int host_parse_meminfo(const char *text, const char *name, uint64_t *ret_kib);

/* "full avg10=" of a pressure file, in hundredths. Return: 0 or -ENODATA. */
int host_parse_pressure(const char *text, unsigned *ret_centi);

/* A limit: a number, or "max", which is UINT64_MAX, as is a number beyond all memory.
 * Return: 0 or -ENODATA. */
int host_parse_limit(const char *text, uint64_t *ret_limit);

#endif
