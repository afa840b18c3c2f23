/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes this machine's addresses, and those in its IPv6 networks. */
#ifndef XSBX_VM_NET_DIAL_LOCAL_H
#define XSBX_VM_NET_DIAL_LOCAL_H

#include <stdbool.h>

struct ifaddrs;
struct sockaddr;

/*
 * Devices behind a home or office router (printers, cameras, the router's own pages) have private IPv4
 * addresses, but public IPv6 addresses. They cannot be told from the internet by address range, only
 * by being in the network of one of this machine's interfaces.
 */

/**
 * local_contains() - Is this an IPv6 address in the network of one of these interfaces?
 * @list: From getifaddrs(3)
 * @sa: Address; false for other families
 *
 * Networks of a single address count: they are this machine's own.
 */
bool local_contains(const struct ifaddrs *list, const struct sockaddr *sa);

/* The same for the current interfaces. If they can't be listed, every IPv6 address counts as local. */
bool local_is(const struct sockaddr *sa);

/* Is it an IPv4 address of one of these interfaces itself, as the internet may know it? */
bool local_has(const struct ifaddrs *list, const struct sockaddr *sa);

/* The same for the current interfaces. If they can't be listed, every IPv4 address counts as one. */
bool local_is_own(const struct sockaddr *sa);

#endif
