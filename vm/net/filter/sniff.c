/* SPDX-License-Identifier: Apache-2.0 */
/* Does a client that may send anything start with a request of HTTP/1? */
#include "sniff.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "vm/base/util.h"

#define CONNECT "CONNECT" /* is refused, in whatever case: some proxies do not care */

static const char *const methods[] = {"GET",	 "HEAD",  "POST",  "PUT",  "DELETE",
				      "OPTIONS", "PATCH", "TRACE", CONNECT};

static bool is_token_char(unsigned char c)
{
	return c > ' ' && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

/* A method that is taken for one whatever comes behind it? Return: 1, 0 or -EAGAIN. */
static int begins_as_known(const char *p, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		const size_t n = strlen(methods[i]);

		if (memcmp(p, methods[i], MIN(n, len)) != 0)
			continue;
		if (len <= n)
			return -EAGAIN;
		if (p[n] == ' ')
			return 1;
	}
	return 0;
}

/* Behind the method: the rest of a request's line? Return: 1, 0 or -EAGAIN. */
static int ends_as_request(const char *p, size_t len)
{
	static const char version[] = "HTTP/";
	size_t n = 0;

	if (len > 0 && p[0] != ' ' && p[0] != '\t')
		return 0;
	if (len > 1 && !strchr("/*hH", p[1]))
		return 0;
	while (n < len && ((unsigned char)p[n] >= ' ' || p[n] == '\t'))
		n++;
	if (n == len)
		return -EAGAIN;
	if (p[n] != '\r' && p[n] != '\n')
		return 0;
	while (n > 0 && p[n - 1] != '/')
		n--;
	return n >= strlen(version) && !memcmp(p + n - strlen(version), version, strlen(version));
}

enum sniffed sniff_http(struct sniff *h, const uint8_t *data, size_t len, size_t *ret_pass)
{
	const char *p = (const char *)data;
	size_t n = 0;
	int r;

	*ret_pass = 0;
	/* Servers let empty lines in front of a request pass. */
	while (!h->begun && n < len && (p[n] == '\r' || p[n] == '\n'))
		n++;
	*ret_pass = n;
	if (n)
		return SNIFF_UNDECIDED;
	r = h->begun ? 0 : begins_as_known(p, len);
	if (r)
		return r > 0 ? SNIFF_HTTP : SNIFF_UNDECIDED;
	while (n < len && is_token_char((unsigned char)p[n]))
		n++;
	if (n == 0 && !h->begun)
		return SNIFF_OTHER;
	if (!h->begun && n == strlen(CONNECT) && n < len && !strncasecmp(p, CONNECT, n))
		return SNIFF_HTTP; /* whatever its target looks like */
	r = ends_as_request(p + n, len - n);
	if (r != -EAGAIN)
		return r ? SNIFF_HTTP : SNIFF_OTHER;
	/* A word alone is no request, and somebody may wait for an answer to it; but not the beginning of what is
	 * refused, in whatever case. */
	if (!h->begun && n <= strlen(CONNECT) && strncasecmp(p, CONNECT, n) == 0)
		n = 0;
	*ret_pass = n;
	h->begun |= n > 0;
	return SNIFF_UNDECIDED;
}
