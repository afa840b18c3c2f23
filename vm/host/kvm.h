/* SPDX-License-Identifier: Apache-2.0 */
/* Is /dev/kvm usable? Tested by running a machine, because opening it proves nothing. */
#ifndef XSBX_VM_HOST_KVM_H
#define XSBX_VM_HOST_KVM_H

#include <stdbool.h>
#include <stdint.h>

/* Deadline of the whole probe, for overloaded hosts: normally it takes less than a hundredth of
 * that. */
#define KVM_PROBE_MS 10000
#define KVM_PROBE_MB 64 /* memory limit of its jail */

/* The configured accelerator. */
enum accel_wish { ACCEL_AUTO, ACCEL_KVM, ACCEL_TCG, ACCEL_NWISHES };

/* Return: 0, or -EINVAL if @name is none of auto, kvm, tcg. */
int accel_wish_parse(const char *name, enum accel_wish *ret_wish);

enum kvm_state {
	KVM_UNUSABLE, /* or missing */
	KVM_DENIED,   /* QEMU is not permitted to open it */
	KVM_USABLE,
	KVM_UNDECIDED, /* the probe did not finish in time */
};

/* The result, which the probe's process writes to its descriptor in this form. */
struct kvm_verdict {
	uint32_t state; /* enum kvm_state */
	char why[252];	/* one sentence, terminated */
};

/* The probe itself, in its own process, in QEMU's jail: writes a struct kvm_verdict to @fd and exits. */
__attribute__((noreturn)) void kvm_probe_child(int fd);

/* The verdict for a probe that did not finish within KVM_PROBE_MS (@late), or wrote something else. */
void kvm_verdict_none(struct kvm_verdict *ret_verdict, bool late);

#endif
