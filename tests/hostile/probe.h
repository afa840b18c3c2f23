/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: functions that try what a sandbox's user code must not be able to do. */
#ifndef XSBX_TESTS_HOSTILE_PROBE_H
#define XSBX_TESTS_HOSTILE_PROBE_H

#include <stddef.h>

/*
 * A probe runs in its own process, so it need not clean up what ends with the process. It must be
 * harmless if it succeeds: it is also run on the host, to show that it can succeed.
 *
 * Return: 0 or more if it is possible; else -errno.
 */
struct probe {
	const char *name;
	int (*try)(void);
};

extern const struct probe spaces_probes[], kernel_probes[], rights_probes[];
extern const size_t n_spaces_probes, n_kernel_probes, n_rights_probes;

/* Return: @r, or -errno if it is -1. */
int probe_result(long r);

#endif
