/* SPDX-License-Identifier: Apache-2.0 */
/* Flows: connections, relayed between the stack and the host. */
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
 * flow_accept() - Add a connection made by the guest
 * @net: State
 * @fd: The stack's end of it; owned by the flow
 * @address: Destination, in network order
 * @port: Port
 */
void flow_accept(struct net *net, int fd, uint32_t address, uint16_t port);

/* Adds a connection from the host to the guest; the flow owns both descriptors. */
void flow_forward(struct net *net, int guest, int host);

/* The daemon's answer to a request to connect; @fd is -1 unless @reason is NET_OK. */
void flow_dialed(struct net *net, uint32_t id, unsigned reason, int fd);

/* Asks again for all connections that were not answered. Return: 0 or -errno. */
int flow_dial_again(struct net *net);

/* Closes connections that the list no longer allows. */
void flow_recheck(struct net *net);

/* To be called before and after poll(). */
void flow_prepare(struct net *net, int *timeout_ms);
void flow_run(struct net *net);

#endif
