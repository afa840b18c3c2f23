/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that look at a host: one that the test makes up, out of files below a directory. */
#ifndef XSBX_HOST_BED_H
#define XSBX_HOST_BED_H

#include <limits.h>

extern char root[PATH_MAX];

/* A file of that host, with the directories above it. */
void put(const char *name, const char *text);

/* For each test: a host without any file. */
int host_bed_setup(void **state);
int host_bed_teardown(void **state);

#endif
