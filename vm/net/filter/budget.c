/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the network a session may still use. */
#include "budget.h"

#include <string.h>

#include "net.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Bytes are counted when they are read, so that what is read last may be up to one buffer more than the budget. The rate is kept by
 * reading nothing while more has passed than it allows: whoever sends is slowed down by TCP, and nothing is lost.
 */

static bool is_left(uint64_t most, uint64_t before, uint64_t now)
{
	return most == 0 || (before < most && now < most - before);
}

static unsigned take_one(uint64_t most, uint64_t before, uint64_t *now)
{
	if (!is_left(most, before, *now))
		return NET_BUDGET;
	++*now;
	return NET_OK;
}

unsigned budget_request(struct net *net)
{
	const struct net_policy *p = &net->egress.all;

	return take_one(p->most.requests, p->used.requests, &net->budget.used.requests);
}

unsigned budget_connection(struct net *net)
{
	const struct net_policy *p = &net->egress.all;

	if (budget_is_spent(net))
		return NET_BUDGET;
	return take_one(p->most.connections, p->used.connections, &net->budget.used.connections);
}

bool budget_is_spent(const struct net *net)
{
	const struct net_policy *p = &net->egress.all;

	return !is_left(p->most.bytes, p->used.bytes, net->budget.used.bytes);
}

unsigned budget_bytes(struct net *net, size_t len)
{
	net->budget.used.bytes += len;
	if (net->egress.all.rate)
		net->budget.debt += len;
	return budget_is_spent(net) ? NET_BUDGET : NET_OK;
}

void budget_name(struct net *net, const char *name)
{
	const size_t len = strlen(name);

	net->bytes_out += len;
	(void)budget_bytes(net, len); /* the next connection hears of it */
}

int budget_pause_ms(struct net *net)
{
	const uint64_t rate = net->egress.all.rate;
	struct budget *b = &net->budget;
	const int64_t now = ms_now(CLOCK_MONOTONIC);
	uint64_t paid;

	if (!rate || !b->debt) {
		b->debt = 0;
		b->paid_ms = now;
		return 0;
	}
	paid = (uint64_t)(now - b->paid_ms) * rate / 1000;
	if (paid) {
		b->debt -= MIN(b->debt, paid);
		b->paid_ms = now;
	}
	/* A tenth of a second's worth may be ahead. */
	return b->debt <= rate / 10 ? 0 : (int)MIN((b->debt - rate / 10) * 1000 / rate + 1, 1000u);
}
