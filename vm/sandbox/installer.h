/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that install packages, and pack them into a file system. */
#ifndef XSBX_VM_SANDBOX_INSTALLER_H
#define XSBX_VM_SANDBOX_INSTALLER_H

#include <stdbool.h>

#include "vm/base/spec.h"
#include "vm/build/package_job.h"

struct sandbox;
struct vm;

/* One sandbox at a time. Embedded in struct vm, with `vm` and `jobs` set. */
struct installer {
	struct vm *vm;
	struct package_jobs *jobs;
	struct sandbox *sandbox; /* or NULL */
	bool sent, done;	 /* its run was sent; it has succeeded */
	struct vm_install view;	 /* what it sees */
};

/* The operations for package jobs; their data is the installer. */
extern const struct package_ops installer_ops;

#endif
