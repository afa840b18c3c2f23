/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by network.c and ports.c. */
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
	sandbox_forward_fn fn; /* or NULL: a port of the spec, which the sandbox can't do without */
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
	struct lines said;	 /* its output */
	struct sandbox_traffic traffic;
	bool has_traffic;
	bool started, served, child_gone, closing;
	bool lost;	/* the filter has ended, and is not restarted */
	unsigned nopen; /* the filter, the gateway, and one until network_close() */
};

/* Starts binding the ports of a new sandbox; a port that is not available ends it. */
void network_bind(struct network *n, const struct sandbox_port *ports, size_t nports);

/* Hands all bound ports to the gateway. Return: 0 or -errno. */
int network_hand_over_ports(struct network *n);

/* Nothing serves the ports any more: closes them, so that connections are refused. */
void network_lose_ports(struct network *n);

/* Closes all of them. */
void network_end_ports(struct network *n);

#endif
