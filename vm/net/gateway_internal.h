/* SPDX-License-Identifier: Apache-2.0 */
/* Between gateway.c and gateway_dial.c. */
#ifndef XSBX_VM_NET_GATEWAY_INTERNAL_H
#define XSBX_VM_NET_GATEWAY_INTERNAL_H

#include <sys/queue.h>

#include "gateway.h"
#include "vm/base/packets.h"

struct dial;

struct gateway {
	uv_loop_t *loop;
	struct gateway_config cfg;
	struct packets packets;
	struct allow allow;
	TAILQ_HEAD(gateway_dials, dial) dials;
	unsigned ndials;
	uint16_t forwards[NET_FORWARDS_MAX];
	unsigned nforwards;
	void (*closed)(void *data);
	void *closed_data;
};

/* A request of the helper's. Return: 0, or -EPROTO for one that an honest helper does not make. */
int gateway_dial(struct gateway *gw, const struct net_dial *msg);

/* The helper no longer wants it; there need not be such a request. */
void gateway_hang_up(struct gateway *gw, uint32_t id);

/* Ends the requests that the list no longer allows. */
void gateway_recheck(struct gateway *gw);

void gateway_end_dials(struct gateway *gw);

#endif
