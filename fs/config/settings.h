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
	49152 /* of all names and values, so that the rendered text can be parsed */
#define SETTINGS_WARMUP_MAX 4096   /* bytes of code */
#define SETTINGS_TEXT_MAX   196608 /* bytes of a write to `config` */

/* What becomes of a session that nobody has used for long. */
enum idle_action {
	IDLE_AUTO, /* what is usual for its backend */
	IDLE_HIBERNATE,
	IDLE_CLOSE,
};

/* When a session is saved that can't be saved now: runs or jobs of it go on. */
enum save_when {
	SAVE_NOW,  /* never: it is refused */
	SAVE_IDLE, /* when they have ended */
};

#define CHECKPOINTS_MAX 1000u /* of one session, whatever the configuration says */

/*
 * Owns everything that its spec points to; an all-zero struct may be passed to settings_clear().
 *
 * - The spec has the values that were set. Owner and template values are added when a sandbox is made,
 *   as are an interface for ports without a network, and variables for the host's proxy.
 * - `packages` and `allow` of the spec are never NULL after settings_init(), nor are `rules`, `secrets` and `secrets_file` of its
 *   policy; see packages.h, network.h, ruleset.h.
 */
struct settings {
	struct sandbox_spec spec;
	unsigned timeout_s;	 /* 0: none */
	unsigned grace_s;	 /* between SIGTERM at the timeout and SIGKILL */
	unsigned idle_timeout_s; /* 0: never */
	bool fresh;
	bool learn;
	enum idle_action idle;
	unsigned checkpoint_runs; /* automatic checkpoints that are kept */
	enum save_when when;
	char *cwd, *entrypoint; /* of jobs, see entry.h; or NULL */
	char *from;		/* "demo@x": as a copy of what it began; "" */
};

/* The administrator's limits; 0: no limit. */
struct settings_limits {
	bool allow_process, allow_learn, deny_network;
	unsigned max_memory_mb, max_cpus, max_timeout_s, max_grace_s, max_idle_timeout_s;
	unsigned max_processes, max_open_files, max_file_size_mb;
	uint64_t max_net_bytes, max_net_requests, max_net_connections, max_net_rate;
	char *max_allow;   /* sessions' allow lists must be within it; NULL: no limit */
	char *first_rules; /* come before those of any session; or NULL */
	struct vm_host_ports host_ports; /* ports of this machine reachable as host.internal */
};

/* Is it put to sleep when it is idle? */
bool settings_hibernate(const struct settings *s);

/* The built-in defaults, which xsbxfs.conf(5) has. Return: 0 or -ENOMEM. */
int settings_init(struct settings *s);
void settings_clear(struct settings *s);
/* Return: total length of its texts. */
size_t settings_bytes(const struct settings *s);
int settings_copy(struct settings *dst, const struct settings *src);

/**
 * settings_set() - Change one setting
 * @s: Settings
 * @key: As in `config`, e.g. "memory_mb" or "env.LANG"
 * @value: Text
 * @limits: Limits; NULL: settings_fit() will check them
 * @ret_why: Filled in if it fails: the key, what is wrong, and what is valid
 *
 * Combinations of settings, such as `allow` and `network`, are checked by settings_fit().
 *
 * Return: 0, -EINVAL with @s unchanged, -ENOMEM.
 */
int settings_set(struct settings *s, const char *key, const char *value,
		 const struct settings_limits *limits, struct problem *ret_why);

/* Can @name, of env.NAME, be that of a variable? Return: 0 or -EINVAL. */
int settings_check_env_name(const char *name, struct problem *ret_why);

/* Says which keys there are, also those of [template NAME] if @template. Return: -EINVAL. */
int settings_refuse_key(const char *key, bool template, struct problem *ret_why);

/**
 * settings_fit() - Check settings against the limits
 * @s: Settings; a built-in default above the limit is lowered to it
 * @limits: Limits
 * @ret_why: Filled in if it fails
 *
 * Return: 0, -EINVAL if a non-default value exceeds its limit, or if values that are valid individually
 * don't fit together; -ENOMEM.
 */
int settings_fit(struct settings *s, const struct settings_limits *limits, struct problem *ret_why);

/**
 * settings_parse() - Apply a text of `key = value` lines, `#` comments and empty lines
 * @s: Settings; unchanged unless the whole text is valid
 * @text: Bytes from a user, not terminated
 * @len: Number of bytes
 * @limits: Limits; NULL: none, for it is what was allowed once
 * @above: How many lines are above the text, for line numbers
 * @ret_why: Filled in if it fails, names the line
 *
 * A line `unset env.NAME` removes a variable. For the effect of `>`, parse into a copy of the template's
 * settings; for `>>`, into a copy of the session's.
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int settings_parse(struct settings *s, const char *text, size_t len, unsigned above,
		   const struct settings_limits *limits, struct problem *ret_why);

/* Appends all effective values, with comments, in a form that settings_parse() accepts. */
int settings_render(const struct settings *s, struct buf *out);

/* A key as it is written, also "env.NAME". */
struct settings_key {
	char name[192];
};

/* Has a sandbox with these settings an interface? Ports need one, even if no way leads out of it. */
bool settings_wired(const struct settings *s);

/* Of a machine that has neither network nor ports: memory that was saved of it knows no card, and nothing leads there. */
bool settings_lack_card(const struct settings *s);

/* What cannot change while a sandbox runs is as in @of from now on, and all else as it was; but with `network` go
 * `allow` and `ports`, and `ports` also go where @of lacks a card. Return: 0 or -ENOMEM. */
int settings_take_frozen(struct settings *s, const struct settings *of);

/* Do @a and @b differ in a key that cannot change while a sandbox runs? @ret_key: the first such key, if so. */
bool settings_frozen_change(const struct settings *a, const struct settings *b,
			    struct settings_key *ret_key);

#endif
