/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of HTTP/2, as the library has them and as a head has them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h2_internal.h"
#include "vm/base/util.h"

/* ---- read ---- */

/* What is too long for @size is no name of anything. */
static int copy(char *to, size_t size, const uint8_t *value, size_t len)
{
	if (len >= size || memchr(value, '\0', len))
		return -EINVAL;
	memcpy(to, value, len);
	to[len] = '\0';
	return 0;
}

static bool is(const uint8_t *name, size_t len, const char *wanted)
{
	return len == strlen(wanted) && !memcmp(name, wanted, len);
}

static int read_first(struct h2_first *first, struct head *head, const uint8_t *name,
		      size_t name_len, const uint8_t *value, size_t len)
{
	char status[4];
	int r;

	if (is(name, name_len, ":path"))
		return head_add_first(head, (const char *)value, len);
	if (is(name, name_len, ":method"))
		return copy(first->method, sizeof(first->method), value, len);
	if (is(name, name_len, ":scheme"))
		return copy(first->scheme, sizeof(first->scheme), value, len);
	if (is(name, name_len, ":authority")) {
		first->has_authority = true;
		return copy(first->authority, sizeof(first->authority), value, len);
	}
	if (!is(name, name_len, ":status"))
		return -EINVAL;
	r = copy(status, sizeof(status), value, len);
	if (r == 0)
		first->status = (unsigned)strtoul(status, NULL, 10);
	return r;
}

int h2_head_read(struct h2_first *first, struct head *head, const uint8_t *name, size_t name_len,
		 const uint8_t *value, size_t value_len)
{
	int r;

	if (name_len > 0 && name[0] == ':')
		return read_first(first, head, name, name_len, value, value_len);
	r = head_add_name(head, (const char *)name, name_len);
	return r < 0 ? r : head_add_value(head, (const char *)value, value_len);
}

/* ---- written ---- */

static void add(struct h2_fields *f, const char *name, size_t name_len, const char *value,
		size_t value_len)
{
	/* The library copies both, and writes names in small letters. */
	f->nv[f->n++] = (nghttp2_nv){
		.name = (uint8_t *)name,
		.namelen = name_len,
		.value = (uint8_t *)value,
		.valuelen = value_len,
		.flags = NGHTTP2_NV_FLAG_NONE,
	};
	f->bytes += name_len + value_len;
}

void h2_fields_add(struct h2_fields *f, const char *name, const char *value)
{
	add(f, name, strlen(name), value, strlen(value));
}

static void add_head(struct h2_fields *f, struct head *head)
{
	/* They concern a connection of HTTP/1. What a client says with TE in HTTP/2 is `trailers`, and that passes. */
	static const char *const not [] = {"Connection",	"Keep-Alive", "Proxy-Connection",
					   "Transfer-Encoding", "Upgrade",    "HTTP2-Settings"};

	for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
		head_remove(head, not [i]);
	for (unsigned i = 0; i < head->n; i++)
		if (!head->field[i].gone)
			add(f, head_name_of(head, i), head->field[i].name_len,
			    head_value_of(head, i), head->field[i].value_len);
}

void h2_head_request(const struct h2_first *first, struct head *head, bool secret,
		     struct h2_fields *ret)
{
	const char *path = buf_str(&head->first);

	*ret = (struct h2_fields){.n = 0};
	h2_fields_add(ret, ":method", first->method);
	h2_fields_add(ret, ":scheme", first->scheme);
	if (first->has_authority)
		h2_fields_add(ret, ":authority", first->authority);
	h2_fields_add(ret, ":path", path ? path : "");
	add_head(ret, head);
	for (size_t i = 0; secret && i < ret->n; i++)
		ret->nv[i].flags = NGHTTP2_NV_FLAG_NO_INDEX;
}

void h2_head_answer(const char *status, struct head *head, struct h2_fields *ret)
{
	*ret = (struct h2_fields){.n = 0};
	h2_fields_add(ret, ":status", status);
	if (head)
		add_head(ret, head);
}

void h2_head_trailer(struct head *head, struct h2_fields *ret)
{
	/* What decides where a message goes, how long it is and whose it is was to be said before it. */
	static const char *const not [] = {"Host", "Content-Length", "Authorization", "Cookie",
					   "Set-Cookie"};

	for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
		head_remove(head, not [i]);
	*ret = (struct h2_fields){.n = 0};
	add_head(ret, head);
}
