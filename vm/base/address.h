/* SPDX-License-Identifier: Apache-2.0 */
/* Which IP addresses belong to the public internet. */
#ifndef XSBX_VM_BASE_ADDRESS_H
#define XSBX_VM_BASE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

/**
 * address_is_public() - Is this a unicast address of the public internet?
 * @sa: IPv4 or IPv6 address; other families are not public
 *
 * Loopback, private, shared (carrier), link-local, multicast, documentation and reserved addresses
 * are not, nor are the metadata addresses of cloud providers, nor an IPv6 address that embeds
 * such an IPv4 address.
 */
bool address_is_public(const struct sockaddr *sa);

/* The same for an IPv4 address in network byte order. */
bool address_is_public4(uint32_t address);

#endif
