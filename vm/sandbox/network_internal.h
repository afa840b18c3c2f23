/* SPDX-License-Identifier: Apache-2.0 */
/* Between network.c and ports.c. */
#ifndef XSBX_VM_SANDBOX_NETWORK_INTERNAL_H
#define XSBX_VM_SANDBOX_NETWORK_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/net/dialer.h"
#include "network.h"
#include "vm/spawn/program.h"
#include "vm/base/lines.h"
#include "vm/vm.h"

#define LOST "the sandbox has lost its network; a new session has one"

struct gateway;

enum port_state { PORT_FREE, PORT_BINDING, PORT_BOUND };

struct port {
	struct network *network;
	enum port_state state;
	uint16_t guest, host;
	int listener;
	struct dialer_request request;
	sandbox_forward_fn fn; /* or NULL: the spec's, without which there is no sandbox */
	void *data;
};

struct network {
	struct sandbox *s;
	const struct network_ops *ops;
	char *allow;
	bool trusted_names;
	struct port ports[SANDBOX_PORTS_MAX];
	uint32_t owner, user; /* for the dialer */

	struct gateway *gateway; /* from network_start() until its helper has ended */
	struct program filter;	 /* xsbxfs-net */
	struct lines said;	 /* ... by it */
	struct sandbox_traffic traffic;
	bool has_traffic;
	bool started, served, child_gone, closing;
	bool lost;	/* its helper has ended, and there is no other */
	unsigned nopen; /* the filter, the gateway, and one until network_close() */
};

/* Begins to bind the ports of a sandbox that is asked for; those that can't be had end it. */
void network_bind(struct network *n, const struct sandbox_port *ports, size_t nports);

/* Hands all that are bound to the gateway. Return: 0 or -errno. */
int network_hand_over_ports(struct network *n);

/* Nobody is behind them any more: they are given up, so that who connects is refused. */
void network_lose_ports(struct network *n);

/* Gives them all up. */
void network_end_ports(struct network *n);

#endif
