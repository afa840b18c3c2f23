/* SPDX-License-Identifier: Apache-2.0 */
/* The value of a secret, and how it may look where somebody repeats it. */
#include "secret_value.h"

#include <assert.h>
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
 * - as it is, and in UTF-16 and UTF-32, which clients may ask for;
 * - percent-encoded, in capital and small letters, with + for a blank, and without what some encoders leave as it is;
 * - as in a JSON string: with \" and \\, also with \/, also with \u003c and its like, also as .NET does, to which \u002B is a +;
 * - as in HTML, of which template engines do more than others;
 * - in base64, of both alphabets. What stands before it decides at which of three places in a group of four it begins; so there
 *   are three forms, each without the characters at its ends in which neighbours take part. By these it is found whatever is
 *   around it: USER:VALUE, or a whole body. And as base64 is what such a header has, it may be written in the ways above as well;
 * - in hexadecimal digits, capital and small.
 *
 * What is not found is what a server makes of it by will: reversed, compressed, encrypted, in parts. Such a server has it anyway.
 */

#define FORM_FACTOR    200 /* bytes of all forms for each of the value, at most */
#define SCRATCH_FACTOR 2   /* and of base64, while these are made */
#define FORM_LEAST     4   /* a shorter one says nothing */

static const char capital[] = "0123456789ABCDEF", small[] = "0123456789abcdef";

/* ---- what stands for a character ---- */

/* How encoders write what they replace: a character, and what stands for it. Others stay as they are. */
#define MAP_MAX 10
struct map {
	const char *entry[MAP_MAX];
};

#define JSON   "\"\\\"", "\\\\\\"
#define MARKUP "&&amp;", "<&lt;", ">&gt;"

static const struct map maps[] = {
	{{JSON}},
	{{JSON, "/\\/"}},
	{{JSON, "<\\u003c", ">\\u003e", "&\\u0026"}},
	{{JSON, "/\\/", "<\\u003c", ">\\u003e", "&\\u0026", "'\\u0027"}},
	{{"\\\\\\", "\"\\u0022", "<\\u003C", ">\\u003E", "&\\u0026", "'\\u0027", "+\\u002B",
	  "`\\u0060"}}, /* .NET */
	{{MARKUP, "\"&quot;", "'&#39;"}},
	{{MARKUP, "\"&quot;", "'&#x27;"}},
	{{MARKUP, "\"&#34;", "'&#39;", "+&#43;", "`&#96;"}},		   /* Go */
	{{MARKUP, "\"&quot;", "'&#x27;", "`&#x60;", "=&#x3D;"}},	   /* Handlebars */
	{{MARKUP, "\"&quot;", "'&#39;", "`&#x60;", "=&#x3D;", "/&#x2F;"}}, /* Mustache */
};

/* The same of base64, of which only two characters are ever replaced. */
static const struct map base64_maps[] = {
	{{NULL}},	{{"+-", "/_"}}, /* the other alphabet */
	{{"/\\/"}},	{{"+%2B", "/%2F"}}, {{"+%2b", "/%2f"}},
	{{"+\\u002B"}}, {{"+&#43;"}},	    {{"/&#x2F;"}},
};

static size_t translate(const struct map *map, const uint8_t *from, size_t len, uint8_t *to)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		const char *text = NULL;

		for (size_t k = 0; k < MAP_MAX && map->entry[k] && !text; k++)
			if ((uint8_t)map->entry[k][0] == from[i])
				text = map->entry[k] + 1;
		if (text) {
			/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): these are bytes */
			memcpy(to + n, text, strlen(text));
			n += strlen(text);
		} else {
			to[n++] = from[i];
		}
	}
	return n;
}

/* ---- percent ---- */

static const struct escape {
	const char *digits, *kept;
	bool plus; /* for a blank */
} escapes[] = {
	{capital, "", false},
	{small, "", false},
	{capital, "", true},
	{capital, "*", true},		  /* Java */
	{capital, "!*'()", false},	  /* JavaScript */
	{capital, "$&+=:@", false},	  /* Go, of a part of a path */
	{capital, "!$&'()*+,;=:@", false} /* what a part of a path may have */
};

static bool is_unreserved(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~", c));
}

static size_t percent(const struct escape *how, const uint8_t *from, size_t len, uint8_t *to)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (is_unreserved(from[i]) || (from[i] && strchr(how->kept, from[i]))) {
			to[n++] = from[i];
		} else if (how->plus && from[i] == ' ') {
			to[n++] = '+';
		} else {
			to[n++] = '%';
			to[n++] = (uint8_t)how->digits[from[i] >> 4];
			to[n++] = (uint8_t)how->digits[from[i] & 15];
		}
	}
	return n;
}

/* ---- digits, and wider characters ---- */

static size_t hex(const uint8_t *from, size_t len, uint8_t *to, const char *digits)
{
	for (size_t i = 0; i < len; i++) {
		to[2 * i] = (uint8_t)digits[from[i] >> 4];
		to[2 * i + 1] = (uint8_t)digits[from[i] & 15];
	}
	return 2 * len;
}

/* Of @width bytes each, whichever of them is the first one: without what is before its first byte and behind its last. */
static size_t widen(const uint8_t *from, size_t len, uint8_t *to, size_t width)
{
	memset(to, 0, len * width);
	for (size_t i = 0; i < len; i++)
		to[i * width] = from[i];
	return (len - 1) * width + 1;
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

/* @scratch: behind the room for all forms, as the memory of a value. */
static void make_forms(struct secret_value *v, const uint8_t *bytes, size_t len, uint8_t *scratch)
{
	memcpy(v->memory, bytes, len);
	keep(v, len);
	for (size_t i = 0; i < ARRAY_SIZE(escapes); i++)
		keep(v, percent(&escapes[i], bytes, len, v->memory + v->size));
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		keep(v, translate(&maps[i], bytes, len, v->memory + v->size));
	keep(v, hex(bytes, len, v->memory + v->size, small));
	keep(v, hex(bytes, len, v->memory + v->size, capital));
	for (size_t width = 2; width <= 4; width += 2)
		keep(v, widen(bytes, len, v->memory + v->size, width));
	for (size_t before = 0; before < 3; before++) {
		const size_t n = base64(bytes, len, scratch, before);

		for (size_t i = 0; i < ARRAY_SIZE(base64_maps); i++)
			keep(v, translate(&base64_maps[i], scratch, n, v->memory + v->size));
	}
}

static_assert(SECRET_FORMS_MAX >= 1 + ARRAY_SIZE(escapes) + ARRAY_SIZE(maps) + 2 + 2 +
					  3 * ARRAY_SIZE(base64_maps),
	      "room for all forms");

static size_t whole_pages(size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

int secret_value_new(const char *name, const void *bytes, size_t len,
		     struct secret_value **ret_value)
{
	const uint8_t *const b = bytes;
	const size_t forms = len * FORM_FACTOR + 64,
		     room = whole_pages(forms + len * SCRATCH_FACTOR + 8);
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
	make_forms(v, b, len, v->memory + forms);
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
	return percent(&escapes[0], v->form[0].bytes, v->form[0].len, (uint8_t *)to);
}

size_t secret_value_json(const struct secret_value *v, char *to)
{
	return translate(&maps[0], v->form[0].bytes, v->form[0].len, (uint8_t *)to);
}
