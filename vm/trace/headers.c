/* SPDX-License-Identifier: Apache-2.0 */
/* Headers for a collector. See headers.h. */
#include "headers.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "vm/base/util.h"

#define HEADER_MAX 16384u
#define TOKEN                                                            \
	"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJK" \
	"LMNOPQRSTUVWXYZ"

/* Some bytes of a text. */
struct part {
	const char *at;
	size_t len;
};

static struct part trimmed(const char *at, size_t len)
{
	while (len && (at[len - 1] == ' ' || at[len - 1] == '\t'))
		len--;
	while (len && (*at == ' ' || *at == '\t')) {
		at++;
		len--;
	}
	return (struct part){at, len};
}

/* One that would make a request another. */
static bool is_ours(const struct part *name)
{
	static const char *const ours[] = {"content-type", "content-length", "transfer-encoding",
					   "expect", "connection"};

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (strlen(ours[i]) == name->len && strncasecmp(ours[i], name->at, name->len) == 0)
			return true;
	return false;
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* Appends a value, without its %XX. Return: whether it can be one. */
static bool put_value(char *out, size_t n, const struct part *v)
{
	for (size_t i = 0; i < v->len; i++) {
		char c = v->at[i];

		if (c == '%') {
			if (v->len - i < 3 || !isxdigit((unsigned char)v->at[i + 1]) ||
			    !isxdigit((unsigned char)v->at[i + 2]))
				return false;
			c = (char)(digit(v->at[i + 1]) << 4 | digit(v->at[i + 2]));
			i += 2;
		}
		if (iscntrl((unsigned char)c) && c != '\t')
			return false;
		out[n++] = c;
	}
	out[n] = '\0';
	return true;
}

static bool add(struct curl_slist **list, const char *pair, size_t len)
{
	const char *equals = memchr(pair, '=', len);
	struct curl_slist *more = NULL;
	struct part name, value;
	char line[HEADER_MAX];
	size_t n;

	if (!equals || len >= sizeof(line) - 2)
		return false;
	name = trimmed(pair, (size_t)(equals - pair));
	value = trimmed(equals + 1, len - (size_t)(equals + 1 - pair));
	if (!name.len || strspn(name.at, TOKEN) < name.len || is_ours(&name))
		return false;
	/* As curl wants one without a value to be written. */
	n = (size_t)snprintf(line, sizeof(line), "%.*s%s", (int)name.len, name.at,
			     value.len ? ": " : ";");
	if (put_value(line, n, &value))
		more = curl_slist_append(*list, line);
	explicit_bzero(line, sizeof(line));
	*list = more ? more : *list;
	return more;
}

size_t headers_add(struct curl_slist **list, const char *text, size_t *ret_wrong)
{
	size_t first = 0, wrong = 0;

	for (size_t i = 1;; i++) {
		const size_t len = strcspn(text, ",");

		/* Nothing between two commas is no header, and no mistake. */
		if (trimmed(text, len).len && !add(list, text, len)) {
			first = first ? first : i;
			wrong++;
		}
		if (!text[len])
			break;
		text += len + 1;
	}
	*ret_wrong = wrong;
	return first;
}
