/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's network card: its address, its route, its name server. */
#ifndef XSBX_AGENT_GUEST_NET_H
#define XSBX_AGENT_GUEST_NET_H

#include <stddef.h>

#define NET_CARD "eth0"

/* Loopback, and the card, if the machine has one. What fails is logged. */
void net_up(void);

/* Puts the name server into @root's /etc/resolv.conf, if there is a card, and makes its /etc/hosts one
 * that can be written to. Return: 0 or -errno. */
int net_resolver(const char *root);

/* Puts the machine's own name into /etc/hosts, where that can be done: programs look it up, and no name
 * server need be asked. Return: 0 or -errno. */
int net_name(const char *name, size_t len);

#endif
