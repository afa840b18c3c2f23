/* SPDX-License-Identifier: Apache-2.0 */
/* Handles messages from the daemon. */
#ifndef XSBX_VM_NET_FILTER_CONTROL_H
#define XSBX_VM_NET_FILTER_CONTROL_H

struct net;

/* Reads and handles messages from the daemon. Return: 0; -EPIPE if it is gone; -EPROTO; -errno. */
int control_listen(struct net *net);

/* To be called before and after poll(): the daemon is told how much was used. */
void control_prepare(const struct net *net, int *timeout_ms);
void control_run(struct net *net);

#endif
