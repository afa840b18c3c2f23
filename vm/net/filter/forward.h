/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards connections from listening sockets of the host to ports of the guest. */
#ifndef XSBX_VM_NET_FILTER_FORWARD_H
#define XSBX_VM_NET_FILTER_FORWARD_H

#include <stdint.h>

#include "message.h"

struct net;

/* Forwards from @listener, which is owned here, to the guest's @port, instead of what was forwarded
 * there; -1: do nothing. Return: 0 or -EPROTO. */
int forward_add(struct net *net, uint32_t port, int listener);

/* Stops forwarding, if there is such a port; open connections stay. Return: 0. */
int forward_remove(struct net *net, uint32_t port);

/* Stops forwarding to all but these. */
void forward_keep(struct net *net, const uint16_t port[NET_FORWARDS_MAX]);

/* To be called before and after poll(). */
void forward_prepare(struct net *net, int *timeout_ms);
void forward_run(struct net *net);

#endif
