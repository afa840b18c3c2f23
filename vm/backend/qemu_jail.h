/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's cell: what a guest that breaks out of its machine finds. */
#ifndef XSBX_VM_BACKEND_QEMU_JAIL_H
#define XSBX_VM_BACKEND_QEMU_JAIL_H

#include <limits.h>
#include <stdbool.h>

#include "vm/jail/jail.h"
#include "vm/jail/view.h"

struct qemu_jail {
	struct jail_spec spec;
	char program[PATH_MAX]; /* for argv[0] */
	/* What `spec` points to. */
	char lib[VIEW_LEADS_MAX], lib64[VIEW_LEADS_MAX];
	char texts[8 * PATH_MAX];
	size_t len;
};

/**
 * qemu_jail() - Describe the cell of a machine
 * @qemu: Program: a path, or a name to be looked for in PATH
 * @kvm: It needs /dev/kvm
 * @memory_mb: Most memory of its process, guest and all, or 0 for no limit
 * @cpus: Virtual processors
 * @ret_jail: Result
 *
 * Return: 0, or -ENOENT where there is no such program.
 */
int qemu_jail(const char *qemu, bool kvm, unsigned memory_mb, unsigned cpus,
	      struct qemu_jail *ret_jail);

#endif
