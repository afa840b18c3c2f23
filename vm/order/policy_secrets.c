/* SPDX-License-Identifier: Apache-2.0 */
/* The administrator's secrets in a policy: where each comes from, and the values of those that come by the environment. */
#include "policy_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vm/base/secret.h"
#include "vm/base/secret_list.h"

/*
 * Theory of operation
 * -------------------
 * Variables are taken out of the environment when the policy is made, in the process from which spawner and daemon are forked:
 * what is left of them then is in one mapping, which all three share. The spawner moves it to memory of its own as soon as it
 * begins, and wipes what is shared; so it is nowhere else, and lives as long as the mount. No child of the spawner's is born with
 * it, but for a copy of the one that it is to hand over.
 */

static size_t whole_pages(size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

static struct vm_secret copy_secret(const struct vm_secret *from, bool *bad)
{
	struct vm_secret to = {
		.name = copy_text(from->name, bad),
		.from = from->from,
		.argument = copy_text(from->argument, bad),
		.hosts = copy_text(from->hosts, bad),
		.refresh_s = from->refresh_s,
	};

	if (!from->nusers)
		return to;
	to.users = calloc(from->nusers, sizeof(*to.users));
	*bad |= !to.users;
	if (!to.users)
		return to;
	memcpy(to.users, from->users, from->nusers * sizeof(*to.users));
	to.nusers = from->nusers;
	return to;
}

/* Another secret may come by the same variable. */
static const struct sealed_value *find_value(const struct policy *p, const char *variable)
{
	for (size_t i = 0; i < p->secrets.n; i++)
		if (p->value[i].len && !strcmp(p->secrets.secret[i].argument, variable))
			return &p->value[i];
	return NULL;
}

/* Moves values that were @used bytes to a mapping of @size. */
static bool move_values(struct policy *p, size_t used, size_t size, int sharing)
{
	char *to = mmap(NULL, size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);

	if (to == MAP_FAILED)
		return false;
	(void)madvise(to, size, MADV_DONTDUMP);
	(void)mlock(to, size);
	if (p->values) {
		memcpy(to, p->values, used);
		explicit_bzero(p->values, p->values_size);
		munmap(p->values, p->values_size);
	}
	p->values = to;
	p->values_size = size;
	return true;
}

static void take_variable(struct policy *p, size_t i, bool *bad)
{
	const char *const variable = p->secrets.secret[i].argument;
	const struct sealed_value *before = find_value(p, variable);
	const size_t used = p->values_used;
	char *value;
	size_t len;

	if (before) {
		p->value[i] = *before;
		return;
	}
	value = secret_take(variable);
	if (!value)
		return;
	len = strlen(value) + 1;
	if (used + len > p->values_size &&
	    !move_values(p, used, whole_pages(2 * (used + len)), MAP_SHARED)) {
		*bad = true;
	} else {
		memcpy(p->values + used, value, len);
		p->value[i] = (struct sealed_value){used, len};
		p->values_used += len;
	}
	explicit_bzero(value, len);
	free(value);
}

void policy_seal_secrets(struct policy *p, const struct vm_secrets *from, bool *bad)
{
	p->secrets.secret = calloc(from->n + 1, sizeof(*p->secrets.secret));
	p->value = calloc(from->n + 1, sizeof(*p->value));
	if (!p->secrets.secret || !p->value) {
		*bad = true;
		return;
	}
	for (size_t i = 0; i < from->n; i++, p->secrets.n++) {
		p->secrets.secret[i] = copy_secret(&from->secret[i], bad);
		if (!*bad && from->secret[i].from == VM_SECRET_ENV)
			take_variable(p, i, bad);
	}
}

void policy_free_secrets(struct policy *p)
{
	policy_forget(p);
	secret_list_fini(&p->secrets);
	free(p->value);
}

void policy_forget(struct policy *p)
{
	if (!p->values)
		return;
	explicit_bzero(p->values, p->values_size);
	munmap(p->values, p->values_size);
	p->values = NULL;
	for (size_t i = 0; i < p->secrets.n; i++)
		p->value[i].len = 0;
}

void policy_settle(const void *policy)
{
	struct policy *p =
		(struct policy *)policy; /* nobody else has it: the spawner was forked with it */

	if (p->values && (!move_values(p, p->values_used, p->values_size, MAP_PRIVATE) ||
			  madvise(p->values, p->values_size, MADV_WIPEONFORK) < 0))
		policy_forget(p);
}

const struct vm_secret *policy_secret(const struct policy *p, const char *name,
				      const char **ret_value)
{
	for (size_t i = 0; i < p->secrets.n; i++) {
		if (strcmp(p->secrets.secret[i].name, name) != 0)
			continue;
		*ret_value = p->value[i].len ? p->values + p->value[i].at : NULL;
		return &p->secrets.secret[i];
	}
	return NULL;
}
