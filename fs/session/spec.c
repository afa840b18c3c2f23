/* SPDX-License-Identifier: Apache-2.0 */
/* What sandbox a session wants, or a template. */
#include "spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs.h"
#include "fs/config/network.h"
#include "session.h"

/* The variables of @st, and those that go with a network. Return: how many. */
static size_t list_env(const struct fs *fs, const struct settings *st, bool network,
		       struct sandbox_env env[SPEC_ENV_MAX])
{
	for (size_t i = 0; i < st->nenv; i++)
		env[i] = (struct sandbox_env){st->env[i].name, st->env[i].value};
	return netenv_add(&fs->netenv, st, network, env, st->nenv);
}

/* Does a sandbox with these settings have an interface? Ports need one, even if no way leads out of it. */
static bool is_wired(const struct settings *st)
{
	return st->network || *st->ports;
}

/* Does it differ from its template in size or backend, or in having a network? */
static bool is_odd(const struct settings *s, const struct settings *base)
{
	return is_wired(s) != is_wired(base) || s->backend != base->backend ||
	       s->memory_mb != base->memory_mb || s->cpus != base->cpus;
}

/* What follows from the template @t and settings @st of a sandbox of it. Return: 0 or -errno. */
static int fill(struct spec *spec, const struct fs *fs, const struct conf_template *t,
		const struct settings *st)
{
	const struct settings *base = &t->settings;
	const int e = paths_init(&spec->paths, st);

	spec->sandbox = (struct sandbox_spec){
		.name = t->name,
		.image = t->image,
		.language = t->language,
		.backend = st->backend == SETTINGS_PROCESS ? VM_PROCESS : VM_MICROVM,
		.memory_mb = st->memory_mb,
		.cpus = st->cpus,
		.paths = spec->paths.path,
		.npaths = spec->paths.n,
		.image_view = *st->view != '\0',
		.work = *st->work ? st->work : NULL,
		.template_env = spec->template_env,
		.ntemplate_env = list_env(fs, base, st->network, spec->template_env),
		.template_limits = base->limits,
		.packages = st->packages,
		/* The template's warm-up is for the template's packages. */
		.warmup = strcmp(base->packages, st->packages) == 0 ? t->warmup : NULL,
		.pool = t->pool,
		.network = is_wired(st),
		.ports = spec->ports,
		.nports = netset_list_ports(st->ports, spec->ports),
	};
	return e;
}

int spec_of_session(struct spec *spec, const struct session *s)
{
	const struct settings *st = &s->settings;
	const int e = fill(spec, s->fs, s->t, st);
	struct sandbox_spec *sandbox = &spec->sandbox;

	spec->allow = netenv_allow(&s->fs->netenv, st);
	snprintf(spec->name, sizeof(spec->name), "%s-%s", s->t->name, s->name);
	sandbox->name = spec->name;
	sandbox->owner = s->uid;
	sandbox->group = s->gid;
	sandbox->env = spec->env;
	sandbox->nenv = list_env(s->fs, st, st->network, spec->env);
	sandbox->limits = st->limits;
	sandbox->allow = spec->allow;
	sandbox->odd = is_odd(st, &s->t->settings);
	return e < 0 || !spec->allow ? -ENOMEM : 0;
}

void spec_clear(struct spec *spec)
{
	paths_clear(&spec->paths);
	free(spec->allow);
	spec->allow = NULL;
}

/* Is it for whoever begins the session, and nobody knows now who that will be? */
static bool is_owners(const struct conf *conf, const struct settings *st)
{
	return conf->allow_other && geteuid() == 0 && (*st->rw || *st->work);
}

void spec_prepare(struct fs *fs)
{
	for (size_t i = 0; i < fs->conf->ntemplates; i++) {
		const struct conf_template *t = &fs->conf->template[i];
		struct spec spec = {0};
		const int e = fill(&spec, fs, t, &t->settings);

		spec.sandbox.owner = geteuid();
		spec.sandbox.group = getegid();
		spec.sandbox.allow = t->settings.allow;
		if (t->prepare && e == 0 && !is_owners(fs->conf, &t->settings))
			vm_prepare(fs->vm, &spec.sandbox);
		spec_clear(&spec);
	}
}
