/* SPDX-License-Identifier: Apache-2.0 */
/* Is /dev/kvm of any use? Asked by running something, because opening it proves nothing. */
#ifndef XSBX_KVM_H
#define XSBX_KVM_H

#include <stdbool.h>
#include <stdint.h>

#define KVM_PROBE_MS 1500 /* deadline of the whole probe */

/* What the probe's process writes to its descriptor, as it is. */
struct kvm_verdict {
	uint32_t usable;
	char why[252]; /* one sentence, terminated */
};

/* The probe itself, in a process of its own: writes a struct kvm_verdict to @fd and exits. */
__attribute__((noreturn)) void kvm_probe_child(int fd);

/* What to say of a probe that did not finish within KVM_PROBE_MS, or wrote something else. */
void kvm_verdict_none(struct kvm_verdict *ret_verdict, bool late);

/* Forks, probes, and waits, KVM_PROBE_MS at most. Only where nothing else runs in the process. */
void kvm_probe_sync(struct kvm_verdict *ret_verdict);

#endif
