/* SPDX-License-Identifier: Apache-2.0 */
/* The allow list: which names, addresses and ports a sandbox may reach. */
#include "allow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/util.h"

#define LABEL_MAX 63

static bool is_divider(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A letter, digit, hyphen or underscore in lower case, or 0. */
static char name_char(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	if ((c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_')
		return c;
	return 0;
}

int allow_canonical(const char *name, size_t len, char ret_name[static ALLOW_NAME_MAX + 1])
{
	char out[ALLOW_NAME_MAX + 1];
	size_t label = 0;

	if (len > 0 && name[len - 1] == '.')
		len--;
	if (len == 0 || len > ALLOW_NAME_MAX)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (name[i] == '.') {
			if (label == 0 || out[i - 1] == '-')
				return -EINVAL;
			out[i] = '.';
			label = 0;
			continue;
		}
		out[i] = name_char(name[i]);
		if (!out[i] || ++label > LABEL_MAX || (label == 1 && out[i] == '-'))
			return -EINVAL;
	}
	if (label == 0 || out[len - 1] == '-')
		return -EINVAL;
	out[len] = '\0';
	memcpy(ret_name, out, len + 1);
	return 0;
}

bool allow_is_canonical(const char *name)
{
	char canonical[ALLOW_NAME_MAX + 1];

	return allow_canonical(name, strlen(name), canonical) == 0 && !strcmp(canonical, name);
}

/* Names do not end in a number (RFC 1123): what does is an address, or a mistyped one. */
static bool looks_like_address(const char *name)
{
	const char *last = strrchr(name, '.');

	last = last ? last + 1 : name;
	return last[strspn(last, "0123456789")] == '\0';
}

int allow_port(const char *word, size_t len, uint16_t *ret_port)
{
	unsigned port = 0;

	if (len == 0 || len > 5 || word[0] == '0')
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(word[i]))
			return -EINVAL;
		port = port * 10 + (unsigned)(word[i] - '0');
	}
	if (port > 65535)
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

const char *allow_entry_parse(const char *word, size_t len, struct allow_entry *ret_entry,
			      char ret_name[static ALLOW_NAME_MAX + 1])
{
	const char *colon = memchr(word, ':', len);
	const size_t host = colon ? (size_t)(colon - word) : len;
	struct in_addr address;

	*ret_entry = (struct allow_entry){.name = ret_name};
	ret_name[0] = '\0';
	if (memchr(word, '/', len))
		return "write the name alone, without http:// and without a path";
	if (colon && memchr(colon + 1, ':', len - host - 1))
		return "IPv6 addresses cannot be reached";
	if (colon && allow_port(colon + 1, len - host - 1, &ret_entry->port) < 0)
		return "a port is a number from 1 to 65535";
	if (host == 1 && word[0] == '*') {
		ret_entry->kind = ALLOW_ALL;
		return NULL;
	}
	if (host > 2 && word[0] == '*' && word[1] == '.') {
		ret_entry->kind = ALLOW_BELOW;
		word += 2;
	}
	if (allow_canonical(word, ret_entry->kind == ALLOW_BELOW ? host - 2 : host, ret_name) < 0)
		return memchr(word, '*', host - (ret_entry->kind == ALLOW_BELOW ? 2 : 0))
			       ? "a * stands alone or before the first dot"
			       : "this is no host name (write international names as xn--...)";
	if (!looks_like_address(ret_name))
		return NULL;
	if (ret_entry->kind == ALLOW_BELOW || inet_pton(AF_INET, ret_name, &address) != 1)
		return "this is no IPv4 address";
	ret_entry->kind = ALLOW_ADDRESS;
	ret_entry->address = address.s_addr;
	return NULL;
}

size_t allow_word(const char *text, size_t len, size_t *at)
{
	size_t i = *at, begin;

	while (i < len && (is_divider(text[i]) || text[i] == '#')) {
		if (text[i] == '#')
			while (i < len && text[i] != '\n')
				i++;
		else
			i++;
	}
	begin = i;
	while (i < len && !is_divider(text[i]) && text[i] != '#')
		i++;
	*at = begin;
	return i - begin;
}

int allow_parse(const char *text, size_t len, struct allow *ret_allow, char ret_why[static 128])
{
	struct allow list = {0};
	size_t at = 0, n = 0, word, used = 0;

	if (len > ALLOW_TEXT_MAX) {
		snprintf(ret_why, 128, "the list is longer than %d bytes", ALLOW_TEXT_MAX);
		return -E2BIG;
	}
	for (; (word = allow_word(text, len, &at)) > 0; at += word)
		n++;
	if (n > ALLOW_ENTRIES_MAX) {
		snprintf(ret_why, 128, "the list has more than %d entries", ALLOW_ENTRIES_MAX);
		return -E2BIG;
	}
	/* A name never takes more room than its word and a zero. */
	list.entries = calloc(n + 1, sizeof(*list.entries));
	list.text = malloc(len + n + ALLOW_NAME_MAX + 1);
	if (!list.entries || !list.text) {
		allow_fini(&list);
		return -ENOMEM;
	}
	for (at = 0; (word = allow_word(text, len, &at)) > 0; at += word) {
		struct allow_entry *e = &list.entries[list.nentries++];
		const char *why = allow_entry_parse(text + at, word, e, list.text + used);

		if (why) {
			snprintf(ret_why, 128, "%.*s: %s", (int)MIN(word, 40), text + at, why);
			allow_fini(&list);
			return -EINVAL;
		}
		used += strlen(e->name) + 1;
	}
	*ret_allow = list;
	return 0;
}

void allow_fini(struct allow *allow)
{
	free(allow->entries);
	free(allow->text);
	*allow = (struct allow){0};
}

bool allow_entry_has_port(const struct allow_entry *e, uint16_t port)
{
	if (port == 0 || (e->kind == ALLOW_ALL && e->port == 0))
		return true;
	return e->port ? e->port == port : port == 80 || port == 443;
}

bool allow_is_below(const char *name, const char *top)
{
	const size_t len = strlen(name), tail = strlen(top);

	return len > tail + 1 && name[len - tail - 1] == '.' && !strcmp(name + len - tail, top);
}

enum allow_verdict allow_name(const struct allow *allow, const char *name, uint16_t port)
{
	enum allow_verdict verdict = ALLOW_REFUSED;
	const bool host = strcmp(name, ALLOW_HOST) == 0;

	for (size_t i = 0; i < allow->nentries; i++) {
		const struct allow_entry *e = &allow->entries[i];

		if (!allow_entry_has_port(e, port) || (host && e->kind != ALLOW_NAME))
			continue;
		if (host && !strcmp(name, e->name))
			return ALLOW_FREE;
		if (e->kind == ALLOW_ALL)
			return ALLOW_FREE;
		if ((e->kind == ALLOW_NAME && !strcmp(name, e->name)) ||
		    (e->kind == ALLOW_BELOW && allow_is_below(name, e->name)))
			verdict = ALLOW_GUARDED;
	}
	return verdict;
}

bool allow_literal(const struct allow *allow, uint32_t address, uint16_t port)
{
	for (size_t i = 0; i < allow->nentries; i++) {
		const struct allow_entry *e = &allow->entries[i];

		if (e->kind == ALLOW_ADDRESS && e->address == address &&
		    allow_entry_has_port(e, port))
			return true;
	}
	return false;
}

size_t allow_addresses(const struct allow *allow, uint16_t port,
		       uint32_t ret_addresses[static ALLOW_ENTRIES_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < allow->nentries; i++)
		if (allow->entries[i].kind == ALLOW_ADDRESS &&
		    allow_entry_has_port(&allow->entries[i], port))
			ret_addresses[n++] = allow->entries[i].address;
	return n;
}

bool allow_everything(const struct allow *allow, uint16_t port)
{
	for (size_t i = 0; i < allow->nentries; i++)
		if (allow->entries[i].kind == ALLOW_ALL &&
		    allow_entry_has_port(&allow->entries[i], port))
			return true;
	return false;
}
