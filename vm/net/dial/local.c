/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes addresses in this machine's IPv6 networks. See local.h. */
#include "local.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

static const uint8_t *bytes_of(const struct sockaddr *sa)
{
	return ((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr.s6_addr;
}

bool local_contains(const struct ifaddrs *list, const struct sockaddr *sa)
{
	if (sa->sa_family != AF_INET6)
		return false;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		const uint8_t *own, *mask, *other = bytes_of(sa);
		unsigned differ = 0, bits = 0;

		if (!i->ifa_addr || !i->ifa_netmask || i->ifa_addr->sa_family != AF_INET6)
			continue;
		own = bytes_of(i->ifa_addr);
		mask = bytes_of(i->ifa_netmask);
		for (size_t n = 0; n < 16; n++) {
			differ |= (unsigned)(own[n] ^ other[n]) & mask[n];
			bits |= mask[n];
		}
		/* A mask of zeroes would be everything; no network is that. */
		if (bits && !differ)
			return true;
	}
	return false;
}

bool local_is(const struct sockaddr *sa)
{
	struct ifaddrs *list;
	bool r;

	if (sa->sa_family != AF_INET6)
		return false;
	if (getifaddrs(&list) < 0)
		return true;
	r = local_contains(list, sa);
	freeifaddrs(list);
	return r;
}
