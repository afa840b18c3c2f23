/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's wall clock, kept with the host's. */
#ifndef XSBX_VM_GUEST_CLOCK_H
#define XSBX_VM_GUEST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct proto_header;
struct proto_in;
struct guest;

/* Embedded in a guest, zeroed. */
struct guest_clock {
	uint32_t id;	  /* of the question that was asked last */
	uint64_t sent_ns; /* when, by the host's wall clock */
	unsigned asked;	  /* questions of this round */
	bool heard;	  /* an answer, ever */
	bool settled;	  /* this round is over: the guest's clock is right, or won't be */
	bool held;	  /* guest_clock_hold() waits for that */
};

/**
 * guest_clock_verdict() - What an answer says of the guest's clock
 * @sent: When the question left, by the host's clock, ns
 * @guest: The guest's clock when it was answered
 * @received: When the answer came, by the host's clock
 * @ret_delta: What to add to the guest's clock now; 0: leave it
 *
 * Return: true if the guest's clock is, or will be with @ret_delta, right to within what matters; false if
 * the answer took too long to say.
 */
bool guest_clock_verdict(uint64_t sent, uint64_t guest, uint64_t received, int64_t *ret_delta);

/* Begins a round of questions, unless one is under way. Also shows whether the agent is alive. */
void guest_clock_ask(struct guest *g);

/* Takes a CLOCK_OK. Return: 0 or -EPROTO. */
int guest_clock_answer(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* Is the clock still in doubt, so that user code had better wait? If so, guest_advance() follows. */
bool guest_clock_hold(struct guest *g);

#endif
