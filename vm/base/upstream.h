/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy by which a mount's networks go out, where there is one. */
#ifndef XSBX_VM_BASE_UPSTREAM_H
#define XSBX_VM_BASE_UPSTREAM_H

#include <stdint.h>

#include "allow.h"

struct upstream_proxy {
	char host[ALLOW_NAME_MAX + 1]; /* a name, or an IPv4 address as text */
	uint16_t port;
};

/**
 * upstream_parse() - Parse the URL of a proxy
 * @url: http://HOST[:PORT], and perhaps a last slash; without a port it is 80
 * @ret_proxy: Result
 *
 * Return: 0, or -EINVAL.
 */
int upstream_parse(const char *url, struct upstream_proxy *ret_proxy);

#endif
