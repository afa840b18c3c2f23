/* SPDX-License-Identifier: Apache-2.0 */
/* Where requests go, as rules and uses of secrets name it: HOST[:PORT][/PATH]. */
#ifndef XSBX_VM_BASE_PLACE_H
#define XSBX_VM_BASE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allow.h"

struct http_path;

/* Bytes of a place, and of what place_parse() stores of one of @len bytes. */
#define PLACE_WORD_MAX	      2048
#define PLACE_STORE_SIZE(len) (6 * (len) + 4)

/*
 * HOST is a word of an allow list: a name, *.name, an address, or *; without a port it means ports 80 and 443, and * every port.
 * PATH begins with a slash and may have any number of *, each of which stands for any characters, slashes too; without a path
 * it is every path.
 */
struct place {
	const char *word; /* as it was written */
	struct allow_entry host;
	const char *plain, *bare; /* patterns for its path (see http_path.h), or NULL: every path */
};

/**
 * place_parse() - Parse a place
 * @word: Its text; need not be terminated
 * @len: Length in bytes
 * @store: Where its texts go; at least PLACE_STORE_SIZE(@len) bytes, must outlive @ret_place
 * @ret_place: Result
 * @ret_why: Human-readable reason if -EINVAL is returned
 *
 * Return: how much of @store is used, or -EINVAL.
 */
int place_parse(const char *word, size_t len, char *store, struct place *ret_place,
		char ret_why[static 128]);

/* Does it have this host and port? @host: canonical name, or an address as text; @port: 0 for any. */
bool place_has_host(const struct place *p, const char *host, uint16_t port);

/* Are both at the same host and port, whatever their paths? */
bool place_is_at(const struct place *a, const struct place *b);

/* Which readings of a path fit it, with letters as they are or in any case. */
enum place_reading { PLACE_PLAIN = 1, PLACE_BARE = 2, PLACE_BOTH = 3 };
unsigned place_fitting(const struct place *p, const struct http_path *path, bool any_case);

/* Does it have this path, however a server may read it? */
bool place_has_path(const struct place *p, const struct http_path *path);

#endif
