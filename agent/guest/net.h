/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's network card: its address, its route, its name server. */
#ifndef XSBX_AGENT_GUEST_NET_H
#define XSBX_AGENT_GUEST_NET_H

#include <stddef.h>

#define NET_CARD "eth0"

/* Configures loopback, and the card, if the machine has one. Failures are logged. */
void net_up(void);

/* Writes the name server to @root's /etc/resolv.conf, if there is a card, and makes its /etc/hosts
 * writable. Return: 0 or -errno. */
int net_resolver(const char *root);

/* Adds the machine's host name to /etc/hosts, if that is writable, so that programs can resolve it
 * without a name server. Return: 0 or -errno. */
int net_name(const char *name, size_t len);

#endif
