/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's end of a sandbox's network: it decides where xsbxfs-net may connect to. */
#ifndef XSBX_VM_NET_GATEWAY_H
#define XSBX_VM_NET_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "vm/net/filter/message.h"
#include "allow_check.h"

/*
 * How to use it: make a SOCK_SEQPACKET socket pair; start xsbxfs-net with one end as its --control;
 * gateway_new() with the other; gateway_allow() and gateway_forward() at any time, from then on and
 * without waiting for anything; at the end gateway_close(), and end the helper, which also ends by
 * itself as soon as the socket is closed.
 */
struct dialer;
struct gateway;

#define GATEWAY_WHY_MAX 128

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
	struct dialer *dialer; /* makes the connections */
	uint32_t owner;	       /* not 0; whoever asks too much of the dialer waits for himself */
	uint32_t user;	       /* whose sandbox it is; likewise */
	bool trusted_names;    /* what the list names may lead to addresses that are not public */
	struct vm_host_ports host_ports; /* what ALLOW_HOST leads to */
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
 * @text: List as vm/base/allow.h describes it; empty for nothing
 * @len: Its length
 * @ret_why: What is wrong with it, for people
 *
 * Return: 0; -EINVAL or -E2BIG with @ret_why, and nothing has changed; -errno.
 */
int gateway_allow(struct gateway *gw, const char *text, size_t len,
		  char ret_why[static GATEWAY_WHY_MAX]);

/**
 * gateway_forward() - Have connections to a socket of the host lead to a port of the guest
 * @gw: Gateway
 * @guest: Port of the guest
 * @listener: Socket that listens; a copy is taken
 *
 * Return: 0; -EEXIST: the guest's port is forwarded; -ENOSPC: there are NET_FORWARDS_MAX; -EINVAL:
 * port 0; -errno.
 */
int gateway_forward(struct gateway *gw, uint16_t guest, int listener);

/* Ends that; connections stay. Return: 0, -ENOENT, -errno. */
int gateway_unforward(struct gateway *gw, uint16_t guest);

/* Asks for figures, which come as an event. Return: 0 or -errno. */
int gateway_ask_stats(struct gateway *gw);

/* Ends all; @closed is called from the loop when the memory is gone. NULL is fine for it. */
void gateway_close(struct gateway *gw, void (*closed)(void *data), void *data);

#endif
