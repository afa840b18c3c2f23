/* SPDX-License-Identifier: Apache-2.0 */
/* The processor that QEMU is to show a guest. */
#ifndef XSBX_VM_BACKEND_QEMU_CPU_H
#define XSBX_VM_BACKEND_QEMU_CPU_H

#include <stdbool.h>
#include <stddef.h>

#define QEMU_CPU_MAX 128 /* bytes that its description takes at most */

/* Is QEMU's @version ("7.2.22", "10.0.2 (Debian ...)") this one or a later one? One without numbers is taken for
 * the oldest. */
bool qemu_at_least(const char *version, unsigned major, unsigned minor);

/* The value of -cpu: the host's processor with KVM; else what this version of QEMU emulates without known
 * mistakes. @out has QEMU_CPU_MAX bytes. */
void qemu_cpu(bool kvm, const char *version, char out[QEMU_CPU_MAX]);

#endif
