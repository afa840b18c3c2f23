/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an HTTP message: its fields, as they came and as they go on. */
#include "head.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "vm/base/util.h"

void head_clear(struct head *h)
{
	if (h->text.data) /* it may have had a secret */
		explicit_bzero(h->text.data, h->text.len);
	if (h->first.data)
		explicit_bzero(h->first.data, h->first.len);
	buf_clear(&h->text);
	buf_clear(&h->first);
	h->n = 0;
	h->in_value = false;
}

/* There is always a zero behind the text, which does not count until another one begins: begin_text(). */
static int add_text(struct head *h, const char *p, size_t len)
{
	if (h->text.len + len + 1 > HEAD_MAX)
		return -E2BIG;
	if (buf_reserve(&h->text, len + 1) < 0)
		return -ENOMEM;
	if (len)
		memcpy(h->text.data + h->text.len, p, len);
	h->text.len += len;
	h->text.data[h->text.len] = '\0';
	return 0;
}

/* Return: where the next text begins; add_text() is due. */
static uint32_t begin_text(struct head *h)
{
	if (h->text.len)
		h->text.len++;
	return (uint32_t)h->text.len;
}

int head_add_first(struct head *h, const char *p, size_t len)
{
	if (h->first.len + len > HEAD_MAX)
		return -E2BIG;
	return buf_append(&h->first, p, len);
}

static bool is_name(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] <= ' ' || p[i] >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", p[i]))
			return false;
	return true;
}

/* As RFC 9110 has it (5.5): no control characters but the tab, nothing that could be read as the end of a line. */
static bool is_value(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)p[i] < ' ' && p[i] != '\t') || p[i] == 0x7f)
			return false;
	return true;
}

int head_add_name(struct head *h, const char *p, size_t len)
{
	struct head_field *f;
	int r;

	if (h->n == 0 || h->in_value) {
		if (h->n == HEAD_FIELDS_MAX)
			return -E2BIG;
		h->field[h->n++] = (struct head_field){.name = begin_text(h)};
		h->in_value = false;
	}
	f = &h->field[h->n - 1];
	if (!is_name(p, len))
		return -EINVAL;
	r = add_text(h, p, len);
	if (r == 0)
		f->name_len = (uint16_t)(f->name_len + len);
	return r;
}

int head_add_value(struct head *h, const char *p, size_t len)
{
	struct head_field *f;
	int r;

	if (h->n == 0 || !is_value(p, len))
		return -EINVAL;
	f = &h->field[h->n - 1];
	if (!h->in_value) {
		if (f->name_len == 0)
			return -EINVAL;
		f->value = begin_text(h);
		h->in_value = true;
	}
	r = add_text(h, p, len);
	if (r == 0)
		f->value_len += (uint32_t)len;
	return r;
}

void head_end(struct head *h)
{
	for (unsigned i = 0; i < h->n; i++) {
		struct head_field *f = &h->field[i];
		char *value = h->text.data + f->value;

		while (f->value_len &&
		       (value[f->value_len - 1] == ' ' || value[f->value_len - 1] == '\t'))
			value[--f->value_len] = '\0';
	}
}

int head_add(struct head *h, const char *name, const char *value)
{
	int r = head_add_name(h, name, strlen(name));

	return r < 0 ? r : head_add_value(h, value, strlen(value));
}

const char *head_name_of(const struct head *h, unsigned i)
{
	return h->text.data + h->field[i].name;
}

const char *head_value_of(const struct head *h, unsigned i)
{
	return h->text.data + h->field[i].value;
}

int head_find(const struct head *h, const char *name, unsigned from)
{
	const size_t len = strlen(name);

	for (unsigned i = from; i < h->n; i++)
		if (!h->field[i].gone && h->field[i].name_len == len &&
		    !strncasecmp(head_name_of(h, i), name, len))
			return (int)i;
	return -1;
}

const char *head_value(const struct head *h, const char *name)
{
	const int i = head_find(h, name, 0);

	if (i < 0 || head_find(h, name, (unsigned)i + 1) >= 0)
		return NULL;
	return head_value_of(h, (unsigned)i);
}

int head_put_value(struct head *h, unsigned i, const char *value, size_t len)
{
	const struct head_field old = h->field[i];
	int r;

	if (!is_value(value, len))
		return -EINVAL;
	h->field[i].value = begin_text(h);
	h->field[i].value_len = (uint32_t)len;
	r = add_text(h, value, len);
	if (r < 0)
		h->field[i] = old;
	return r;
}

void head_remove(struct head *h, const char *name)
{
	for (int i = head_find(h, name, 0); i >= 0; i = head_find(h, name, (unsigned)i + 1))
		h->field[i].gone = true;
}

static bool list_has(const char *list, const char *token)
{
	const size_t len = strlen(token);

	while (*list) {
		size_t n;

		list += strspn(list, " \t,");
		n = strcspn(list, " \t,");
		if (n == len && !strncasecmp(list, token, len))
			return true;
		list += n;
	}
	return false;
}

bool head_has_token(const struct head *h, const char *name, const char *token)
{
	for (int i = head_find(h, name, 0); i >= 0; i = head_find(h, name, (unsigned)i + 1))
		if (list_has(head_value_of(h, (unsigned)i), token))
			return true;
	return false;
}

int head_print(const struct head *h, struct buf *out)
{
	int r = 0;

	for (unsigned i = 0; i < h->n && r == 0; i++) {
		const struct head_field *f = &h->field[i];

		if (f->gone)
			continue;
		r = buf_append(out, head_name_of(h, i), f->name_len);
		if (r == 0)
			r = buf_append(out, ": ", 2);
		if (r == 0)
			r = buf_append(out, head_value_of(h, i), f->value_len);
		if (r == 0)
			r = buf_append(out, "\r\n", 2);
	}
	return r < 0 ? r : buf_append(out, "\r\n", 2);
}

bool head_has_no_folds(enum head_lines *at, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len && *at != HEAD_IS_OVER; i++) {
		if (*at == LINE_BEGAN && (bytes[i] == ' ' || bytes[i] == '\t'))
			return false;
		if (bytes[i] == '\n' && *at != AT_START)
			*at = *at == LINE_BEGAN ? HEAD_IS_OVER : LINE_BEGAN;
		else if (bytes[i] != '\r' && bytes[i] != '\n')
			*at = IN_LINE;
	}
	return true;
}

bool head_is_framed_oddly(const struct head *head)
{
	const char *coding = head_value(head, "Transfer-Encoding");

	if (head_find(head, "Transfer-Encoding", 0) < 0)
		return false;
	return !coding || strcasecmp(coding, "chunked") != 0 ||
	       head_find(head, "Content-Length", 0) >= 0;
}

int head_put_framing(struct head *h, bool chunked, uint64_t length)
{
	char text[24];

	head_remove(h, "Content-Length");
	head_remove(h, "Transfer-Encoding");
	if (chunked)
		return head_add(h, "Transfer-Encoding", "chunked");
	if (length == UINT64_MAX)
		return 0;
	snprintf(text, sizeof(text), "%" PRIu64, length);
	return head_add(h, "Content-Length", text);
}

int head_put_connection(struct head *h, bool websocket, bool keeps, bool old)
{
	static const char *const own[] = {"Connection", "Keep-Alive",	  "Proxy-Connection",
					  "TE",		"HTTP2-Settings", "Upgrade"};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		head_remove(h, own[i]);
	if (websocket) {
		r = head_add(h, "Upgrade", "websocket");
		return r < 0 ? r : head_add(h, "Connection", "Upgrade");
	}
	if (!keeps)
		return head_add(h, "Connection", "close");
	return old ? head_add(h, "Connection", "keep-alive") : 0;
}
