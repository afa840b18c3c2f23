/* SPDX-License-Identifier: Apache-2.0 */
/* Leases, on the host's side: when one is asked for, and what is told during it beside answers. */
#ifndef XSBX_VM_GUEST_LEASE_H
#define XSBX_VM_GUEST_LEASE_H

#include "channel.h"
#include "known.h"

/*
 * A lease (see the agent's lease.h) is asked for along with a request when a few have been made
 * since the last run began. Anything else that is sent, and makes code run, ends it, without a word
 * to say so: `commands` of the channel counts such frames where they are sent.
 */
struct guest_lease {
	struct channel *channel;
	struct known known;
	bool asked;	   /* there is no answer yet */
	uint32_t number;   /* of the last question */
	uint32_t commands; /* sent before it: see struct channel */
	unsigned requests; /* since `commands` changed, or since the last refusal */
	unsigned patience; /* so many are to be waited for before the next question */
};

/* Embedded by its owner, zeroed before. */
void lease_init(struct guest_lease *l, struct channel *channel);

/* What is known now. */
struct known *lease_known(struct guest_lease *l);

/* A request is about to be sent: asks for a lease, if it is time for that. */
void lease_want(struct guest_lease *l);

/* Handle LEASED, UNLEASED, NOTED and CONTENT. Return: 0, or -EPROTO if it violates the protocol. */
int lease_on_leased(struct guest_lease *l, uint32_t id, struct proto_in *in);
int lease_on_unleased(struct guest_lease *l, struct proto_in *in);
int lease_on_noted(struct guest_lease *l, struct proto_in *in);
int lease_on_content(struct guest_lease *l, struct proto_in *in);

#endif
