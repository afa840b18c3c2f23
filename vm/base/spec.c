/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a sandbox: copying, comparing, freeing. */
#include "spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/protocol.h"
#include "util.h"

#define ENV_NAME_MAX  256u
#define ENV_VALUE_MAX 4096u

const char *spec_backend_str(enum vm_backend backend)
{
	static const char *const names[VM_NBACKENDS] = VM_BACKEND_NAMES;

	return names[backend];
}

const char *spec_warmup_code(const struct sandbox_spec *s)
{
	return s->warmup && *s->warmup && strcmp(s->warmup, SPEC_WARMUP_AUTO) != 0 &&
			       strcmp(s->warmup, SPEC_WARMUP_OFF) != 0
		       ? s->warmup
		       : NULL;
}

/* ---- copies ---- */

static char *text(const char *from, bool *bad)
{
	char *copy = strdup(from ? from : "");

	*bad = *bad || !copy;
	return copy;
}

/* One element more than is needed, so that nothing is NULL but for want of memory. */
static void *array(size_t n, size_t size, bool *bad)
{
	void *copy = calloc(n + 1, size);

	*bad = *bad || !copy;
	return copy;
}

static int check(const struct sandbox_spec *s)
{
	if (s->nenv > PROTO_ENV_MAX || s->npaths > VM_PATHS_MAX || s->nports > SANDBOX_PORTS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < s->nenv; i++)
		if (strlen(s->env[i].name) > ENV_NAME_MAX ||
		    strlen(s->env[i].value) > ENV_VALUE_MAX)
			return -E2BIG;
	return 0;
}

static void copy_env(struct sandbox_spec *dst, const struct sandbox_spec *src, bool *bad)
{
	struct sandbox_env *env = array(src->nenv, sizeof(*env), bad);

	dst->env = env;
	for (; env && dst->nenv < src->nenv; dst->nenv++) {
		const struct sandbox_env *from = &src->env[dst->nenv];

		env[dst->nenv] =
			(struct sandbox_env){text(from->name, bad), text(from->value, bad)};
	}
}

static void copy_paths(struct sandbox_spec *dst, const struct sandbox_spec *src, bool *bad)
{
	struct vm_path *path = array(src->npaths, sizeof(*path), bad);

	dst->paths = path;
	for (; path && dst->npaths < src->npaths; dst->npaths++) {
		const struct vm_path *from = &src->paths[dst->npaths];

		path[dst->npaths] = (struct vm_path){text(from->source, bad),
						     text(from->target, bad), from->write};
	}
}

static void copy_ports(struct sandbox_spec *dst, const struct sandbox_spec *src, bool *bad)
{
	struct sandbox_port *ports = array(src->nports, sizeof(*ports), bad);

	dst->ports = ports;
	for (; ports && dst->nports < src->nports; dst->nports++)
		ports[dst->nports] = src->ports[dst->nports];
}

int spec_copy(struct sandbox_spec *dst, const struct sandbox_spec *src)
{
	struct sandbox_spec s = *src;
	bool bad = false;
	int r = check(src);

	if (r < 0)
		return r;
	s.name = strndup(src->name ? src->name : "", SANDBOX_NAME_MAX);
	bad = !s.name;
	s.label.who = text(src->label.who, &bad);
	s.image = text(src->image, &bad);
	s.language = text(src->language, &bad);
	s.packages = text(src->packages, &bad);
	s.warmup = text(src->warmup, &bad);
	s.allow = text(src->allow, &bad);
	s.policy.first = text(src->policy.first, &bad);
	s.policy.rules = text(src->policy.rules, &bad);
	s.policy.secrets = text(src->policy.secrets, &bad);
	s.policy.secrets_file = text(src->policy.secrets_file, &bad);
	s.seed = text(src->seed, &bad);
	s.clock = text(src->clock, &bad);
	s.work = src->work ? text(src->work, &bad) : NULL;
	s.cpus = MAX(src->cpus, 1u);
	s.nenv = s.npaths = s.nports = s.ntemplate_env = 0;
	s.template_env = NULL; /* it was for spec_copy_kind() */
	copy_env(&s, src, &bad);
	copy_paths(&s, src, &bad);
	copy_ports(&s, src, &bad);
	if (bad) {
		spec_free(&s);
		return -ENOMEM;
	}
	*dst = s;
	return 0;
}

int spec_copy_kind(struct sandbox_spec *dst, const struct sandbox_spec *src)
{
	struct sandbox_spec s = *src;

	s.name = src->image;
	s.label = (struct log_label){.who = src->image};
	s.env = src->template_env;
	s.nenv = src->ntemplate_env;
	s.limits = src->template_limits;
	s.allow = s.seed = s.clock = NULL;
	s.policy = (struct net_policy){0};
	s.before = 0;
	s.nports = 0;
	return spec_copy(dst, &s);
}

void spec_free(struct sandbox_spec *s)
{
	const char *const texts[] = {s->name,	      s->label.who,	 s->image,
				     s->language,     s->packages,	 s->warmup,
				     s->allow,	      s->work,		 s->policy.first,
				     s->policy.rules, s->policy.secrets, s->policy.secrets_file,
				     s->seed,	      s->clock};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free((char *)texts[i]);
	for (size_t i = 0; i < s->nenv; i++) {
		free((char *)s->env[i].name);
		free((char *)s->env[i].value);
	}
	for (size_t i = 0; i < s->npaths; i++) {
		free((char *)s->paths[i].source);
		free((char *)s->paths[i].target);
	}
	free((void *)s->env);
	free((void *)s->paths);
	free((void *)s->ports);
	*s = (struct sandbox_spec){.name = NULL};
}

/* ---- kinds ---- */

static bool same(const char *have, const char *wanted)
{
	return strcmp(have, wanted ? wanted : "") == 0;
}

static bool same_env(const struct sandbox_spec *kind, const struct sandbox_spec *spec)
{
	if (kind->nenv != spec->ntemplate_env)
		return false;
	for (size_t i = 0; i < kind->nenv; i++) {
		if (strcmp(kind->env[i].name, spec->template_env[i].name) != 0 ||
		    strcmp(kind->env[i].value, spec->template_env[i].value) != 0)
			return false;
	}
	return true;
}

static bool same_view(const struct sandbox_spec *kind, const struct sandbox_spec *spec)
{
	bool owned = kind->work;

	if (kind->install || spec->install || kind->image_view != spec->image_view ||
	    kind->npaths != spec->npaths || !kind->work != !spec->work ||
	    (kind->work && strcmp(kind->work, spec->work) != 0))
		return false;
	for (size_t i = 0; i < kind->npaths; i++) {
		const struct vm_path *a = &kind->paths[i], *b = &spec->paths[i];

		if (strcmp(a->source, b->source) != 0 || strcmp(a->target, b->target) != 0 ||
		    a->write != b->write)
			return false;
		owned = owned || a->write;
	}
	/* What may be written is written with its owner's rights, which are given at the start. */
	return !owned || (kind->owner == spec->owner && kind->group == spec->group);
}

bool spec_is_kind(const struct sandbox_spec *kind, const struct sandbox_spec *spec)
{
	return kind->backend == spec->backend && kind->memory_mb == spec->memory_mb &&
	       kind->cpus == MAX(spec->cpus, 1u) && kind->network == spec->network &&
	       kind->root == spec->root && kind->learn == spec->learn &&
	       same(kind->image, spec->image) && same(kind->language, spec->language) &&
	       same_env(kind, spec) &&
	       memcmp(&kind->limits, &spec->template_limits, sizeof(kind->limits)) == 0 &&
	       same(kind->packages, spec->packages) && same(kind->warmup, spec->warmup) &&
	       same_view(kind, spec);
}
