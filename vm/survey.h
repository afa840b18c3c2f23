/* SPDX-License-Identifier: Apache-2.0 */
/* What this host has to make jails of, found without making one; for `doctor`. */
#ifndef XSBX_SURVEY_H
#define XSBX_SURVEY_H

#include <stdbool.h>
#include <stddef.h>

#include "vm.h"

#define SURVEY_TEXT 320

struct survey {
	enum vm_level level;
	char found[SURVEY_TEXT];
	const char *fix; /* "" if there is nothing to mend */
};

/* In all of them, @root is put before the paths of /proc and /dev: "" but for tests. */

/**
 * survey_userns() - May we make user namespaces?
 * @root: See above
 * @privileged: We are root
 * @ret: Result
 */
void survey_userns(const char *root, bool privileged, struct survey *ret);

/* The filter of system calls. */
void survey_seccomp(const char *root, struct survey *ret);

/* @abi: Version, or -errno, as from landlock_abi(). */
void survey_landlock(int abi, struct survey *ret);

/* @private_ids: We can map ids that nobody else has. */
void survey_ids(bool privileged, bool private_ids, struct survey *ret);

/* One kind of limit by control groups: where it is, or why it is not to be had. */
struct survey_group {
	const char *name;
	int version, error; /* -errno, or 0 */
};

void survey_groups(const struct survey_group *groups, size_t n, bool privileged,
		   struct survey *ret);

/* What can be done about a KVM that does not work, by what /dev/kvm looks like. */
const char *survey_kvm_fix(const char *root);

#endif
