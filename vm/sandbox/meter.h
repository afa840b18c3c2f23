/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox takes from the host: counted, and told for its owner's account. */
#ifndef XSBX_VM_SANDBOX_METER_H
#define XSBX_VM_SANDBOX_METER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sandbox;
struct vm;

/*
 * Theory of operation
 * -------------------
 * What counts is what the host sees: a control group or QEMU's process, and the last word of whoever has waited for it (the
 * spawner); bytes are those that the network's filter has passed on. A user can't talk these down, as he might an agent.
 *
 * All are sums that only grow. So the owner is told differences, and how much he was told is part of the sandbox's record: the
 * next daemon tells the rest, also of one that has ended meanwhile. A guest from the pool has used something before it was
 * anybody's, which nobody is told of.
 */
struct meter {
	bool free;	     /* nobody pays: it is for all */
	uid_t payer;	     /* mostly its owner; of packages, whoever has waited for them first */
	uint64_t base_us;    /* what its guest had used before it was this sandbox's */
	uint64_t told_us;    /* of what it has used since */
	uint64_t told_bytes; /* of its network */
};

/* Its guest is its own from now on, and has used something already. */
void meter_begin(struct sandbox *s);

/* Tells what there is to tell. */
void meter_look(struct sandbox *s);

/* Its guest is about to go. Another one may come. */
void meter_over(struct sandbox *s);

/* There is a sandbox: it is looked at now and then. */
void meter_start(struct vm *vm);

#endif
