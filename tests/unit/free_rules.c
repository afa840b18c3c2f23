/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for spawners of tests: whatever is asked for is done. */
#include "free_rules.h"

#include <errno.h>
#include <string.h>

#include "vm/util.h"

/* Before the strings: arguments, variables, then those of the jail. */
struct head {
	uint32_t flags, nargs, nenv, ntargets, jail_len;
	struct spawn_target target[4];
};

static bool pack_string(char *out, size_t size, size_t *pos, const char *s)
{
	size_t len = strlen(s) + 1;

	if (len > size - *pos)
		return false;
	memcpy(out + *pos, s, len);
	*pos += len;
	return true;
}

static ssize_t pack_jail(const struct jail_spec *spec, char *out, size_t size)
{
	struct jail_spec plain;
	size_t pos = sizeof(plain);

	if (spec->nmounts > JAIL_MOUNTS_MAX || spec->nrlimits > JAIL_RLIMITS_MAX || size < pos)
		return -E2BIG;
	/* Addresses mean nothing there. */
	memcpy(&plain, spec, sizeof(plain));
	plain.host_name = plain.keep = NULL;
	for (uint32_t i = 0; i < spec->nmounts; i++)
		plain.mounts[i].source = plain.mounts[i].target = NULL;
	memcpy(out, &plain, sizeof(plain));
	if (!pack_string(out, size, &pos, spec->host_name) ||
	    !pack_string(out, size, &pos, spec->keep ? spec->keep : ""))
		return -E2BIG;
	for (uint32_t i = 0; i < spec->nmounts; i++) {
		const struct jail_mount *m = &spec->mounts[i];

		if (!pack_string(out, size, &pos, m->source ? m->source : "") ||
		    !pack_string(out, size, &pos, m->target))
			return -E2BIG;
	}
	return (ssize_t)pos;
}

static const char *unpack_string(const char *bytes, size_t len, size_t *pos)
{
	const char *s = bytes + *pos, *nul = *pos < len ? memchr(s, '\0', len - *pos) : NULL;

	if (!nul)
		return NULL;
	*pos = (size_t)(nul - bytes) + 1;
	return s;
}

static int unpack_jail(const char *bytes, size_t len, struct jail_spec *ret_spec)
{
	struct jail_spec spec;
	size_t pos = sizeof(spec);

	if (len < sizeof(spec))
		return -EINVAL;
	memcpy(&spec, bytes, sizeof(spec));
	if (spec.use >= JAIL_NUSES || spec.nmounts > JAIL_MOUNTS_MAX ||
	    spec.nrlimits > JAIL_RLIMITS_MAX)
		return -EINVAL;
	spec.host_name = unpack_string(bytes, len, &pos);
	spec.keep = spec.host_name ? unpack_string(bytes, len, &pos) : NULL;
	for (uint32_t i = 0; spec.keep && i < spec.nmounts; i++) {
		struct jail_mount *m = &spec.mounts[i];

		m->source = unpack_string(bytes, len, &pos);
		m->target = m->source ? unpack_string(bytes, len, &pos) : NULL;
		if (!m->target || m->target[0] != '/' || m->kind >= JAIL_NKINDS)
			return -EINVAL;
	}
	if (!spec.keep || pos != len)
		return -EINVAL;
	*ret_spec = spec;
	return 0;
}

static int unpack(const struct head *h, const char *bytes, size_t len, struct spawn_job *job)
{
	static struct jail_spec jail;
	size_t pos = sizeof(*h);

	for (uint32_t i = 0; i < h->nargs && i < SPAWN_STRINGS_MAX; i++)
		job->argv[i] = unpack_string(bytes, len, &pos);
	for (uint32_t i = 0; i < h->nenv && i < SPAWN_STRINGS_MAX; i++)
		job->envp[i] = unpack_string(bytes, len, &pos);
	job->flags = h->flags;
	job->ntargets = h->ntargets;
	memcpy(job->target, h->target, sizeof(h->target));
	if (!h->jail_len)
		return 0;
	job->jail = &jail;
	return unpack_jail(bytes + pos, h->jail_len, &jail);
}

static int do_anything(const void *data, const void *request, size_t len, size_t nfds,
		       struct spawn_job *ret_job)
{
	struct head h;

	(void)data;
	(void)nfds;
	if (len < sizeof(h))
		return -EBADMSG;
	memcpy(&h, request, sizeof(h));
	return unpack(&h, request, len, ret_job);
}

const struct spawner_rules free_rules = {.job = do_anything};

static bool pack_list(const char *const *list, uint32_t *n, char *out, size_t size, size_t *pos)
{
	for (*n = 0; list[*n]; ++*n) {
		if (!pack_string(out, size, pos, list[*n]))
			return false;
	}
	return true;
}

ssize_t free_pack(const struct free_job *job, char *out, size_t size)
{
	struct head h = {.flags = job->flags, .ntargets = (uint32_t)job->ntargets};
	size_t pos = sizeof(h);
	ssize_t n;

	memcpy(h.target, job->target, sizeof(h.target));
	if (!pack_list(job->argv, &h.nargs, out, size, &pos) ||
	    !pack_list(job->envp, &h.nenv, out, size, &pos))
		return -E2BIG;
	if (job->jail) {
		n = pack_jail(job->jail, out + pos, size - pos);
		if (n < 0)
			return n;
		h.jail_len = (uint32_t)n;
		pos += (size_t)n;
	}
	memcpy(out, &h, sizeof(h));
	return (ssize_t)pos;
}
