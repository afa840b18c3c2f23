/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: between the stack on one side and the host on the other. */
#ifndef XSBX_VM_NET_FILTER_FLOW_H
#define XSBX_VM_NET_FILTER_FLOW_H

#include <stdint.h>
#include <sys/queue.h>

struct net;
struct flow;

#define FLOWS_MAX 256

struct flows {
	TAILQ_HEAD(, flow) list;
	unsigned count;
	uint32_t next_id;
};

void flow_init(struct flows *flows);

/**
 * flow_accept() - Take up a connection of the guest
 * @net: State
 * @fd: The stack's end of it; becomes the flow's
 * @address: Where it goes, in network order
 * @port: Port
 */
void flow_accept(struct net *net, int fd, uint32_t address, uint16_t port);

/* Takes up a connection from the host to the guest; the descriptors become the flow's. */
void flow_forward(struct net *net, int guest, int host);

/* The daemon's answer to a request to connect; @fd is -1 unless @reason is NET_OK. */
void flow_dialed(struct net *net, uint32_t id, unsigned reason, int fd);

/* Cuts what the list no longer allows. */
void flow_recheck(struct net *net);

/* Around poll(). */
void flow_prepare(struct net *net, int *timeout_ms);
void flow_run(struct net *net);

#endif
