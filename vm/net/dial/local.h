/* SPDX-License-Identifier: Apache-2.0 */
/* Which IPv6 networks this machine is in. */
#ifndef XSBX_VM_NET_DIAL_LOCAL_H
#define XSBX_VM_NET_DIAL_LOCAL_H

#include <stdbool.h>

struct ifaddrs;
struct sockaddr;

/*
 * What is behind the router of a home or an office has public IPv6 addresses, where with IPv4 it has
 * private ones: printers, cameras, the router's own pages. So no range of addresses tells them from
 * the internet, but that they are in the network of one of this machine's interfaces.
 */

/**
 * local_contains() - Is this an IPv6 address of a network of one of these interfaces?
 * @list: As of getifaddrs(3)
 * @sa: Address; of another family it is not
 *
 * Networks of a single address count: they are this machine's own.
 */
bool local_contains(const struct ifaddrs *list, const struct sockaddr *sa);

/* The same for the interfaces that there are now. If they can't be listed, any IPv6 address is taken for
 * a local one. */
bool local_is(const struct sockaddr *sa);

#endif
