/* SPDX-License-Identifier: Apache-2.0 */
/* What users may have, as configured: [quota], [quota USER], [quota all]. */
#ifndef XSBX_FS_CONFIG_QUOTA_H
#define XSBX_FS_CONFIG_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define QUOTA_USERS_MAX 1024u

struct problem;

/* 0: no limit. The keys of these sections, see key.c. */
struct allowance {
	unsigned sessions, machines, memory_mb, cpu_s_day, checkpoints;
	uint64_t disk, net_bytes_day;
	unsigned
		set; /* of a user: which of them are said, bits in the order of the keys; the others are as everybody's */
};

struct quota_user {
	char name[65]; /* as it was written: of a user, or a number */
	uid_t uid;
	struct allowance may;
};

/*
 * - `each` is what every user may have of whom nothing else is said. `max_sessions` and `max_vms_user` are other names
 *   for `sessions` and `machines` of it.
 * - `all` is what all together may have. `max_vms` is another name for `machines` of it.
 */
struct quotas {
	struct allowance each, all;
	struct quota_user *user;
	size_t n;
};

/* What @uid may have. */
struct allowance quotas_of(const struct quotas *q, uid_t uid);

/* By what name the configuration knows a user; NULL: by none. */
const char *quotas_name(const struct quotas *q, uid_t uid);

/**
 * quotas_user() - Find the section of a user, or add it
 * @q: Quotas
 * @name: As written: a name or a number
 * @known: Names that were looked up before, as well as this one now: none is looked up again, for what it means may have changed
 * @ret_user: Result; valid until the next call
 * @why: Filled in on failure, unless out of memory
 *
 * Blocks while a name is looked up. Return: 0, -EINVAL, -ENOMEM.
 */
int quotas_user(struct quotas *q, const char *name, struct quotas *known,
		struct quota_user **ret_user, struct problem *why);

/* Adds one without limits of its own, as `known`. Return: 0, -EINVAL, -ENOMEM. */
int quotas_know(struct quotas *known, const char *name, uid_t uid);

/* Is that key said in a user's section? */
bool allowance_says(const struct allowance *a, const char *key);

/* Sets a key of a section. Return: 0, -ENOENT: there is no such key, -EINVAL, -ENOMEM. */
int allowance_set(struct allowance *a, const char *key, const char *value, struct problem *why);

void quotas_clear(struct quotas *q);

#endif
