/* SPDX-License-Identifier: Apache-2.0 */
/* The sandboxes in which packages are installed, and in which a file system is made of them. */
#ifndef XSBX_VM_SANDBOX_INSTALLER_H
#define XSBX_VM_SANDBOX_INSTALLER_H

#include <stdbool.h>

#include "vm/base/spec.h"
#include "vm/build/package_job.h"

struct sandbox;
struct vm;

/* One sandbox at a time. Embedded in the machinery, with `vm` and `jobs` set. */
struct installer {
	struct vm *vm;
	struct package_jobs *jobs;
	struct sandbox *sandbox; /* or NULL */
	bool sent, done;	 /* its run was handed over; it has ended well */
	struct vm_install view;	 /* what it sees */
};

/* What package jobs need of it; their data is the installer. */
extern const struct package_ops installer_ops;

#endif
