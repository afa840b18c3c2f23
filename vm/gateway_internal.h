/* SPDX-License-Identifier: Apache-2.0 */
/* Between gateway.c and dial.c. */
#ifndef XSBX_GATEWAY_INTERNAL_H
#define XSBX_GATEWAY_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>

#include "gateway.h"

struct dial;
struct message;

/* - `handles` counts the handle of the gateway and its dials; it is freed with the last one. */
struct gateway {
	uv_loop_t *loop;
	uv_poll_t poll;
	int control;
	bool ended;
	const struct gateway_events *events;
	void *data;
	int (*resolve)(void *data, const char *name,
		       union gateway_address ret_addresses[static GATEWAY_ADDRESSES_MAX]);
	struct allow allow;
	STAILQ_HEAD(, message) queue;
	unsigned queued;
	TAILQ_HEAD(, dial) dials;
	unsigned ndials, nresolving;
	uint16_t forwards[NET_FORWARDS_MAX];
	unsigned nforwards;
	unsigned handles;
	void (*closed)(void *data);
	void *closed_data;
};

union gateway_message {
	struct net_header header;
	struct net_dial dial;
	struct net_denied denied;
	struct net_stats stats;
};

/* Sends a message in two parts; takes over @fd, if it is not -1. Return: 0 or -errno. */
int gateway_send(struct gateway *gw, const void *head, size_t head_len, const void *tail,
		 size_t tail_len, int fd);
void gateway_unref(struct gateway *gw);

/* A request of the helper's. Return: 0, or -EPROTO for one that an honest helper does not make. */
int dial_begin(struct gateway *gw, const struct net_dial *msg);

/* The helper no longer wants it; there need not be such a request. */
void dial_hang_up(struct gateway *gw, uint32_t id);

/* Ends what the list no longer allows. */
void dial_recheck(struct gateway *gw);

void dial_end_all(struct gateway *gw);

#endif
