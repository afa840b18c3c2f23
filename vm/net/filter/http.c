/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the host named in each request of an HTTP/1 client. */
#include "http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "vm/base/allow.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A connection carries any number of requests, and each names a host of its own; so each is read,
 * and its body is followed to the byte where the next begins. Where a body ends is what attackers
 * let two readers disagree about. There is no repair here: a head passes whole, once it is complete
 * and every line of it is of the strict form; a body has one length, or is chunked, in the strict
 * form as well; anything else ends the connection.
 *
 * An upgrade is not followed. A request for one passes, and what comes after it has to be another
 * request: so a server that declines goes on as if nothing was, and one that agrees talks to a
 * client that cannot answer. Tunnels (CONNECT) are refused.
 */

#define TRAILER_MAX 8192
#define CHUNK_LINE  256

/* A line's text, without its end. */
struct line {
	const char *p;
	size_t len;
};

static const char *const methods[] = {"GET",	 "HEAD",  "POST",  "PUT",    "DELETE",
				      "OPTIONS", "PATCH", "TRACE", "CONNECT"};

static bool is_token_char(unsigned char c)
{
	return c > ' ' && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

static bool is_token(struct line s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!is_token_char((unsigned char)s.p[i]))
			return false;
	return s.len > 0;
}

static bool is_word(struct line s, const char *word)
{
	return s.len == strlen(word) && !strncasecmp(s.p, word, s.len);
}

/*
 * The line at *@at of a text; *@at goes behind it. Lines end in CR LF and hold no other control
 * bytes than tabs. Return: 1, 0 if its end is not there yet, or -EINVAL.
 */
static int next_line(const char *p, size_t len, size_t *at, struct line *ret)
{
	const size_t begin = *at;

	for (size_t i = begin; i < len; i++) {
		const unsigned char c = (unsigned char)p[i];

		if (c == '\r') {
			if (i + 1 == len)
				return 0;
			if (p[i + 1] != '\n')
				return -EINVAL;
			*ret = (struct line){p + begin, i - begin};
			*at = i + 2;
			return 1;
		}
		if ((c < ' ' && c != '\t') || c == 0x7f)
			return -EINVAL;
	}
	return 0;
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

enum http_sniffed http_sniff(struct http *h, const uint8_t *data, size_t len, size_t *ret_pass)
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
		return HTTP_UNDECIDED;
	r = h->begun ? 0 : begins_as_known(p, len);
	if (r)
		return r > 0 ? HTTP_SPOKEN : HTTP_UNDECIDED;
	while (n < len && is_token_char((unsigned char)p[n]))
		n++;
	if (n == 0 && !h->begun)
		return HTTP_NOT_SPOKEN;
	r = ends_as_request(p + n, len - n);
	if (r != -EAGAIN)
		return r ? HTTP_SPOKEN : HTTP_NOT_SPOKEN;
	/* A word alone is no request, and somebody may wait for an answer to it; but not the beginning of what is
	 * refused, in whatever case. */
	if (!h->begun && n <= strlen("CONNECT") && strncasecmp(p, "CONNECT", n) == 0)
		n = 0;
	*ret_pass = n;
	h->begun |= n > 0;
	return HTTP_UNDECIDED;
}

/* `host` or `host:port`. */
static unsigned check_host(struct line s, const char *name)
{
	const char *colon = memchr(s.p, ':', s.len);
	const size_t len = colon ? (size_t)(colon - s.p) : s.len;
	char asked[ALLOW_NAME_MAX + 1];

	for (size_t i = len + 1; i < s.len; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return NET_HOST;
	if (allow_canonical(s.p, len, asked) < 0)
		return NET_HOST;
	return strcmp(asked, name) ? NET_HOST : NET_OK;
}

/* The target of a request: a path, *, or a URL that names its host once more. */
static unsigned check_target(struct line target, const char *name)
{
	const char *slash;

	if (target.len == 0)
		return NET_NOT_HTTP;
	if (target.p[0] == '/' || is_word(target, "*"))
		return NET_OK;
	if (target.len < 8 || strncasecmp(target.p, "http://", 7) != 0)
		return NET_NOT_HTTP;
	target.p += 7;
	target.len -= 7;
	for (slash = target.p; slash < target.p + target.len; slash++)
		if (*slash == '/' || *slash == '?' || *slash == '#')
			break;
	return check_host((struct line){target.p, (size_t)(slash - target.p)}, name);
}

/* What one request said so far. */
struct head {
	bool begun; /* the first bytes of its method have passed already */
	bool old;   /* HTTP/1.0 */
	unsigned hosts, lengths, codings;
	uint64_t length;
};

static unsigned check_request_line(struct head *head, struct line line, const char *name)
{
	const char *first = memchr(line.p, ' ', line.len), *last;
	struct line version, target, method;

	if (!first)
		return NET_NOT_HTTP;
	method = (struct line){line.p, (size_t)(first - line.p)};
	last = memrchr(line.p, ' ', line.len);
	version = (struct line){last + 1, (size_t)(line.p + line.len - last - 1)};
	if (first == last || (!is_token(method) && !(head->begun && method.len == 0)))
		return NET_NOT_HTTP;
	if (version.len != 8 ||
	    (memcmp(version.p, "HTTP/1.1", 8) != 0 && memcmp(version.p, "HTTP/1.0", 8) != 0))
		return NET_NOT_HTTP;
	if (is_word(method, "CONNECT"))
		return NET_HOST;
	head->old = version.p[7] == '0';
	target = (struct line){first + 1, (size_t)(last - first - 1)};
	for (size_t i = 0; i < target.len; i++)
		if ((unsigned char)target.p[i] <= ' ')
			return NET_NOT_HTTP;
	return check_target(target, name);
}

static int parse_length(struct line s, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.len == 0 || s.len > 18)
		return -EINVAL;
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return -EINVAL;
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	}
	*ret = v;
	return 0;
}

static unsigned check_header(struct head *head, struct line line, const char *name)
{
	const char *colon = memchr(line.p, ':', line.len);
	struct line key, value;

	if (!colon)
		return NET_NOT_HTTP;
	key = (struct line){line.p, (size_t)(colon - line.p)};
	value = (struct line){colon + 1, (size_t)(line.p + line.len - colon - 1)};
	if (!is_token(key)) /* a folded line among them: it starts with a blank */
		return NET_NOT_HTTP;
	while (value.len && (value.p[0] == ' ' || value.p[0] == '\t'))
		value = (struct line){value.p + 1, value.len - 1};
	while (value.len && (value.p[value.len - 1] == ' ' || value.p[value.len - 1] == '\t'))
		value.len--;
	if (is_word(key, "Host"))
		return head->hosts++ ? NET_NOT_HTTP : check_host(value, name);
	if (is_word(key, "Content-Length"))
		return head->lengths++ || parse_length(value, &head->length) < 0 ? NET_NOT_HTTP
										 : NET_OK;
	if (is_word(key, "Transfer-Encoding"))
		return head->codings++ || !is_word(value, "chunked") ? NET_NOT_HTTP : NET_OK;
	/* Some servers read an underscore as the hyphen of these. */
	if (is_word(key, "Content_Length") || is_word(key, "Transfer_Encoding"))
		return NET_NOT_HTTP;
	return NET_OK;
}

/* A whole head; its length, or 0 if its end is not there yet. */
static int check_head(struct http *h, const char *p, size_t len, const char *name,
		      unsigned *ret_reason)
{
	struct head head = {.begun = h->begun};
	struct line line;
	size_t at = 0;
	bool first = true;
	int r;

	for (;;) {
		r = next_line(p, len, &at, &line);
		if (r == 0 && len < HTTP_HEAD_MAX)
			return 0;
		*ret_reason = NET_NOT_HTTP;
		if (r <= 0)
			return -EACCES;
		if (!first && line.len == 0)
			break;
		*ret_reason = first ? check_request_line(&head, line, name)
				    : check_header(&head, line, name);
		if (*ret_reason != NET_OK)
			return -EACCES;
		first = false;
	}
	*ret_reason = head.hosts ? NET_NOT_HTTP : NET_NO_HOST;
	/* The older version has no chunks: its readers find different ends of such a body. */
	if (!head.hosts || (head.codings && (head.lengths || head.old)))
		return -EACCES;
	h->begun = false;
	h->left = head.length;
	h->phase = head.codings ? HTTP_CHUNK : head.length ? HTTP_BODY : HTTP_HEAD;
	return (int)at;
}

/* A chunk's first line: its size in hexadecimal digits, and nothing else. */
static int check_chunk(struct http *h, const char *p, size_t len)
{
	struct line line;
	uint64_t size = 0;
	size_t at = 0;
	int r;

	r = next_line(p, len, &at, &line);
	if (r == 0 && len < CHUNK_LINE)
		return 0;
	if (r <= 0 || line.len == 0 || line.len > 15)
		return -EACCES;
	for (size_t i = 0; i < line.len; i++) {
		static const char digits[] = "0123456789abcdef";
		const char *found;
		const char c = (char)(line.p[i] | (line.p[i] >= 'A' ? 0x20 : 0));

		found = c ? strchr(digits, c) : NULL;
		if (!found)
			return -EACCES;
		size = size << 4 | (uint64_t)(found - digits);
	}
	h->chunked = true;
	h->left = size;
	h->phase = size ? HTTP_BODY : HTTP_TRAILER;
	return (int)at;
}

static int check_trailer(struct http *h, const char *p, size_t len)
{
	struct line line;
	size_t at = 0;
	int r;

	r = next_line(p, len, &at, &line);
	if (r == 0 && len < TRAILER_MAX)
		return 0;
	if (r <= 0)
		return -EACCES;
	if (line.len == 0) {
		h->phase = HTTP_HEAD;
		h->chunked = false;
	} else if (!memchr(line.p, ':', line.len)) {
		return -EACCES;
	}
	return (int)at;
}

static int pass_body(struct http *h, size_t len)
{
	const size_t n = h->left < len ? (size_t)h->left : len;

	h->left -= n;
	if (h->left == 0)
		h->phase = h->chunked ? HTTP_CHUNK_END : HTTP_HEAD;
	return (int)n;
}

int http_check(struct http *h, const uint8_t *data, size_t len, const char *name,
	       unsigned *ret_reason)
{
	const char *p = (const char *)data;

	*ret_reason = NET_NOT_HTTP;
	if (len == 0)
		return 0;
	switch (h->phase) {
	case HTTP_HEAD: return check_head(h, p, len, name, ret_reason);
	case HTTP_BODY: return pass_body(h, len);
	case HTTP_CHUNK: return check_chunk(h, p, len);
	case HTTP_CHUNK_END:
		if (p[0] != '\r' || (len > 1 && p[1] != '\n'))
			return -EACCES;
		if (len < 2)
			return 0;
		h->phase = HTTP_CHUNK;
		return 2;
	case HTTP_TRAILER: return check_trailer(h, p, len);
	}
	return -EACCES;
}
