/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's end of a sandbox's network: it resolves names and connects, for xsbxfs-net. */
#ifndef XSBX_GATEWAY_H
#define XSBX_GATEWAY_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "net/message.h"

/*
 * How to use it: make a SOCK_SEQPACKET socket pair; start xsbxfs-net with one end as its --control;
 * gateway_new() with the other; gateway_allow() and gateway_forward() at any time, from then on and
 * without waiting for anything; at the end gateway_close(), and end the helper, which also ends by
 * itself as soon as the socket is closed.
 */
struct gateway;

#define GATEWAY_ADDRESSES_MAX 8
#define GATEWAY_WHY_MAX	      128

union gateway_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Called from the loop; none of them may close the gateway, but for `ended`. */
struct gateway_events {
	void (*ready)(void *data);
	void (*denied)(void *data, const struct net_denied *what);
	void (*stats)(void *data, const struct net_stats *stats);
	/* The helper ended or spoke nonsense; -errno. Nothing follows; close the gateway. */
	void (*ended)(void *data, int err);
};

struct gateway_config {
	const struct gateway_events *events;
	void *data;
	/*
	 * Answers for names that are known here: fills in addresses, and returns how many. -1: ask
	 * the system. NULL: always ask the system.
	 */
	int (*resolve)(void *data, const char *name,
		       union gateway_address ret_addresses[static GATEWAY_ADDRESSES_MAX]);
};

/**
 * gateway_new() - Take up the conversation with a helper
 * @loop: Loop
 * @control: Our end of the socket pair; becomes the gateway's if this succeeds
 * @cfg: What to call
 * @ret_gateway: Result; end it with gateway_close()
 *
 * Nothing is allowed before gateway_allow().
 *
 * Return: 0 or -errno.
 */
int gateway_new(uv_loop_t *loop, int control, const struct gateway_config *cfg,
		struct gateway **ret_gateway);

/**
 * gateway_allow() - Replace the allow list, at once, also for open connections
 * @gw: Gateway
 * @text: List as net/allow.h describes it; empty for nothing
 * @len: Its length
 * @ret_why: What is wrong with it, for people
 *
 * Return: 0; -EINVAL or -E2BIG with @ret_why, and nothing has changed; -errno.
 */
int gateway_allow(struct gateway *gw, const char *text, size_t len,
		  char ret_why[static GATEWAY_WHY_MAX]);

/**
 * gateway_forward() - Make a port of the guest reachable at 127.0.0.1
 * @gw: Gateway
 * @guest: Port of the guest
 * @host: Port of the host, or 0 for any that is free
 * @ret_host: The port of the host
 * @ret_why: Why not, for people
 *
 * Return: 0; -EADDRINUSE: somebody has that port; -EEXIST: the guest's port is forwarded; -ENOSPC:
 * there are NET_FORWARDS_MAX; -EACCES: it takes privileges; -errno.
 */
int gateway_forward(struct gateway *gw, uint16_t guest, uint16_t host, uint16_t *ret_host,
		    char ret_why[static GATEWAY_WHY_MAX]);

/* Ends that; connections stay. Return: 0, -ENOENT, -errno. */
int gateway_unforward(struct gateway *gw, uint16_t guest);

/* Asks for figures, which come as an event. Return: 0 or -errno. */
int gateway_ask_stats(struct gateway *gw);

/* Ends all; @closed is called from the loop when the memory is gone. NULL is fine for it. */
void gateway_close(struct gateway *gw, void (*closed)(void *data), void *data);

#endif
