/* SPDX-License-Identifier: Apache-2.0 */
/* Which IP addresses belong to the public internet. */
#include "address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#include "vm/base/util.h"

/* From the IANA special-purpose registries. */
static const struct {
	uint32_t net;
	unsigned len;
} reserved4[] = {
	{0x00000000, 8},  /* this network */
	{0x0a000000, 8},  /* private */
	{0x64400000, 10}, /* shared by carriers; a cloud's metadata at 100.100.100.200 */
	{0x7f000000, 8},  /* loopback */
	{0xa83f8110, 32}, /* a cloud's metadata at 168.63.129.16 */
	{0xa9fe0000, 16}, /* link-local; most clouds' metadata at 169.254.169.254 */
	{0xac100000, 12}, /* private */
	{0xc0000000, 24}, /* protocol assignments; a cloud's metadata at 192.0.0.192 */
	{0xc0000200, 24}, /* documentation */
	{0xc0586300, 24}, /* relays from 6to4 */
	{0xc0a80000, 16}, /* private */
	{0xc6120000, 15}, /* benchmarks; and our own names' addresses */
	{0xc6336400, 24}, /* documentation */
	{0xcb007100, 24}, /* documentation */
	{0xe0000000, 3},  /* multicast, reserved, broadcast */
};

/* Inside of 2000::/3, which is all there is of public unicast addresses. */
static const struct {
	uint8_t net[16];
	unsigned len;
} reserved6[] = {
	{{0x20, 0x01, 0x00}, 23},	/* protocol assignments, with Teredo */
	{{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
	{{0x3f, 0xff, 0x00}, 20},	/* documentation */
};

static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};

bool address_is_public4(uint32_t address)
{
	const uint32_t a = ntohl(address);

	for (size_t i = 0; i < ARRAY_SIZE(reserved4); i++)
		if ((a ^ reserved4[i].net) >> (32 - reserved4[i].len) == 0)
			return false;
	return true;
}

static bool starts_with(const uint8_t *a, const uint8_t *net, unsigned len)
{
	const unsigned rest = len % 8;

	if (memcmp(a, net, len / 8) != 0)
		return false;
	return rest == 0 || ((a[len / 8] ^ net[len / 8]) >> (8 - rest)) == 0;
}

static bool is_public4_at(const uint8_t *bytes)
{
	uint32_t address;

	memcpy(&address, bytes, sizeof(address));
	return address_is_public4(address);
}

static bool is_public6(const uint8_t *a)
{
	if (!memcmp(a, nat64, sizeof(nat64)))
		return is_public4_at(a + 12);
	if ((a[0] & 0xe0) != 0x20) /* mapped IPv4 addresses among them: no resolver gives those */
		return false;
	if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
		return is_public4_at(a + 2);
	for (size_t i = 0; i < ARRAY_SIZE(reserved6); i++)
		if (starts_with(a, reserved6[i].net, reserved6[i].len))
			return false;
	return true;
}

bool address_is_public(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return address_is_public4(((const struct sockaddr_in *)sa)->sin_addr.s_addr);
	if (sa->sa_family == AF_INET6)
		return is_public6(((const struct sockaddr_in6 *)sa)->sin6_addr.s6_addr);
	return false;
}
