/* SPDX-License-Identifier: Apache-2.0 */
/* Is /dev/kvm of any use? Asked by running something, because opening it proves nothing. */
#ifndef XSBX_VM_HOST_KVM_H
#define XSBX_VM_HOST_KVM_H

#include <stdbool.h>
#include <stdint.h>

/* Deadline of the whole probe by the clock, for hosts that have no time for it: what it takes is less than a
 * hundredth of that. */
#define KVM_PROBE_MS 10000
#define KVM_PROBE_MB 64 /* memory of its cell */

/* What the configuration says machines are to run on. */
enum accel_wish { ACCEL_AUTO, ACCEL_KVM, ACCEL_TCG, ACCEL_NWISHES };

/* Return: 0, or -EINVAL if @name is none of auto, kvm, tcg. */
int accel_wish_parse(const char *name, enum accel_wish *ret_wish);

enum kvm_state {
	KVM_UNUSABLE, /* or not there */
	KVM_DENIED,   /* QEMU has no rights on it */
	KVM_USABLE,
	KVM_UNDECIDED, /* the host did not get round to it */
};

/* What the probe's process writes to its descriptor, as it is. */
struct kvm_verdict {
	uint32_t state; /* enum kvm_state */
	char why[252];	/* one sentence, terminated */
};

/* The probe itself, in a process of its own, in QEMU's cell: writes a struct kvm_verdict to @fd and exits. */
__attribute__((noreturn)) void kvm_probe_child(int fd);

/* What to say of a probe that did not finish within KVM_PROBE_MS, or wrote something else. */
void kvm_verdict_none(struct kvm_verdict *ret_verdict, bool late);

#endif
