/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the network a session may still use. */
#ifndef XSBX_VM_NET_FILTER_BUDGET_H
#define XSBX_VM_NET_FILTER_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/net_policy.h"

struct net;

/* All zeroes: nothing was used yet. `debt`: bytes that were let through ahead of the rate, at `paid_ms`. */
struct budget {
	struct net_budget used;
	uint64_t debt;
	int64_t paid_ms;
};

/* There is one more of them, if there may be. Return: NET_OK or NET_BUDGET. */
unsigned budget_request(struct net *net);
unsigned budget_connection(struct net *net);

/* Bytes have passed. Return: NET_OK, or NET_BUDGET if they were the last that may. */
unsigned budget_bytes(struct net *net, size_t len);

/* A name is looked up outside: what it says goes out, and counts as bytes that were sent. */
void budget_name(struct net *net, const char *name);

/* Is everything used up, so that nothing more may pass? */
bool budget_is_spent(const struct net *net);

/* How long nothing is read, for the rate: milliseconds, or 0. */
int budget_pause_ms(struct net *net);

#endif
