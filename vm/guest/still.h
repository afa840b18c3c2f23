/* SPDX-License-Identifier: Apache-2.0 */
/* Machines with nothing to do stand still, and go on before they are sent anything. */
#ifndef XSBX_VM_GUEST_STILL_H
#define XSBX_VM_GUEST_STILL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/protocol.h"

struct guest;

enum still_state {
	STILL_AWAKE,	/* it goes on */
	STILL_ASKED,	/* ... and its agent was asked whether it need */
	STILL_STOPPING, /* the backend was told to stop it */
	STILL_STOPPED,
	STILL_NSTATES,
};

/* All zero at first, but for the timer, which is the guest's to open and close. */
struct guest_still {
	enum still_state state;
	uv_timer_t timer; /* to ask */
	uint64_t busy_at; /* ms of the loop's clock: when something was sent or received last */
	uint64_t
		patience; /* ms until it is asked again, after an answer of no; 0: there was none */
	uint32_t id;	  /* of the last question */
	unsigned unanswered;		 /* stops */
	char why[PROTO_RESTING_MAX + 1]; /* what keeps it going, or "" */
};

/* A frame of this enum proto_type is about to be queued. */
void still_on_push(struct guest *g, unsigned type);

/* Something was received, or has changed: there may be nothing to do a moment later. */
void still_touch(struct guest *g);

/* Handles RESTING. Return: 0 or -EPROTO. */
int still_on_resting(struct guest *g, uint32_t id, struct proto_in *in);

/* Does it stand still, or will in a moment? Then nothing can be expected of it. */
bool still_is_still(const struct guest *g);

/* Does it stand still already? To stop takes QEMU a moment, and processor time. */
bool still_has_stopped(const struct guest *g);

#endif
