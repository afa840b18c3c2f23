/* SPDX-License-Identifier: Apache-2.0 */
/* What a session's network may be used for: rules, and which secrets go where. */
#ifndef XSBX_FS_CONFIG_RULESET_H
#define XSBX_FS_CONFIG_RULESET_H

#include "settings.h"

/*
 * - Both are stored in canonical form: one rule, or use of a secret, behind another, with single blanks between words.
 * - Both are empty unless `network` is on.
 */

/* Which of the two. */
enum ruleset_kind { RULESET_RULES, RULESET_SECRETS };

/* The stored text. */
const char *ruleset_text(const struct settings *s, enum ruleset_kind kind);

/**
 * ruleset_rules() - Set the rules
 * @s: Settings
 * @text: As vm/base/rules.h describes them
 * @len: Its length
 * @limits: Limits; NULL: ruleset_check() will check them
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @s unchanged, -ENOMEM.
 */
int ruleset_rules(struct settings *s, const char *text, size_t len,
		  const struct settings_limits *limits, struct problem *why);

/* Sets which secrets go where, as vm/base/secret_use.h describes it. Return: likewise. */
int ruleset_secrets(struct settings *s, const char *text, size_t len, struct problem *why);

/* Do they go with the network, and are the hosts of rules that allow or ask permitted? Return: 0, -EINVAL, -ENOMEM. */
int ruleset_check(const struct settings *s, const struct settings_limits *limits,
		  struct problem *why);

/**
 * ruleset_may_use() - May somebody use the secrets that are named?
 * @s: Settings
 * @secrets: The administrator's
 * @limits: Limits
 * @uid: Whose session it is
 * @mounter: Who mounts
 * @why: Filled in if it fails
 *
 * Others than the administrator's may be in `secrets_file`, which is read when they are needed.
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int ruleset_may_use(const struct settings *s, const struct vm_secrets *secrets,
		    const struct settings_limits *limits, uid_t uid, uid_t mounter,
		    struct problem *why);

/* Appends the stored text, one a line. Return: as buf_append(). */
int ruleset_render(const struct settings *s, enum ruleset_kind kind, struct buf *out);

#endif
