/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of refused connections and lookups. */
#include "denied.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vm/base/ms.h"
#include "vm/base/util.h"

#define BURST	 200
#define EVERY_MS 50
#define AGAIN_MS 1000

static bool is_repeated(struct denied *d, int64_t now, const struct net_denied *m)
{
	for (unsigned i = 0; i < DENIED_RECENT; i++) {
		if (d->recent[i].reason == m->reason && d->recent[i].port == m->port &&
		    now - d->recent[i].time_ms < AGAIN_MS && !strcmp(d->recent[i].name, m->name))
			return true;
	}
	d->recent[d->next].time_ms = now;
	d->recent[d->next].reason = m->reason;
	d->recent[d->next].port = m->port;
	memcpy(d->recent[d->next].name, m->name, sizeof(m->name));
	d->next = (d->next + 1) % DENIED_RECENT;
	return false;
}

int denied_make(struct denied *d, unsigned reason, const char *name, uint16_t port,
		struct net_denied *ret_msg)
{
	const int64_t now = ms_now(CLOCK_MONOTONIC);

	d->total++;
	*ret_msg = (struct net_denied){
		.header = {.type = NET_DENIED}, .port = port, .reason = (uint16_t)reason};
	snprintf(ret_msg->name, sizeof(ret_msg->name), "%s", *name ? name : "?");
	for (char *c = ret_msg->name; *c; c++)
		if (*c <= ' ' || *c >= 0x7f)
			*c = '?';
	if (is_repeated(d, now, ret_msg))
		return 0;
	if (!rate_take(&d->rate, BURST, EVERY_MS, (uint64_t)now)) {
		d->lost++;
		return 0;
	}
	ret_msg->time_ms = ms_now(CLOCK_REALTIME);
	ret_msg->header.id = ++d->number;
	ret_msg->lost = d->lost;
	d->lost = 0;
	return 1;
}
