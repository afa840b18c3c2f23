/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a session: the `config` node, and the defaults of a template. */
#ifndef XSBX_FS_CONFIG_SETTINGS_H
#define XSBX_FS_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "vm/base/buf.h"
#include "vm/vm.h"

#define SETTINGS_ENV_MAX   100	/* variables */
#define SETTINGS_ENV_VALUE 4096 /* bytes of one value */
#define SETTINGS_ENV_BYTES \
	49152 /* of all names and values, so that what is rendered can be parsed */
#define SETTINGS_TEXT_MAX 131072 /* bytes of one `config` write */

/*
 * Owns all that its spec names; a struct of all zeroes may be passed to settings_clear().
 *
 * - What the spec says is what was set. Whose sandbox it is, and what the template's are like, is added when one
 *   is made; so is an interface for ports without a network, and what the host's proxy needs.
 * - `packages` and `allow` of the spec are never NULL after settings_init(); see packages.h, network.h.
 */
struct settings {
	struct sandbox_spec spec;
	unsigned timeout_s;	 /* 0: none */
	unsigned grace_s;	 /* from SIGTERM to SIGKILL at that time */
	unsigned idle_timeout_s; /* 0: never */
	bool fresh;
};

/* What the administrator allows; 0: no limit. */
struct settings_limits {
	bool allow_process, deny_network;
	unsigned max_memory_mb, max_cpus, max_timeout_s, max_grace_s, max_idle_timeout_s;
	unsigned max_processes, max_open_files, max_file_size_mb;
	char *max_allow; /* allow list that no session's may go beyond; NULL: no limit */
	struct vm_host_ports host_ports; /* of this machine, as host.internal */
};

/* The built-in defaults of interface.md. Return: 0 or -ENOMEM. */
int settings_init(struct settings *s);
void settings_clear(struct settings *s);
/* Return: how long its texts are, in all. */
size_t settings_bytes(const struct settings *s);
int settings_copy(struct settings *dst, const struct settings *src);

/**
 * settings_set() - Change one setting
 * @s: Settings
 * @key: As in `config`, e.g. "memory_mb" or "env.LANG"
 * @value: Text
 * @limits: What is allowed, or NULL: settings_fit() follows
 * @ret_why: Filled in if it fails: which key, what is wrong with it, what would be right
 *
 * What goes together only in all, such as `allow` and `network`, is for settings_fit().
 *
 * Return: 0, -EINVAL with @s unchanged, -ENOMEM.
 */
int settings_set(struct settings *s, const char *key, const char *value,
		 const struct settings_limits *limits, struct problem *ret_why);

/**
 * settings_fit() - Hold settings against the limits
 * @s: Settings; a built-in default that is not allowed is lowered to the limit
 * @limits: What is allowed
 * @ret_why: Filled in if it fails
 *
 * Return: 0, -EINVAL if a value that is no default is not allowed, or if those that are right one by one do not
 * fit together; -ENOMEM.
 */
int settings_fit(struct settings *s, const struct settings_limits *limits, struct problem *ret_why);

/**
 * settings_parse() - Apply a whole text of `key = value` lines, `#` comments and empty lines
 * @s: Settings; unchanged unless all of it is right
 * @text: Bytes from a user, not terminated
 * @len: How many
 * @limits: What is allowed
 * @ret_why: Filled in if it fails, names the line
 *
 * A line `unset env.NAME` removes a variable. For what `>` does, parse onto a copy of the template's
 * settings; for `>>`, onto a copy of the session's.
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int settings_parse(struct settings *s, const char *text, size_t len,
		   const struct settings_limits *limits, struct problem *ret_why);

/* All effective values, each with a comment, in a form that settings_parse() takes. */
int settings_render(const struct settings *s, struct buf *out);

/* Do @a and @b differ in something that cannot change while a sandbox runs? If so the name of the first
 * such key ("env" for any variable), else NULL. */
const char *settings_frozen_change(const struct settings *a, const struct settings *b);

#endif
