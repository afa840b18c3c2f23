/* SPDX-License-Identifier: Apache-2.0 */
/* What this host offers for jails, found without creating one; for `doctor`. */
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
	const char *fix; /* "" if there is nothing to fix */
};

/* In all of these, @root is prefixed to paths in /proc and /dev: "" except in tests. */

/**
 * host_check_userns() - May we create user namespaces?
 * @root: See above
 * @privileged: We are root
 * @ret: Result
 */
void host_check_userns(const char *root, bool privileged, struct host_check *ret);

/* System call filtering (seccomp). */
void host_check_seccomp(const char *root, struct host_check *ret);

/* @abi: Version, or -errno, as from landlock_abi(). */
void host_check_landlock(int abi, struct host_check *ret);

/* @private_ids: we can map ids that nobody else uses. */
void host_check_ids(bool privileged, bool private_ids, struct host_check *ret);

/* One kind of cgroup limit: where it is, or why it is unavailable. */
struct host_check_group {
	const char *name;
	int version, error; /* -errno, or 0 */
};

void host_check_groups(const struct host_check_group *groups, size_t n, bool privileged,
		       struct host_check *ret);

/* Can jails have network cards? @programs: the network programs are installed. */
void host_check_network(const char *root, bool programs, struct host_check *ret);

/* The registries that packages are fetched from. */
enum host_check_registry { HOST_CHECK_PYTHON, HOST_CHECK_NPM, HOST_CHECK_NREGISTRIES };

/**
 * host_check_packages() - Can packages be installed, with what, and from where?
 * @cfg: Configuration
 * @path: Directories of the host's programs, separated by colons as in PATH
 * @image: Is there an image with the installer?
 * @ret: Result
 */
void host_check_packages(const struct vm_packages *cfg, const char *path,
			 const bool image[HOST_CHECK_NREGISTRIES], struct host_check *ret);

/* The directory of layers, and its contents. */
struct host_check_layers {
	const char *dir;
	uint64_t limit, bytes; /* limit 0: none */
	unsigned n;
	bool more; /* `bytes` is incomplete: not all were counted */
	int error; /* -errno if it is not writable, or 0 */
};

void host_check_layers(const struct host_check_layers *l, struct host_check *ret);

/* What to do if KVM does not work, depending on the result of its trial, on whether /dev/kvm
 * exists, and on whether the daemon is root. */
const char *host_check_kvm_fix(const char *root, enum kvm_state state, bool privileged);

#endif
