/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of the guest that listening sockets of the host stand for. */
#ifndef XSBX_VM_NET_FILTER_FORWARD_H
#define XSBX_VM_NET_FILTER_FORWARD_H

#include <stdint.h>

struct net;

/* Leads from @listener, which becomes ours, to the guest's @port; -1: it leads nowhere. Return: 0 or -EPROTO. */
int forward_add(struct net *net, uint32_t port, int listener);

/* Connections stay. There need not be such a one. Return: 0. */
int forward_remove(struct net *net, uint32_t port);

/* Around poll(). */
void forward_prepare(struct net *net, int *timeout_ms);
void forward_run(struct net *net);

#endif
