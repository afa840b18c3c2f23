/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the configuration and of sessions: one table says where each may stand, and what it may be. */
#ifndef XSBX_FS_CONFIG_KEY_H
#define XSBX_FS_CONFIG_KEY_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct problem;
struct settings_limits;

/* Where a key stands. What comes before CONF_TEMPLATE is of struct conf, the others are of struct settings. */
enum conf_section {
	CONF_GLOBAL,
	CONF_LIMITS,
	CONF_NETWORK,
	CONF_STORE,
	CONF_PACKAGES,
	CONF_OPTION, /* of the command line only */
	CONF_TEMPLATE,
	CONF_SESSION, /* `config`; [template NAME] has these as well */
	CONF_NSECTIONS,
};

/* What its value is; the type that it is kept as. */
enum key_type {
	KEY_FLAG,	/* bool: yes or no; `words` are how it is written */
	KEY_SWITCH,	/* bool: one of two `words` */
	KEY_CHOICE,	/* enum: one of `words` */
	KEY_NUMBER,	/* unsigned: `min` to `max` */
	KEY_SIZE,	/* uint64_t: bytes, with K, M, G or T behind; at most `max` MiB */
	KEY_HOST_PORTS, /* struct vm_host_ports */
	KEY_TEXT,	/* char *, and so are all that follow */
	KEY_WORD,	/* one of `words` */
	KEY_NAME,	/* as plain_name_ok() has it */
	KEY_PATH,	/* absolute once it is kept, or one of `words` */
	KEY_PROGRAM,	/* likewise, or a name to look for in PATH */
	KEY_URL,
	KEY_REGION,
	KEY_MAX_ALLOW, /* an allow list; NULL is any */
	KEY_NPLAIN,
	/* Of struct settings, by network.c and paths.c. */
	KEY_ALLOW = KEY_NPLAIN,
	KEY_PORTS,
	KEY_RO,
	KEY_RW,
	KEY_WORK,
};

#define KEY_LIVE    1u /* may change while a sandbox runs */
#define KEY_ENDLESS 2u /* 0 means "without end", which no limit allows */
#define KEY_FIXED   4u /* by the configuration file; a session shows it */

struct key {
	const char *name;
	enum conf_section section;
	enum key_type type;
	size_t offset;
	const char *standard; /* what it is if nothing is said; or NULL */
	unsigned min, max;
	unsigned flags;
	size_t limit;	      /* offset in struct settings_limits, or 0 */
	const char *words[5]; /* NULL after the last */
	const char *comment;  /* in `config` */
};

/* What a value is read for. */
struct key_context {
	const struct settings_limits *limits; /* NULL: it will be held against them later */
	bool option; /* of the command line, where a path may be of the current directory */
};

/* As in brackets, or NULL. */
const char *key_section(enum conf_section section);

/* The key of @section behind @k, the first for NULL; or NULL. */
const struct key *key_next(enum conf_section section, const struct key *k);

#define for_each_key(k, section) \
	for (const struct key *k = key_next((section), NULL); (k); (k) = key_next((section), (k)))

/* The key called @name, or NULL. */
const struct key *key_find(enum conf_section section, const char *name);

/**
 * key_set() - Read a value
 * @k: Which
 * @base: struct conf or struct settings
 * @value: Text
 * @ctx: What for
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @base unchanged, -ENOMEM.
 */
int key_set(const struct key *k, void *base, const char *value, const struct key_context *ctx,
	    struct problem *why);

/* Appends the value as key_set() takes it. Return: 0 or what buf_append() said. */
int key_print(const struct key *k, const void *base, struct buf *out);

/* Where the value is. Constness is the caller's affair, as with strchr(). */
void *key_at(const struct key *k, const void *base);

/* Sets all keys of the sections from @first to @last to what they are if nothing is said. Return: 0 or -ENOMEM. */
int key_init(enum conf_section first, enum conf_section last, void *base);

/* Frees what key_set() has made of the plain types. */
void key_clear(enum conf_section first, enum conf_section last, void *base);

#endif
