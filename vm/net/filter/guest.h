/* SPDX-License-Identifier: Apache-2.0 */
/* Handles frames from the guest. */
#ifndef XSBX_VM_NET_FILTER_GUEST_H
#define XSBX_VM_NET_FILTER_GUEST_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define HALF_OPEN_MAX 64

/* Connections whose TCP handshake has started and is not complete. */
struct half_open {
	struct {
		uint32_t address;
		uint16_t sport, dport;
		time_t since; /* 0: free */
	} slots[HALF_OPEN_MAX];
};

#define ANSWERED_MAX 1024 /* a power of two */

/* Recent connections to the guest that it has answered, by acknowledged sequence number. */
struct answered {
	uint32_t ack[ANSWERED_MAX];
};

/* Handles one frame from the guest; @data is the struct net. */
void guest_input(void *data, uint8_t *frame, size_t len);

#endif
