/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SCHEME "http://"
#define LETTERS                                          \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST" \
	"UVWXYZ0123456789.-_"
#define DIGITS "0123456789"

int upstream_parse(const char *url, struct upstream_proxy *ret_proxy)
{
	struct upstream_proxy p = {.port = 80};
	size_t len, digits = 0;
	unsigned port = 0;

	if (strncmp(url, SCHEME, strlen(SCHEME)) != 0)
		return -EINVAL;
	url += strlen(SCHEME);
	len = strspn(url, LETTERS);
	if (len == 0 || len >= sizeof(p.host))
		return -EINVAL;
	memcpy(p.host, url, len);
	url += len;
	if (*url == ':') {
		digits = strspn(++url, DIGITS);
		if (digits == 0 || digits > 5 || sscanf(url, "%5u", &port) != 1 || port < 1 ||
		    port > UINT16_MAX)
			return -EINVAL;
		p.port = (uint16_t)port;
		url += digits;
	}
	if (strcmp(url, "") != 0 && strcmp(url, "/") != 0)
		return -EINVAL;
	*ret_proxy = p;
	return 0;
}
