/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's jail: confines a guest that breaks out of its machine. */
#ifndef XSBX_VM_BACKEND_QEMU_JAIL_H
#define XSBX_VM_BACKEND_QEMU_JAIL_H

#include <limits.h>
#include <stdbool.h>

#include "vm/jail/jail.h"
#include "vm/jail/view.h"

struct qemu_jail {
	struct jail_spec spec;
	char program[PATH_MAX]; /* for argv[0] */
	/* Storage that `spec` points to. */
	char lib[VIEW_LEADS_MAX], lib64[VIEW_LEADS_MAX];
	char texts[8 * PATH_MAX];
	size_t len;
};

/**
 * qemu_jail() - Describe the jail of a machine
 * @qemu: Program: a path, or a name to be looked up in PATH
 * @kvm: It needs /dev/kvm
 * @memory_mb: Memory limit of the process, including the guest, or 0 for none
 * @cpus: Virtual processors
 * @ret_jail: Result
 *
 * Return: 0, or -ENOENT if there is no such program.
 */
int qemu_jail(const char *qemu, bool kvm, unsigned memory_mb, unsigned cpus,
	      struct qemu_jail *ret_jail);

#endif
