/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU model that QEMU presents to a guest. */
#ifndef XSBX_VM_BACKEND_QEMU_CPU_H
#define XSBX_VM_BACKEND_QEMU_CPU_H

#include <stdbool.h>
#include <stddef.h>

#define QEMU_CPU_MAX 128 /* size of its description */

/* Is QEMU's @version ("7.2.22", "10.0.2 (Debian ...)") at least this one? A version without numbers counts as
 * the oldest. */
bool qemu_at_least(const char *version, unsigned major, unsigned minor);

/* The value of -cpu: the host's processor with KVM; else what this version of QEMU emulates without known
 * bugs. @out has QEMU_CPU_MAX bytes. */
void qemu_cpu(bool kvm, const char *version, char out[QEMU_CPU_MAX]);

#endif
