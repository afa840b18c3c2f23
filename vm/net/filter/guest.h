/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the guest's frames. */
#ifndef XSBX_VM_NET_FILTER_GUEST_H
#define XSBX_VM_NET_FILTER_GUEST_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define HALF_OPEN_MAX 64

/* Connections of which the first packet has passed, and the last one of the handshake has not. */
struct half_open {
	struct {
		uint32_t address;
		uint16_t sport, dport;
		time_t since; /* 0: free */
	} slots[HALF_OPEN_MAX];
};

#define ANSWERED_MAX 1024 /* a power of two */

/* The last connections to the guest that it has answered, by the number that it acknowledged. */
struct answered {
	uint32_t ack[ANSWERED_MAX];
};

/* Takes in one frame from the guest; @data is the struct net. */
void guest_input(void *data, uint8_t *frame, size_t len);

#endif
