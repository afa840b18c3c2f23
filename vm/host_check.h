/* SPDX-License-Identifier: Apache-2.0 */
/* What this host has to make jails of, found without making one; for `doctor`. */
#ifndef XSBX_VM_HOST_CHECK_H
#define XSBX_VM_HOST_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "vm/base/util.h"
#include "vm/host/kvm.h"
#include "vm.h"

#define HOST_CHECK_TEXT 320

struct host_check {
	enum vm_level level;
	char found[HOST_CHECK_TEXT];
	const char *fix; /* "" if there is nothing to mend */
};

/* In all of them, @root is put before the paths of /proc and /dev: "" but for tests. */

/**
 * host_check_userns() - May we make user namespaces?
 * @root: See above
 * @privileged: We are root
 * @ret: Result
 */
void host_check_userns(const char *root, bool privileged, struct host_check *ret);

/* The filter of system calls. */
void host_check_seccomp(const char *root, struct host_check *ret);

/* @abi: Version, or -errno, as from landlock_abi(). */
void host_check_landlock(int abi, struct host_check *ret);

/* @private_ids: We can map ids that nobody else has. */
void host_check_ids(bool privileged, bool private_ids, struct host_check *ret);

/* One kind of limit by control groups: where it is, or why it is not to be had. */
struct host_check_group {
	const char *name;
	int version, error; /* -errno, or 0 */
};

void host_check_groups(const struct host_check_group *groups, size_t n, bool privileged,
		       struct host_check *ret);

/* Whether jails can have network cards; @programs: those of the network are there. */
void host_check_network(const char *root, bool programs, struct host_check *ret);

/* The registries that packages come from. */
enum host_check_registry { HOST_CHECK_PYTHON, HOST_CHECK_NPM, HOST_CHECK_NREGISTRIES };

/**
 * host_check_packages() - Can packages be installed, by what, and from where?
 * @cfg: Of the configuration
 * @path: Directories with colons between them, as in PATH, where the host's programs are
 * @image: Is there an image that has the installer?
 * @ret: Result
 */
void host_check_packages(const struct vm_packages *cfg, const char *path,
			 const bool image[HOST_CHECK_NREGISTRIES], struct host_check *ret);

/* Where layers are kept, and what of them there is. */
struct host_check_layers {
	const char *dir;
	uint64_t limit, bytes; /* limit 0: none */
	unsigned n;
	bool more; /* of `bytes`: they were not all counted */
	int error; /* -errno if nothing can be written there, or 0 */
};

void host_check_layers(const struct host_check_layers *l, struct host_check *ret);

/* What can be done about a KVM that does not work, by what its trial showed, whether /dev/kvm is there, and whether
 * the daemon is root. */
const char *host_check_kvm_fix(const char *root, enum kvm_state state, bool privileged);

#endif
