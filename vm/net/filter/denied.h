/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of what was refused. */
#ifndef XSBX_VM_NET_FILTER_DENIED_H
#define XSBX_VM_NET_FILTER_DENIED_H

#include <stdint.h>

#include "message.h"

#define DENIED_RECENT 8

/* - `left` reports may be made now; they come back at a steady rate. */
struct denied {
	uint64_t total;
	uint32_t lost;
	unsigned left;
	int64_t refilled_ms;
	struct {
		int64_t time_ms;
		uint16_t port, reason;
		char name[ALLOW_NAME_MAX + 1];
	} recent[DENIED_RECENT];
	unsigned next;
};

/**
 * denied_make() - Make a report
 * @d: State; all zeroes at first
 * @reason: Why, enum net_reason
 * @name: What was asked for, a name or an address; any bytes
 * @port: Port, or 0
 * @ret_msg: The report
 *
 * The same thing again within a second, as from a program that tries twice or asks for both kinds of
 * address, is one report; so are floods cut short, and the next report says how much is missing.
 *
 * Return: 1, or 0 if there is nothing to be sent.
 */
int denied_make(struct denied *d, unsigned reason, const char *name, uint16_t port,
		struct net_denied *ret_msg);

#endif
