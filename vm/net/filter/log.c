/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon is told of connections and requests that have ended. */
#include "log.h"

#include <stdio.h>

#include "exchange.h"
#include "net.h"

#define BURST	 500u
#define EVERY_MS 10u

void log_tell(struct net *net, const struct destination *to, const struct verdict *v,
	      struct net_logged *m)
{
	struct log *log = &net->log;

	if (!rate_take(&log->rate, BURST, EVERY_MS, (uint64_t)ms_now(CLOCK_MONOTONIC))) {
		log->lost++;
		return;
	}
	m->header = (struct net_header){NET_LOGGED, log->number + 1};
	m->lost = log->lost;
	m->rule = v->rule;
	m->first = v->first;
	m->port = to->port;
	snprintf(m->scheme, sizeof(m->scheme), "%s", to->scheme);
	snprintf(m->host, sizeof(m->host), "%s", *to->host ? to->host : "?");
	if (net_tell(net, m, sizeof(*m)) < 0) {
		log->lost++;
		return;
	}
	log->number++;
	log->lost = 0;
}
