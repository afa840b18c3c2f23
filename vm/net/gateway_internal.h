/* SPDX-License-Identifier: Apache-2.0 */
/* Private to gateway.c and gateway_policy.c: the daemon's side of a sandbox's network. */
#ifndef XSBX_VM_NET_GATEWAY_INTERNAL_H
#define XSBX_VM_NET_GATEWAY_INTERNAL_H

#include <sys/queue.h>

#include "gateway.h"
#include "leave.h"
#include "vm/base/egress.h"
#include "vm/base/packets.h"
#include "vm/base/turn.h"

struct gateway {
	struct gateway_config cfg;
	struct packets packets;
	struct egress egress;
	struct leaves leaves;
	bool lists_only; /* the filter is of a version that knows nothing else */
	bool has_policy; /* it was told more than a list */
	TAILQ_HEAD(gateway_dials, dial) dials;
	unsigned ndials;
	uint16_t forwards[NET_FORWARDS_MAX];
	unsigned nforwards;
	bool resyncs; /* NET_RESYNCED is to come: what was asked for before will be asked for again */
	uint32_t resync;	 /* its number */
	uint32_t denied, logged; /* number of the last NET_DENIED and NET_LOGGED, or 0 */
	void (*recheck)(struct gateway *gw); /* ends requests that the lists no longer allow */
	struct turn_speaker speaks, consumes;
	void (*closed)(void *data);
	void *closed_data;
};

/* Is it printable, terminated, and not empty? */
bool gateway_is_text(const char *text, size_t size);

/* The turn of the loop that it goes on in, or NULL. */
static inline struct turn *gateway_turn(const struct gateway *gw)
{
	return gw->cfg.turn ? *gw->cfg.turn : NULL;
}

/* What is recorded of it has changed, or is about to. */
void gateway_touch(const struct gateway *gw);

/* ---- what the helper tells of the policy. Return: 0 or -EPROTO ---- */

int gateway_on_authority(struct gateway *gw, const struct net_authority *m);
int gateway_on_asked(struct gateway *gw, const struct net_asked *m);
int gateway_on_unasked(struct gateway *gw, const struct net_unasked *m);
int gateway_on_logged(struct gateway *gw, const struct net_logged *m);
int gateway_on_secret(struct gateway *gw, const struct net_secret_read *m);

#endif
