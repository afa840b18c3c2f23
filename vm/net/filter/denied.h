/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of refused connections and lookups. */
#ifndef XSBX_VM_NET_FILTER_DENIED_H
#define XSBX_VM_NET_FILTER_DENIED_H

#include <stdint.h>

#include "message.h"
#include "vm/base/rate.h"

#define DENIED_RECENT 8

struct denied {
	uint64_t total;
	uint32_t lost, number; /* of reports: that were dropped, since the last; the last one's */
	struct rate rate;
	struct {
		int64_t time_ms;
		uint16_t port, reason;
		char name[ALLOW_NAME_MAX + 1];
	} recent[DENIED_RECENT];
	unsigned next;
};

/**
 * denied_make() - Make a report
 * @d: State, initially all zeroes
 * @reason: Why, enum net_reason
 * @name: The requested name or address; any bytes; "": nobody knows
 * @port: Port, or 0
 * @ret_msg: The report
 *
 * Repetitions within a second, as from a program that tries twice or asks for both kinds of address,
 * are reported once. Floods are cut off, and the next report has the number of missing ones.
 *
 * Return: 1, or 0 if there is nothing to be sent.
 */
int denied_make(struct denied *d, unsigned reason, const char *name, uint16_t port,
		struct net_denied *ret_msg);

#endif
