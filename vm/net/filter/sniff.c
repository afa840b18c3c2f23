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

static const char version[] = "HTTP/";

static bool is_letter(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_token_char(unsigned char c)
{
	return c > ' ' && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

/* Between the words of a line, to some server: RFC 9112 (3) names some of these, and Python's split() takes all. */
static bool is_blank(char c)
{
	const unsigned char u = (unsigned char)c;

	return u == ' ' || (u >= '\t' && u <= '\r' && u != '\n') || (u >= 0x1c && u < ' ') ||
	       u == 0x85 || u == 0xa0;
}

size_t sniff_blanks(const uint8_t *data, size_t len)
{
	size_t n = 0;

	while (n < len && (is_blank((char)data[n]) || data[n] == '\n'))
		n++;
	return n;
}

/* Blanks, of which none ends the line. Return: how many; -EAGAIN if the first might. */
static int gap(const char *p, size_t len)
{
	size_t n = 0;

	while (n < len && is_blank(p[n]) && (p[n] != '\r' || (n + 1 < len && p[n + 1] != '\n')))
		n++;
	return n == 0 && (len == 0 || (len == 1 && p[0] == '\r')) ? -EAGAIN : (int)n;
}

/* A method that is taken for one whatever comes behind it? Return: 1, 0 or -EAGAIN. */
static int begins_as_known(const char *p, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		const size_t n = strlen(methods[i]);
		int r;

		if (memcmp(p, methods[i], MIN(n, len)) != 0)
			continue;
		r = len < n ? -EAGAIN : gap(p + n, len - n);
		if (r)
			return r < 0 ? r : 1;
	}
	return 0;
}

/* Behind the method: the rest of a request's line? Return: 1, 0 or -EAGAIN. */
static int ends_as_request(const char *p, size_t len)
{
	const int blanks = gap(p, len);
	size_t n = (size_t)MAX(blanks, 0);

	if (blanks <= 0)
		return blanks;
	if (n < len && p[n] != '\r' && (!p[n] || !strchr("/*hH", p[n])))
		return 0;
	while (n < len && ((unsigned char)p[n] >= ' ' || is_blank(p[n])))
		n++;
	if (n == len)
		return -EAGAIN;
	if (p[n] != '\n')
		return 0;
	while (n > 0 && p[n - 1] != '/')
		n--;
	return n >= strlen(version) &&
	       !strncasecmp(p + n - strlen(version), version, strlen(version));
}

enum sniffed sniff_http(struct sniff *h, const uint8_t *data, size_t len, size_t *ret_pass)
{
	const char *p = (const char *)data;
	size_t n = 0;
	int r;

	*ret_pass = 0;
	if (!h->begun)
		n = sniff_blanks(data, len);
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

enum sniffed sniff_request(const uint8_t *data, size_t len)
{
	struct sniff whole = {0};
	const char *const p = (const char *)data, *end;
	size_t n = 0;
	enum sniffed strictly = sniff_http(&whole, data, len, &n);

	if (strictly != SNIFF_OTHER || !is_letter(p[0]))
		return strictly;
	for (n = 1; n < len && data[n] > ' ' && data[n] != 0x7f && !is_blank(p[n]);)
		n++;
	if (n < len && !is_blank(p[n]))
		return SNIFF_OTHER;
	end = memchr(p + n, '\n', len - n);
	if (!end)
		return SNIFF_UNDECIDED;
	for (; n + strlen(version) <= (size_t)(end - p); n++)
		if (!strncasecmp(p + n, version, strlen(version)))
			return SNIFF_HTTP;
	return SNIFF_OTHER;
}
