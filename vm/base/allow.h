/* SPDX-License-Identifier: Apache-2.0 */
/* The allow list: which names, addresses and ports a sandbox may reach. */
#ifndef XSBX_VM_BASE_ALLOW_H
#define XSBX_VM_BASE_ALLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A list is words, divided by blanks, commas or newlines; a # and what follows it on its line is a
 * comment. A word is one of
 *
 *	example.com	that name
 *	*.example.com	every name below it, at any depth, not the name itself
 *	192.0.2.7	that address, by its number or through a name, private or not
 *	*		every public host, on every port
 *
 * and may end in `:PORT`. Without a port the first three mean ports 80 and 443.
 *
 * The name ALLOW_HOST stands for the host itself, at its loopback address. It is only reached if the list
 * has that very name, and the port is one that the administrator opens.
 */
#define ALLOW_HOST	  "host.internal"
#define ALLOW_TEXT_MAX	  32768
#define ALLOW_ENTRIES_MAX 1024
#define ALLOW_NAME_MAX	  253 /* without the terminating zero */

enum allow_kind { ALLOW_NAME, ALLOW_BELOW, ALLOW_ADDRESS, ALLOW_ALL };

/* What a list says of one connection. */
enum allow_verdict {
	ALLOW_REFUSED,
	ALLOW_GUARDED, /* if what the connection says it wants is the same name */
	ALLOW_FREE,    /* whatever it says: by `*`, an address that the list spells out, the host */
};

struct allow_entry {
	const char *name; /* lower case, without a dot at its end; in the list's `text` */
	uint32_t address; /* in network order */
	uint16_t port;	  /* 0: the kind's default */
	enum allow_kind kind;
};

/* All zeroes is a valid list, which allows nothing. */
struct allow {
	struct allow_entry *entries;
	size_t nentries;
	char *text;
};

/**
 * allow_word() - The next word of a list
 * @text: Its text; need not be terminated
 * @len: Length in bytes
 * @at: Where to look, dividers and comments are passed over; afterwards where the word begins
 *
 * Return: its length, 0 if there is none.
 */
size_t allow_word(const char *text, size_t len, size_t *at);

/* A port: 1 to 65535, without a sign or zeroes in front, and nothing else. Return: 0 or -EINVAL. */
int allow_port(const char *word, size_t len, uint16_t *ret_port);

/**
 * allow_parse() - Read a list
 * @text: Its text; need not be terminated
 * @len: Length in bytes
 * @ret_allow: The list; end it with allow_fini(). Untouched on failure
 * @ret_why: What is wrong, for people, if -EINVAL or -E2BIG is returned; at least 128 bytes
 *
 * Return: 0, -EINVAL, -E2BIG, -ENOMEM.
 */
int allow_parse(const char *text, size_t len, struct allow *ret_allow, char ret_why[static 128]);

void allow_fini(struct allow *allow);

/**
 * allow_name() - May this name be connected to?
 * @allow: List
 * @name: In lower case, without a dot at its end
 * @port: Port, or 0: on any port at all
 *
 * Return: The most generous verdict of all entries.
 */
enum allow_verdict allow_name(const struct allow *allow, const char *name, uint16_t port);

/* Is this address spelt out in the list, for @port? @address is in network order. */
bool allow_literal(const struct allow *allow, uint32_t address, uint16_t port);

/* All addresses that are spelt out for @port, in network order. Return: how many. */
size_t allow_addresses(const struct allow *allow, uint16_t port,
		       uint32_t ret_addresses[static ALLOW_ENTRIES_MAX]);

/* Does the list open every public address on @port? */
bool allow_everything(const struct allow *allow, uint16_t port);

/**
 * allow_canonical() - Bring a host name into the form in which names are compared
 * @name: Name; need not be terminated
 * @len: Its length
 * @ret_name: Lower case, terminated, without a dot at its end
 *
 * Return: 0, or -EINVAL for what is no host name.
 */
int allow_canonical(const char *name, size_t len, char ret_name[static ALLOW_NAME_MAX + 1]);

/* Is a name, in its canonical form, below another one, at any depth? */
bool allow_is_below(const char *name, const char *top);

#endif
