/* SPDX-License-Identifier: Apache-2.0 */
/* The allow list: which names, addresses and ports a sandbox may reach. */
#ifndef XSBX_VM_BASE_ALLOW_H
#define XSBX_VM_BASE_ALLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A list consists of words separated by blanks, commas or newlines; # starts a comment that ends with the
 * line. A word is one of
 *
 *	example.com	that name
 *	*.example.com	every subdomain, at any depth, but not the domain itself
 *	192.0.2.7	that address, given as such or resolved from a name, private or not
 *	*		every public host, on every port
 *
 * optionally followed by `:PORT`. Without a port the first three mean ports 80 and 443.
 *
 * The name ALLOW_HOST stands for the host's loopback address. It is reachable only if the list contains
 * exactly that name, and the administrator has opened the port.
 */
#define ALLOW_HOST	  "host.internal"
#define ALLOW_TEXT_MAX	  32768
#define ALLOW_ENTRIES_MAX 1024
#define ALLOW_NAME_MAX	  253 /* without the terminating zero */

enum allow_kind { ALLOW_NAME, ALLOW_BELOW, ALLOW_ADDRESS, ALLOW_ALL };

/* What a list says about a connection. */
enum allow_verdict {
	ALLOW_REFUSED,
	ALLOW_GUARDED, /* allowed if the name sent over the connection (SNI, Host) is the same */
	ALLOW_FREE,    /* allowed whatever is sent: `*`, a listed address, the host */
};

struct allow_entry {
	const char *name; /* lower case, without a trailing dot; points into the list's `text` */
	uint32_t address; /* in network byte order */
	uint16_t port;	  /* 0: the kind's default */
	enum allow_kind kind;
};

/* All zeroes is a valid list that allows nothing. */
struct allow {
	struct allow_entry *entries;
	size_t nentries;
	char *text;
};

/**
 * allow_word() - Find the next word of a list
 * @text: Text of the list; need not be terminated
 * @len: Length in bytes
 * @at: Where to start; on return, where the word begins, past separators and comments
 *
 * Return: the word's length, 0 if there is none.
 */
size_t allow_word(const char *text, size_t len, size_t *at);

/* Parses a port: 1 to 65535, without a sign or leading zeroes. Return: 0 or -EINVAL. */
int allow_port(const char *word, size_t len, uint16_t *ret_port);

/**
 * allow_entry_parse() - Parse one word of a list
 * @word: Need not be terminated
 * @len: Its length
 * @ret_entry: Result; its name is @ret_name
 * @ret_name: Where its name goes
 *
 * Return: what is wrong with it, or NULL.
 */
const char *allow_entry_parse(const char *word, size_t len, struct allow_entry *ret_entry,
			      char ret_name[static ALLOW_NAME_MAX + 1]);

/**
 * allow_parse() - Parse a list
 * @text: Text of the list; need not be terminated
 * @len: Length in bytes
 * @ret_allow: The list; release it with allow_fini(). Untouched on failure
 * @ret_why: Human-readable reason if -EINVAL or -E2BIG is returned; at least 128 bytes
 *
 * Return: 0, -EINVAL, -E2BIG, -ENOMEM.
 */
int allow_parse(const char *text, size_t len, struct allow *ret_allow, char ret_why[static 128]);

void allow_fini(struct allow *allow);

/**
 * allow_name() - Is a connection to this name allowed?
 * @allow: List
 * @name: In lower case, without a trailing dot
 * @port: Port, or 0 for any
 *
 * Return: The most generous verdict of all entries.
 */
enum allow_verdict allow_name(const struct allow *allow, const char *name, uint16_t port);

/* Does @e have this port? @port: 0 for any. */
bool allow_entry_has_port(const struct allow_entry *e, uint16_t port);

/* Does the list contain this address, for @port? @address is in network byte order. */
bool allow_literal(const struct allow *allow, uint32_t address, uint16_t port);

/* All addresses listed for @port, in network byte order. Return: how many. */
size_t allow_addresses(const struct allow *allow, uint16_t port,
		       uint32_t ret_addresses[static ALLOW_ENTRIES_MAX]);

/* Does the list allow every public address on @port? */
bool allow_everything(const struct allow *allow, uint16_t port);

/**
 * allow_canonical() - Bring a host name into canonical form, for comparison
 * @name: Name; need not be terminated
 * @len: Its length
 * @ret_name: Lower case, terminated, without a trailing dot
 *
 * Return: 0, or -EINVAL if it is not a host name.
 */
int allow_canonical(const char *name, size_t len, char ret_name[static ALLOW_NAME_MAX + 1]);

/* Is it a host name that is in canonical form already? */
bool allow_is_canonical(const char *name);

/* Is the canonical name @name a subdomain of @top, at any depth? */
bool allow_is_below(const char *name, const char *top);

#endif
