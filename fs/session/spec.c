/* SPDX-License-Identifier: Apache-2.0 */
/* The spec of the sandbox that a session needs, or a template. */
#include "spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs.h"
#include "fs/config/learn.h"
#include "session.h"

/* The variables of @st, and those that go with a network. Return: how many. */
static size_t list_env(const struct fs *fs, const struct settings *st,
		       struct sandbox_env env[SPEC_ENV_MAX])
{
	const struct sandbox_spec *spec = &st->spec;

	if (spec->nenv)
		memcpy(env, spec->env, spec->nenv * sizeof(*env));
	return netenv_add(&fs->netenv, spec, env, spec->nenv);
}

/* What is done before its first run. A template's code is for the template's packages: a session that has others, and
 * no code of its own, has these imported. For processes nothing is imported ahead, as they share no memory. */
static const char *warmup_of(const struct settings *s, const struct settings *base)
{
	const bool packed = *s->spec.packages && s->spec.backend != VM_PROCESS;
	const char *code = spec_warmup_code(&s->spec);

	if (code && (strcmp(s->spec.packages, base->spec.packages) == 0 ||
		     strcmp(code, base->spec.warmup) != 0))
		return code;
	return packed && (code || strcmp(s->spec.warmup, SPEC_WARMUP_AUTO) == 0) ? SPEC_WARMUP_AUTO
										 : "";
}

/* Does it differ from its template in size, backend, packages or warm-up, or in having a network? */
static bool is_ad_hoc(const struct settings *s, const struct settings *base)
{
	return strcmp(s->spec.packages, base->spec.packages) != 0 ||
	       strcmp(warmup_of(s, base), warmup_of(base, base)) != 0 ||
	       settings_wired(s) != settings_wired(base) || s->spec.backend != base->spec.backend ||
	       s->learn != base->learn || s->spec.memory_mb != base->spec.memory_mb ||
	       s->spec.cpus != base->spec.cpus;
}

/* Fills in what depends only on the settings @st, and those of the template, @base. */
static void fill(struct spec *spec, const struct fs *fs, const struct settings *base,
		 const struct settings *st)
{
	struct sandbox_spec *sandbox = &spec->sandbox;

	*sandbox = st->spec;
	sandbox->template_env = spec->template_env;
	sandbox->ntemplate_env = list_env(fs, base, spec->template_env);
	sandbox->template_limits = base->spec.limits;
	if (st->learn && st->spec.backend == VM_PROCESS && fs->conf->limits.allow_learn) {
		sandbox->learn = true;
		sandbox->npaths = learn_view(&st->spec, &fs->conf->learn, spec->paths);
		sandbox->paths = spec->paths;
	}
	sandbox->network = settings_wired(st);
	sandbox->warmup = warmup_of(st, base);
}

int spec_of_session(struct spec *spec, const struct session *s)
{
	const struct settings *st = &s->settings, *base = &s->t->settings;
	const struct run *first = TAILQ_FIRST(&s->queue);
	struct sandbox_spec *sandbox = &spec->sandbox;

	fill(spec, s->fs, base, st);
	spec->allow = network_list(s, st);
	snprintf(spec->name, sizeof(spec->name), "%s-%s", s->t->name,
		 s->rerun ? s->rerun->name : s->name);
	sandbox->name = spec->name;
	sandbox->label =
		(struct log_label){s->path, first ? first->number : 0, first ? first->began : 0};
	sandbox->owner = s->uid;
	sandbox->group = s->gid;
	sandbox->env = spec->env;
	sandbox->nenv = list_env(s->fs, st, spec->env);
	sandbox->allow = spec->allow;
	sandbox->policy = network_policy(s, st);
	sandbox->before = s->runs_before;
	sandbox->ad_hoc = is_ad_hoc(st, base);
	return spec->allow ? 0 : -ENOMEM;
}

void spec_clear(struct spec *spec)
{
	free(spec->allow);
	spec->allow = NULL;
}

/* Does it write to the host as the session's owner, who is not known before there is a session? */
static bool is_owners(const struct conf *conf, const struct settings *st)
{
	bool writes = st->spec.work;

	for (size_t i = 0; i < st->spec.npaths; i++)
		writes = writes || st->spec.paths[i].write;
	return conf->allow_other && geteuid() == 0 && writes;
}

void spec_prepare(struct fs *fs)
{
	for (size_t i = 0; i < fs->conf->ntemplates; i++) {
		const struct conf_template *t = &fs->conf->template[i];
		struct spec spec;

		if (!t->prepare || is_owners(fs->conf, &t->settings))
			continue;
		fill(&spec, fs, &t->settings, &t->settings);
		spec.sandbox.name = t->name;
		spec.sandbox.owner = geteuid();
		spec.sandbox.group = getegid();
		vm_prepare(fs->vm, &spec.sandbox);
	}
}
