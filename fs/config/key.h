/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the configuration and of sessions: a table of their sections, types and ranges. */
#ifndef XSBX_FS_CONFIG_KEY_H
#define XSBX_FS_CONFIG_KEY_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct problem;
struct settings_limits;

/* The section of a key. Keys of sections before CONF_TEMPLATE are in struct conf, others in struct settings. */
enum conf_section {
	CONF_GLOBAL,
	CONF_LIMITS,
	CONF_NETWORK,
	CONF_STORE,
	CONF_PACKAGES,
	CONF_OPTION, /* on the command line only */
	CONF_TEMPLATE,
	CONF_SESSION, /* `config`; [template NAME] has these as well */
	CONF_QUOTA,   /* in struct allowance, see quota.h */
	CONF_NSECTIONS,
};

/* The type of a value: its C type, and how it is written. */
enum key_type {
	KEY_FLAG,	/* bool: yes or no; `words` are the spellings */
	KEY_SWITCH,	/* bool: one of two `words` */
	KEY_CHOICE,	/* enum: one of `words` */
	KEY_NUMBER,	/* unsigned: `min` to `max` */
	KEY_SIZE,	/* uint64_t: bytes, with a suffix K, M, G or T; at most `max` MiB */
	KEY_COUNT,	/* uint64_t: `min` to `max` */
	KEY_HOST_PORTS, /* struct vm_host_ports */
	KEY_TEXT,	/* char *, as are all that follow */
	KEY_WORD,	/* one of `words` */
	KEY_NAME,	/* accepted by plain_name_ok() */
	KEY_PATH,	/* stored as an absolute path, or one of `words` */
	KEY_PROGRAM,	/* likewise, or a name to look up in PATH */
	KEY_URL,
	KEY_UPSTREAM,
	KEY_REGION,
	KEY_MAX_ALLOW, /* an allow list; NULL allows everything */
	KEY_FIRST_RULES,
	KEY_OWN_FILE, /* "", or an absolute path */
	KEY_NPLAIN,
	/* In struct settings, see network.c, ruleset.c and paths.c. */
	KEY_ALLOW = KEY_NPLAIN,
	KEY_RULES,
	KEY_SECRETS,
	KEY_PORTS,
	KEY_RO,
	KEY_RW,
	KEY_WORK,
	KEY_CWD, /* see entry.c */
	KEY_ARGV,
};

#define KEY_LIVE    1u /* may be changed while a sandbox runs */
#define KEY_ENDLESS 2u /* 0 means "unlimited", which no limit allows */
#define KEY_FIXED   4u /* set by the configuration file; sessions only show it */
#define KEY_OWN	    8u /* of a session alone: no template has it */

struct key {
	const char *name;
	enum conf_section section;
	enum key_type type;
	size_t offset;
	const char *standard; /* default, or NULL */
	unsigned min, max;
	unsigned flags;
	size_t limit;	      /* offset in struct settings_limits, or 0 */
	const char *words[5]; /* terminated by NULL */
	const char *comment;  /* in `config` */
};

/* The context in which a value is read. */
struct key_context {
	const struct settings_limits *limits; /* NULL: they are checked later */
	bool option; /* on the command line, where paths may be relative to the current directory */
};

/* Its name in brackets, or NULL. */
const char *key_section(enum conf_section section);

/* The key of @section after @k (NULL: the first one), or NULL. */
const struct key *key_next(enum conf_section section, const struct key *k);

#define for_each_key(k, section) \
	for (const struct key *k = key_next((section), NULL); (k); (k) = key_next((section), (k)))

/* The key called @name, or NULL. */
const struct key *key_find(enum conf_section section, const char *name);

/**
 * key_set() - Parse a value and set it
 * @k: Key
 * @base: struct conf or struct settings
 * @value: Text
 * @ctx: Context
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @base unchanged, -ENOMEM.
 */
int key_set(const struct key *k, void *base, const char *value, const struct key_context *ctx,
	    struct problem *why);

/* Appends the value in a form that key_set() accepts. Return: as buf_append(). */
int key_print(const struct key *k, const void *base, struct buf *out);

/* Pointer to the value. Constness is up to the caller, as with strchr(). */
void *key_at(const struct key *k, const void *base);

/* Sets all keys of the sections from @first to @last to their defaults. Return: 0 or -ENOMEM. */
int key_init(enum conf_section first, enum conf_section last, void *base);

/* Frees values of plain types that key_set() has allocated. */
void key_clear(enum conf_section first, enum conf_section last, void *base);

#endif
