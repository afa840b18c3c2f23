/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes this machine's addresses, and those in its IPv6 networks. See local.h. */
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

static uint32_t address_of(const struct sockaddr *sa)
{
	return ((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr;
}

bool local_has(const struct ifaddrs *list, const struct sockaddr *sa)
{
	if (sa->sa_family != AF_INET)
		return false;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    address_of(i->ifa_addr) == address_of(sa))
			return true;
	return false;
}

/* @family: of which addresses @fn takes any. Return: what it says of the interfaces as they are now. */
static bool look(bool (*fn)(const struct ifaddrs *list, const struct sockaddr *sa), int family,
		 const struct sockaddr *sa)
{
	struct ifaddrs *list;
	bool r;

	if (sa->sa_family != family)
		return false;
	if (getifaddrs(&list) < 0)
		return true;
	r = fn(list, sa);
	freeifaddrs(list);
	return r;
}

bool local_is(const struct sockaddr *sa)
{
	return look(local_contains, AF_INET6, sa);
}

bool local_is_own(const struct sockaddr *sa)
{
	return look(local_has, AF_INET, sa);
}
