/* SPDX-License-Identifier: Apache-2.0 */
/* The guest that KVM is tried with: one for each architecture. Only for kvm.c. */
#ifndef XSBX_VM_HOST_KVM_TRIAL_H
#define XSBX_VM_HOST_KVM_TRIAL_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

#define TRIAL_MEMORY (2u << 20) /* from address 0 on */
#define TRIAL_LOOPS  100000u

struct trial {
	int kvm, vm, vcpu;
	uint8_t *memory;
	struct kvm_run *run;
};

/* Puts the program into the guest's memory, which is there already. */
void trial_load(struct trial *t);

/* Features and registers of a new processor. Return: 0 or -errno. */
int trial_begin(struct trial *t);

/* Whether the guest has stopped in order to report, and how many ticks its loop took. */
bool trial_reported(struct trial *t, uint64_t *ret_ticks);

/* Where the guest is, in words. */
const char *trial_stage(struct trial *t);

/* How many ticks the same loop takes here; and how many reading the counter may cost in a guest. */
uint64_t trial_host_loop(void);
uint64_t trial_noise(void);

#endif
