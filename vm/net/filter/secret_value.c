/* SPDX-License-Identifier: Apache-2.0 */
/* The value of a secret, and how it may look where somebody repeats it. */
#include "secret_value.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A server that repeats what it was sent seldom does so byte by byte: it writes JSON, HTML or a log. So a value is looked for in
 * all the forms that programs write by themselves:
 *
 * - as it is;
 * - percent-encoded, in capital and small letters, and with + for a blank;
 * - as in a JSON string: with \" and \\, also with \/, also with \u003c and its like, also as .NET does, to which \u002B is a +;
 * - as in HTML;
 * - in base64, of both alphabets. What stands before it decides at which of three places in a group of four it begins; so there
 *   are three forms, each without the characters at its ends in which neighbours take part. By these it is found whatever is
 *   around it: USER:VALUE, or a whole body;
 * - in hexadecimal digits, capital and small.
 *
 * What is not found is what a server makes of it by will: reversed, compressed, encrypted, in parts. Such a server has it anyway.
 */

#define FORM_FACTOR 58 /* bytes of all forms for each of the value, at most */
#define FORM_LEAST  4  /* a shorter one says nothing */

static bool is_unreserved(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~", c));
}

/* ---- writers: each writes @len bytes in its form to @to. Return: how many it has written ---- */

typedef size_t (*writer)(const uint8_t *from, size_t len, uint8_t *to);

static size_t percent(const uint8_t *from, size_t len, uint8_t *to, const char *digits, bool plus)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (is_unreserved(from[i])) {
			to[n++] = from[i];
		} else if (plus && from[i] == ' ') {
			to[n++] = '+';
		} else {
			to[n++] = '%';
			to[n++] = (uint8_t)digits[from[i] >> 4];
			to[n++] = (uint8_t)digits[from[i] & 15];
		}
	}
	return n;
}

static const char capital[] = "0123456789ABCDEF", small[] = "0123456789abcdef";

static size_t put_percent(const uint8_t *from, size_t len, uint8_t *to)
{
	return percent(from, len, to, capital, false);
}

static size_t put_percent_small(const uint8_t *from, size_t len, uint8_t *to)
{
	return percent(from, len, to, small, false);
}

static size_t put_form(const uint8_t *from, size_t len, uint8_t *to)
{
	return percent(from, len, to, capital, true);
}

/* @escaped: more characters that get a backslash; @unicode: that are written by their number, in these @digits. */
static size_t json(const uint8_t *from, size_t len, uint8_t *to, const char *escaped,
		   const char *unicode, const char *digits)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (strchr(unicode, from[i])) {
			/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): these are bytes */
			memcpy(to + n, "\\u00", 4);
			to[n + 4] = (uint8_t)digits[from[i] >> 4];
			to[n + 5] = (uint8_t)digits[from[i] & 15];
			n += 6;
			continue;
		}
		if (from[i] == '"' || from[i] == '\\' || strchr(escaped, from[i]))
			to[n++] = '\\';
		to[n++] = from[i];
	}
	return n;
}

static size_t put_json(const uint8_t *from, size_t len, uint8_t *to)
{
	return json(from, len, to, "", "", small);
}

static size_t put_json_slash(const uint8_t *from, size_t len, uint8_t *to)
{
	return json(from, len, to, "/", "", small);
}

static size_t put_json_html(const uint8_t *from, size_t len, uint8_t *to)
{
	return json(from, len, to, "", "<>&", small);
}

static size_t put_json_html_all(const uint8_t *from, size_t len, uint8_t *to)
{
	return json(from, len, to, "/", "<>&'", small);
}

static size_t put_json_net(const uint8_t *from, size_t len, uint8_t *to)
{
	return json(from, len, to, "", "<>&'\"+`", capital);
}

static size_t html(const uint8_t *from, size_t len, uint8_t *to, const char *quote)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		const char c = (char)from[i];
		const char one[2] = {c, '\0'};
		const char *text = c == '&'    ? "&amp;"
				   : c == '<'  ? "&lt;"
				   : c == '>'  ? "&gt;"
				   : c == '"'  ? "&quot;"
				   : c == '\'' ? quote
					       : one;

		/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): likewise */
		memcpy(to + n, text, strlen(text));
		n += strlen(text);
	}
	return n;
}

static size_t put_html(const uint8_t *from, size_t len, uint8_t *to)
{
	return html(from, len, to, "&#39;");
}

static size_t put_html_hex(const uint8_t *from, size_t len, uint8_t *to)
{
	return html(from, len, to, "&#x27;");
}

static size_t hex(const uint8_t *from, size_t len, uint8_t *to, const char *digits)
{
	for (size_t i = 0; i < len; i++) {
		to[2 * i] = (uint8_t)digits[from[i] >> 4];
		to[2 * i + 1] = (uint8_t)digits[from[i] & 15];
	}
	return 2 * len;
}

static size_t put_hex(const uint8_t *from, size_t len, uint8_t *to)
{
	return hex(from, len, to, small);
}

static size_t put_hex_capital(const uint8_t *from, size_t len, uint8_t *to)
{
	return hex(from, len, to, capital);
}

/* ---- base64 ---- */

/* What it looks like behind @before other bytes (0 to 2), without what depends on its neighbours. */
static size_t base64(const uint8_t *from, size_t len, uint8_t *to, size_t before)
{
	const size_t begin = before ? before + 1 : 0, end = (before + len) * 8 / 6;
	uint8_t group[4];
	size_t n = 0;

	for (size_t at = 0; at * 3 < before + len; at++) {
		uint8_t three[3] = {0}, text[8];

		for (size_t k = 0; k < 3; k++) {
			const size_t i = 3 * at + k;

			if (i >= before && i - before < len)
				three[k] = from[i - before];
		}
		EVP_EncodeBlock(text, three, 3);
		memcpy(group, text, sizeof(group));
		for (size_t k = 0; k < 4; k++)
			if (4 * at + k >= begin && 4 * at + k < end)
				to[n++] = group[k];
		explicit_bzero(three, sizeof(three));
		explicit_bzero(text, sizeof(text));
	}
	return n;
}

static void use_url_alphabet(uint8_t *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		text[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
}

/* ---- all of them ---- */

/* What was written behind the others becomes a form, if it is a new one. */
static void keep(struct secret_value *v, size_t len)
{
	const struct secret_form f = {v->memory + v->size, len};

	if (len < FORM_LEAST || v->nforms == SECRET_FORMS_MAX)
		return;
	for (unsigned i = 0; i < v->nforms; i++)
		if (v->form[i].len == len && !memcmp(v->form[i].bytes, f.bytes, len))
			return;
	v->form[v->nforms++] = f;
	v->size += len;
}

static void make_forms(struct secret_value *v, const uint8_t *bytes, size_t len)
{
	static const writer writers[] = {put_percent,	    put_percent_small, put_form,
					 put_json,	    put_json_slash,    put_json_html,
					 put_json_html_all, put_json_net,      put_html,
					 put_html_hex,	    put_hex,	       put_hex_capital};

	memcpy(v->memory, bytes, len);
	keep(v, len);
	for (size_t i = 0; i < ARRAY_SIZE(writers); i++)
		keep(v, writers[i](bytes, len, v->memory + v->size));
	for (size_t before = 0; before < 3; before++) {
		size_t n = base64(bytes, len, v->memory + v->size, before);

		keep(v, n);
		n = base64(bytes, len, v->memory + v->size, before);
		use_url_alphabet(v->memory + v->size, n);
		keep(v, n);
	}
}

static size_t whole_pages(size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

int secret_value_new(const char *name, const void *bytes, size_t len,
		     struct secret_value **ret_value)
{
	const uint8_t *const b = bytes;
	const size_t room = whole_pages(len * FORM_FACTOR + 64);
	struct secret_value *v;

	if (len < SECRET_VALUE_MIN || len > SECRET_VALUE_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < len; i++)
		if (b[i] < ' ' || b[i] == 0x7f)
			return -EINVAL;
	v = calloc(1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (v->memory == MAP_FAILED) {
		free(v);
		return -ENOMEM;
	}
	(void)madvise(v->memory, room, MADV_DONTDUMP);
	(void)mlock(
		v->memory,
		whole_pages(len *
			    8)); /* as far as the limit lets us: all of it, but for odd values */
	v->refs = 1;
	snprintf(v->label, sizeof(v->label), "%s%s", SECRET_PLACEHOLDER, name);
	make_forms(v, b, len);
	/* What the last one that was no new form has left. */
	explicit_bzero(v->memory + v->size, room - v->size);
	if (whole_pages(v->size) < room)
		munmap(v->memory + whole_pages(v->size), room - whole_pages(v->size));
	v->size = whole_pages(v->size);
	(void)mlock(v->memory, v->size);
	*ret_value = v;
	return 0;
}

struct secret_value *secret_value_ref(struct secret_value *v)
{
	v->refs++;
	return v;
}

void secret_value_unref(struct secret_value *v)
{
	if (!v || --v->refs)
		return;
	explicit_bzero(v->memory, v->size);
	munmap(v->memory, v->size);
	free(v);
}

size_t secret_value_percent(const struct secret_value *v, char *to)
{
	return put_percent(v->form[0].bytes, v->form[0].len, (uint8_t *)to);
}

size_t secret_value_json(const struct secret_value *v, char *to)
{
	return put_json(v->form[0].bytes, v->form[0].len, (uint8_t *)to);
}
