/* SPDX-License-Identifier: Apache-2.0 */
/* What this host has to make jails of, found without making one; for `doctor`. */
#ifndef XSBX_VM_HOST_CHECK_H
#define XSBX_VM_HOST_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "vm/base/util.h"
#include "vm/host/kvm.h"
#include "vm.h"

#define SURVEY_TEXT 320

struct survey {
	enum vm_level level;
	char found[SURVEY_TEXT];
	const char *fix; /* "" if there is nothing to mend */
};

/* Fills in @ret; @fmt makes what was found. */
void survey_say(struct survey *ret, enum vm_level level, const char *fix, const char *fmt, ...)
	printf_like(4, 5);

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

/* Whether jails can have network cards; @programs: those of the network are there. */
void survey_network(const char *root, bool programs, struct survey *ret);

/* ---- host_check_packages.c ---- */

/* The registries that packages come from. */
enum survey_registry { SURVEY_PYTHON, SURVEY_NPM, SURVEY_NREGISTRIES };

/**
 * survey_packages() - Can packages be installed, by what, and from where?
 * @cfg: Of the configuration
 * @path: Directories with colons between them, as in PATH, where the host's programs are
 * @image: Is there an image that has the installer?
 * @ret: Result
 */
void survey_packages(const struct vm_packages *cfg, const char *path,
		     const bool image[SURVEY_NREGISTRIES], struct survey *ret);

/* Where layers are kept, and what of them there is. */
struct survey_layers {
	const char *dir;
	uint64_t limit, bytes; /* limit 0: none */
	unsigned n;
	bool more; /* of `bytes`: they were not all counted */
	int error; /* -errno if nothing can be written there, or 0 */
};

void survey_layers(const struct survey_layers *l, struct survey *ret);

/* ---- host_check.c ---- */

/* What can be done about a KVM that does not work, by what its trial showed, whether /dev/kvm is there, and whether
 * the daemon is root. */
const char *survey_kvm_fix(const char *root, enum kvm_state state, bool privileged);

#endif
