/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon says, and what is done about it. */
#ifndef XSBX_VM_NET_FILTER_CONTROL_H
#define XSBX_VM_NET_FILTER_CONTROL_H

struct net;

/* Reads what the daemon sent. Return: 0; -EPIPE if it has gone; -EPROTO; -errno. */
int control_listen(struct net *net);

#endif
