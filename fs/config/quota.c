/* SPDX-License-Identifier: Apache-2.0 */
/* What users may have, as configured. See quota.h. */
#include "quota.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "key.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"

#define UID_LAST (UINT32_MAX - 1) /* the one behind it means none */

static const struct quota_user *find(const struct quotas *q, uid_t uid)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->user[i].uid == uid)
			return &q->user[i];
	return NULL;
}

const char *quotas_name(const struct quotas *q, uid_t uid)
{
	const struct quota_user *u = find(q, uid);

	return u && !isdigit((unsigned char)*u->name) ? u->name : NULL;
}

struct allowance quotas_of(const struct quotas *q, uid_t uid)
{
	const struct quota_user *u = find(q, uid);
	struct allowance a = q->each;
	unsigned bit = 1;

	if (!u)
		return a;
	for_each_key(k, CONF_QUOTA)
	{
		if (u->may.set & bit && k->type == KEY_SIZE)
			*(uint64_t *)key_at(k, &a) = *(const uint64_t *)key_at(k, &u->may);
		else if (u->may.set & bit)
			*(unsigned *)key_at(k, &a) = *(const unsigned *)key_at(k, &u->may);
		bit <<= 1;
	}
	a.set = u->may.set;
	return a;
}

int allowance_set(struct allowance *a, const char *key, const char *value, struct problem *why)
{
	const struct key_context ctx = {.limits = NULL};
	unsigned bit = 1;
	int r;

	for_each_key(k, CONF_QUOTA)
	{
		if (strcmp(k->name, key) == 0) {
			r = key_set(k, a, value, &ctx, why);
			if (r == 0)
				a->set |= bit;
			return r;
		}
		bit <<= 1;
	}
	return -ENOENT;
}

bool allowance_says(const struct allowance *a, const char *key)
{
	unsigned bit = 1;

	for_each_key(k, CONF_QUOTA)
	{
		if (strcmp(k->name, key) == 0)
			return a->set & bit;
		bit <<= 1;
	}
	return false;
}

/* ---- users ---- */

static int number(const char *name, uid_t *ret_uid)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(name, &end, 10);
	if (errno || *end || n > UID_LAST)
		return -EINVAL;
	*ret_uid = (uid_t)n;
	return 0;
}

static int add(struct quotas *q, const char *name, uid_t uid)
{
	struct quota_user *more;

	more = reallocarray(q->user, q->n + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	q->user = more;
	q->user[q->n] = (struct quota_user){.uid = uid};
	snprintf(q->user[q->n].name, sizeof(q->user->name), "%s", name);
	q->n++;
	return 0;
}

int quotas_know(struct quotas *known, const char *name, uid_t uid)
{
	if (!*name || strlen(name) >= sizeof(known->user->name) || known->n >= QUOTA_USERS_MAX ||
	    uid > UID_LAST)
		return -EINVAL;
	return add(known, name, uid);
}

static int look_up(const char *name, struct quotas *known, uid_t *ret_uid)
{
	const struct passwd *pw;

	if (isdigit((unsigned char)*name))
		return number(name, ret_uid);
	for (size_t i = 0; i < known->n; i++) {
		if (strcmp(known->user[i].name, name) == 0) {
			*ret_uid = known->user[i].uid;
			return 0;
		}
	}
	pw = getpwnam(name);
	if (!pw)
		return -EINVAL;
	*ret_uid = pw->pw_uid;
	return quotas_know(known, name, pw->pw_uid);
}

int quotas_user(struct quotas *q, const char *name, struct quotas *known,
		struct quota_user **ret_user, struct problem *why)
{
	const struct quota_user *u;
	uid_t uid;
	int r = strlen(name) < sizeof(u->name) ? look_up(name, known, &uid) : -EINVAL;

	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		problem_set(why, PROBLEM_INVALID, "Name one that there is, or write the number.",
			    "this host has no user \"%s\"", problem_quote(name).text);
		return -EINVAL;
	}
	u = find(q, uid);
	if (!u && q->n >= QUOTA_USERS_MAX) {
		problem_set(why, PROBLEM_TOO_MANY, "",
			    "more than %u users have a section [quota USER]", QUOTA_USERS_MAX);
		return -EINVAL;
	}
	r = u ? 0 : add(q, name, uid);
	if (r < 0)
		return r;
	*ret_user = &q->user[u ? (size_t)(u - q->user) : q->n - 1];
	return 0;
}

void quotas_clear(struct quotas *q)
{
	free(q->user);
	*q = (struct quotas){0};
}
