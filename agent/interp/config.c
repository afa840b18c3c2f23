/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines and environment of interpreters. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/core/guest_env.h"
#include "agent/core/spawn.h"
#include "agent/core/util.h"

#define NPROC_DEFAULT	   512u
#define NOFILE_DEFAULT	   4096u
#define PACKAGES_VARIABLES 2 /* PYTHONUSERBASE, NODE_PATH */
#define BUN_VARIABLES	   2
#define SEED_VARIABLES	   5
#define USER_PATH	   "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

static const struct language {
	const char *name, *program, *driver;
	const char *compiled; /* runs the driver, already compiled, where there is one; or NULL */
	const char *options[INTERP_OPTIONS];
	bool has_bell;
} languages[] = {
	{"python", "python3", "repl.py", "start.py", {"-s", "-B"}, false},
	/* Bun would obey, and fail over, files of the user's in the working directory. */
	{"javascript",
	 "bun",
	 "repl.mjs",
	 NULL,
	 {"--config=/dev/null", "--no-env-file", "--no-install"},
	 true},
	{"raw", "bash", "repl.sh", NULL, {"--norc", "--noprofile"}, false},
};

static bool str_is(struct proto_str s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

/* On a host, Bun may be anywhere. */
static const char *program_of(const struct guest_env *env, const struct language *l)
{
	const char *bun = env->guest || !l->has_bell ? NULL : getenv("XSBX_BUN");

	return bun ? bun : l->program;
}

const char *interp_program(const struct guest_env *env, struct proto_str language)
{
	for (size_t n = 0; n < ARRAY_SIZE(languages); n++) {
		if (str_is(language, languages[n].name))
			return program_of(env, &languages[n]);
	}
	return NULL;
}

void interp_argv(const struct interp *i, struct interp_argv *ret_argv)
{
	const struct language *l = &languages[i->config->language];
	struct interp_argv *a = ret_argv;
	size_t n = 0;

	memset(a, 0, sizeof(*a));
	a->has_bell = l->has_bell;
	snprintf(a->driver, sizeof(a->driver), "%s/%s", i->env->lib,
		 l->compiled ? l->compiled : l->driver);
	if (l->compiled && access(a->driver, R_OK) < 0)
		snprintf(a->driver, sizeof(a->driver), "%s/%s", i->env->lib, l->driver);
	/* An image from elsewhere has another bash than the one that its driver was made for, or none. */
	snprintf(a->program, sizeof(a->program), "%s/shell/%s", i->env->lib, l->program);
	a->v[n++] = access(a->program, X_OK) == 0 ? a->program : program_of(i->env, l);
	for (size_t k = 0; k < ARRAY_SIZE(l->options) && l->options[k]; k++)
		a->v[n++] = l->options[k];
	a->v[n++] = a->driver;
	a->v[n++] = SPAWN_CTL_WORD;
	if (l->has_bell)
		a->v[n++] = SPAWN_BELL_WORD;
}

static bool variable_ok(const struct proto_env *e)
{
	return e->name.len && !memchr(e->name.data, '=', e->name.len) &&
	       !memchr(e->name.data, '\0', e->name.len) &&
	       !memchr(e->value.data, '\0', e->value.len);
}

static void envp_free(char **envp)
{
	for (size_t n = 0; envp && envp[n]; n++)
		free(envp[n]);
	free(envp);
}

/* Sets NAME=VALUE in @envp, which has room. */
static int envp_set(char **envp, struct proto_str name, struct proto_str value)
{
	char *entry = malloc((size_t)name.len + value.len + 2);
	size_t n = 0;

	if (!entry)
		return -ENOMEM;
	memcpy(entry, name.data, name.len);
	entry[name.len] = '=';
	memcpy(entry + name.len + 1, value.data, value.len);
	entry[name.len + 1 + value.len] = '\0';
	while (envp[n] && strncmp(envp[n], entry, name.len + 1) != 0)
		n++;
	free(envp[n]);
	envp[n] = entry;
	return 0;
}

/* Where interpreters and their children find what was installed. Python takes it for the user's own
 * directory of packages: behind its library, and with what such a directory may say of itself. */
static int envp_packages(char **envp, const char *dir)
{
	char *path = NULL, *modules = NULL;
	const char *before = "";
	int r = -ENOMEM;

	for (size_t n = 0; envp[n]; n++) {
		if (strncmp(envp[n], "PATH=", 5) == 0)
			before = envp[n] + 5;
	}
	if (asprintf(&path, "%s/bin:%s/node_modules/.bin:%s", dir, dir, before) < 0)
		return r;
	if (asprintf(&modules, "%s/node_modules", dir) >= 0) {
		r = envp_set(envp, proto_cstr("PATH"), proto_cstr(path));
		if (r == 0)
			r = envp_set(envp, proto_cstr("PYTHONUSERBASE"), proto_cstr(dir));
		if (r == 0)
			r = envp_set(envp, proto_cstr("NODE_PATH"), proto_cstr(modules));
		free(modules);
	}
	free(path);
	return r;
}

/* Sets what the user has chosen. What would have python3 load files of his before the driver is there
 * goes by another name until it is; see driver.h. */
static int envp_set_user(char **envp, const struct proto_env *e, bool python)
{
	static const char *const early[] = {"PYTHONPATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX"};
	char name[64];

	if (!variable_ok(e))
		return -EINVAL;
	for (size_t n = 0; python && n < ARRAY_SIZE(early); n++) {
		if (!str_is(e->name, early[n]))
			continue;
		snprintf(name, sizeof(name), "XSBX_%s", early[n]);
		return envp_set(envp, proto_cstr(name), e->value);
	}
	return envp_set(envp, e->name, e->value);
}

/* Bun maps more than it uses: for its allocator 128 MiB to begin with, and for what it compiles 1 GiB.
 * Where what a process has mapped is limited, it does not start, or does not compile, so it is told to
 * begin small. */
static int envp_bun(char **envp)
{
	static const char *const small[BUN_VARIABLES][2] = {
		{"MIMALLOC_ARENA_EAGER_COMMIT", "0"},
		{"BUN_JSC_jitMemoryReservationSize", "16777216"},
	};
	struct rlimit data;
	int r = 0;

	if (getrlimit(RLIMIT_DATA, &data) < 0 || data.rlim_cur == RLIM_INFINITY)
		return 0;
	for (size_t n = 0; r == 0 && n < ARRAY_SIZE(small); n++)
		r = envp_set(envp, proto_cstr(small[n][0]), proto_cstr(small[n][1]));
	return r;
}

/*
 * What draws on other things than the kernel's random bytes, and can be told not to: Python and Perl, which hash strings with a
 * seed of their own; OpenSSL's like, which ask the processor (these are the bits for RDRAND and RDSEED); and bash, which
 * begins $RANDOM with the time, but expands this name of a file when it starts, of which there is none.
 */
static int envp_seed(char **envp, uint64_t seed)
{
	char hash[16];
	const char *const set[SEED_VARIABLES][2] = {
		{"PYTHONHASHSEED", hash},
		{"PERL_HASH_SEED", hash},
		{"PERL_PERTURB_KEYS", "DETERMINISTIC"},
		{"OPENSSL_ia32cap", "~0x4000000000000000:~0x40000"},
		{"BASH_ENV", "/nonexistent/$((RANDOM = SRANDOM))"},
	};
	int r = 0;

	(void)snprintf(hash, sizeof(hash), "%u", (unsigned)(uint32_t)(seed ^ seed >> 32));
	for (size_t n = 0; r == 0 && n < ARRAY_SIZE(set); n++)
		r = envp_set(envp, proto_cstr(set[n][0]), proto_cstr(set[n][1]));
	return r;
}

static int envp_new(const struct guest_env *env, const struct proto_setup *s, char ***ret_envp)
{
	const char *const defaults[][2] = {
		{"HOME", env->home},	{"USER", "user"},    {"LOGNAME", "user"},
		{"SHELL", "/bin/bash"}, {"PATH", USER_PATH}, {"LANG", "C.UTF-8"},
		{"TERM", "dumb"},	{"PWD", env->work},
	};
	char **envp = calloc(ARRAY_SIZE(defaults) + PACKAGES_VARIABLES + BUN_VARIABLES +
				     SEED_VARIABLES + PROTO_ENV_MAX + 1,
			     sizeof(*envp));
	int r = envp ? 0 : -ENOMEM;

	for (size_t n = 0; r == 0 && n < ARRAY_SIZE(defaults); n++) {
		const char *value = defaults[n][1];

		/* On a host, programs are where the host has them. */
		if (!env->guest && strcmp(defaults[n][0], "PATH") == 0 && getenv("PATH"))
			value = getenv("PATH");
		r = envp_set(envp, proto_cstr(defaults[n][0]), proto_cstr(value));
	}
	if (r == 0 && env->packages)
		r = envp_packages(envp, env->packages);
	if (r == 0 && str_is(s->language, "javascript"))
		r = envp_bun(envp);
	if (r == 0 && s->exact & PROTO_EXACT_SEED)
		r = envp_seed(envp, s->seed);
	for (uint32_t n = 0; r == 0 && n < s->nenv; n++)
		r = envp_set_user(envp, &s->env[n], str_is(s->language, "python"));
	if (r < 0) {
		envp_free(envp);
		return r;
	}
	*ret_envp = envp;
	return 0;
}

static bool envp_same(char *const *a, char *const *b)
{
	size_t n = 0;

	if (!a || !b)
		return a == b;
	while (a[n] && b[n] && strcmp(a[n], b[n]) == 0)
		n++;
	return !a[n] && !b[n];
}

/* May an interpreter that is started with these execute code that is not its driver's, before any run? */
static bool loads_other(const struct guest_env *env, const struct proto_setup *s)
{
	static const char *const beginnings[] = {"LD_",	 "BASH_ENV",	 "PYTHON",
						 "BUN_", "NODE_OPTIONS", "OPENSSL_"};

	/* What a directory of packages says of itself (*.pth). */
	if (env->packages && str_is(s->language, "python"))
		return true;
	for (uint32_t n = 0; n < s->nenv; n++) {
		const struct proto_str name = s->env[n].name;

		for (size_t k = 0; k < ARRAY_SIZE(beginnings); k++) {
			const size_t len = strlen(beginnings[k]);

			if (name.len >= len && memcmp(name.data, beginnings[k], len) == 0)
				return true;
		}
	}
	return false;
}

int interp_configure(const struct guest_env *env, struct interp_config *c,
		     const struct proto_setup *s, bool *ret_changed)
{
	struct interp_config now = {.language = -1,
				    .nproc = s->nproc ? s->nproc : NPROC_DEFAULT,
				    .nofile = s->nofile ? s->nofile : NOFILE_DEFAULT,
				    .fsize = s->fsize,
				    .seeded = s->exact & PROTO_EXACT_SEED,
				    .seed = s->seed,
				    .chance = c->chance,
				    .loads_other = c->loads_other || loads_other(env, s)};
	int r;

	for (size_t n = 0; n < ARRAY_SIZE(languages); n++) {
		if (str_is(s->language, languages[n].name))
			now.language = (int)n;
	}
	if (now.language < 0)
		return -EINVAL;
	r = envp_new(env, s, &now.envp);
	if (r < 0)
		return r;
	*ret_changed = now.language != c->language || now.nproc != c->nproc ||
		       now.nofile != c->nofile || now.fsize != c->fsize ||
		       now.seeded != c->seeded || now.seed != c->seed ||
		       !envp_same(now.envp, c->envp);
	envp_free(c->envp);
	*c = now;
	return 0;
}

void interp_config_fini(struct interp_config *c)
{
	envp_free(c->envp);
	c->envp = NULL;
}
