/* SPDX-License-Identifier: Apache-2.0 */
/* Things that user code of a sandbox must not be able to do, each tried by a function. */
#ifndef XSBX_TESTS_HOSTILE_PROBE_H
#define XSBX_TESTS_HOSTILE_PROBE_H

#include <stddef.h>

/*
 * A probe runs in a process of its own, so it may leave behind what ends with a process. It must do
 * no harm where it succeeds: it is run on the host, too, to show that it can succeed.
 *
 * Return: 0 or more if the thing is possible; else -errno.
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
