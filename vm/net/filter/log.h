/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon is told of connections and requests that have ended. */
#ifndef XSBX_VM_NET_FILTER_LOG_H
#define XSBX_VM_NET_FILTER_LOG_H

#include <stdint.h>

#include "message.h"
#include "vm/base/rate.h"

struct destination;
struct net;
struct verdict;

/* All zeroes: nothing was told yet. */
struct log {
	uint32_t number, lost; /* of the last that was told; how many were not, since */
	struct rate rate;
};

/**
 * log_tell() - Tell of one
 * @net: State
 * @to: Where it went
 * @v: Who decided
 * @m: What else there is to say; its header, host, port, scheme, rule and count of lost ones are filled in
 *
 * Floods are cut off, and the next one says how many are missing.
 */
void log_tell(struct net *net, const struct destination *to, const struct verdict *v,
	      struct net_logged *m);

#endif
