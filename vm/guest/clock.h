/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a guest's wall clock in step with the host's. */
#ifndef XSBX_VM_GUEST_CLOCK_H
#define XSBX_VM_GUEST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct proto_header;
struct proto_in;
struct guest;

/* Embedded in a guest, zeroed. */
struct guest_clock {
	uint32_t id;	  /* of the last query */
	uint64_t sent_ns; /* its time, by the host's wall clock */
	unsigned asked;	  /* queries in this round */
	bool heard;	  /* an answer was received, ever */
	bool settled;	  /* this round is over: the guest's clock is right, or can't be set */
	bool held;	  /* guest_clock_hold() waits for that */
};

/**
 * guest_clock_verdict() - Evaluate an answer about the guest's clock
 * @sent: When the query was sent, by the host's clock, ns
 * @guest: The guest's clock when it answered
 * @received: When the answer arrived, by the host's clock
 * @ret_delta: What to add to the guest's clock now; 0: nothing
 *
 * Return: true if the guest's clock is accurate enough, or will be with @ret_delta; false if the answer took
 * too long to tell.
 */
bool guest_clock_verdict(uint64_t sent, uint64_t guest, uint64_t received, int64_t *ret_delta);

/* Starts a round of queries, unless one is under way. Also shows whether the agent is alive. */
void guest_clock_ask(struct guest *g);

/* Handles a CLOCK_OK. Return: 0 or -EPROTO. */
int guest_clock_answer(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* Is the clock not settled yet, so that user code should wait? If so, guest_advance() is called when it is. */
bool guest_clock_hold(struct guest *g);

#endif
