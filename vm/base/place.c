/* SPDX-License-Identifier: Apache-2.0 */
/* Where requests go, as rules and uses of secrets name it: HOST[:PORT][/PATH]. */
#include "place.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "http_path.h"
#include "vm/base/util.h"

static_assert(PLACE_WORD_MAX <= HTTP_PATTERN_MAX, "a pattern is part of a place");
/* The word, its name, both patterns, and a zero behind each. */
static_assert(PLACE_STORE_SIZE(9) ==
		      9 + 1 + 9 + 1 + HTTP_PATTERN_PLAIN_SIZE(9) + HTTP_PATTERN_BARE_SIZE(9),
	      "room for all texts of a place");

static int refuse(const char *word, size_t len, const char *why, char ret_why[static 128])
{
	snprintf(ret_why, 128, "%.*s: %s", (int)MIN(len, 40), word, why);
	return -EINVAL;
}

static bool has(const char *word, size_t len, const char *what)
{
	return memmem(word, len, what, strlen(what)) != NULL;
}

int place_parse(const char *word, size_t len, char *store, struct place *ret_place,
		char ret_why[static 128])
{
	const char *const slash = memchr(word, '/', len), *why;
	const size_t host = slash ? (size_t)(slash - word) : len;
	char name[ALLOW_NAME_MAX + 1], *to = store;
	struct place p = {0};

	if (len > PLACE_WORD_MAX)
		return refuse(word, len, "a place has at most 2048 bytes", ret_why);
	if (memchr(word, '\0', len))
		return refuse(word, len, "there is a NUL in it", ret_why);
	if (has(word, len, "://"))
		return refuse(word, len, "write the host without http:// or https://", ret_why);
	if (host == 0)
		return refuse(word, len, "a place begins with a host", ret_why);
	why = allow_entry_parse(word, host, &p.host, name);
	if (why)
		return refuse(word, host, why, ret_why);
	p.word = memcpy(to, word, len);
	to[len] = '\0';
	to += len + 1;
	p.host.name = memcpy(to, name, strlen(name) + 1);
	to += strlen(name) + 1;
	if (slash) {
		char *const plain = to, *const bare = to + HTTP_PATTERN_PLAIN_SIZE(len - host);

		why = http_pattern_parse(slash, len - host, plain, bare);
		if (why)
			return refuse(word, len, why, ret_why);
		p.plain = plain;
		p.bare = bare;
		to = bare + strlen(bare) + 1;
	}
	*ret_place = p;
	return (int)(to - store);
}

bool place_has_host(const struct place *p, const char *host, uint16_t port)
{
	struct in_addr address;

	if (!allow_entry_has_port(&p->host, port))
		return false;
	switch (p->host.kind) {
	case ALLOW_NAME: return !strcmp(host, p->host.name);
	case ALLOW_BELOW: return allow_is_below(host, p->host.name);
	case ALLOW_ADDRESS:
		return inet_pton(AF_INET, host, &address) == 1 && address.s_addr == p->host.address;
	case ALLOW_ALL: return true;
	}
	return false;
}

bool place_is_at(const struct place *a, const struct place *b)
{
	return a->host.kind == b->host.kind && a->host.port == b->host.port &&
	       a->host.address == b->host.address && !strcmp(a->host.name, b->host.name);
}

unsigned place_fitting(const struct place *p, const struct http_path *path, bool any_case)
{
	if (!p->plain)
		return PLACE_BOTH;
	return (http_pattern_fits(p->plain, path->plain, any_case) ? PLACE_PLAIN : 0) |
	       (http_pattern_fits(p->bare, path->bare, any_case) ? PLACE_BARE : 0);
}

bool place_has_path(const struct place *p, const struct http_path *path)
{
	return place_fitting(p, path, false) == PLACE_BOTH;
}
