/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a session: checking them individually and together, parsing and printing them. */
#include "settings.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "key.h"
#include "network.h"
#include "paths.h"
#include "ruleset.h"
#include "value.h"
#include "vm/base/exact.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"

/* ---- variables: env.NAME ---- */

#define NAME_BYTES 128 /* most bytes of a name */

static bool env_name_ok(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > NAME_BYTES || isdigit((unsigned char)*name))
		return false;
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
	       len;
}

/* A spec does not change what it only names; this one's variables are its own. */
static struct sandbox_env *env_find(const struct sandbox_spec *s, const char *name)
{
	for (size_t i = 0; i < s->nenv; i++) {
		if (strcmp(s->env[i].name, name) == 0)
			return (struct sandbox_env *)&s->env[i];
	}
	return NULL;
}

/* How long names and values are, in all. */
static size_t env_bytes(const struct sandbox_spec *s)
{
	size_t sum = 0;

	for (size_t i = 0; i < s->nenv; i++)
		sum += strlen(s->env[i].name) + strlen(s->env[i].value);
	return sum;
}

int settings_check_env_name(const char *name, struct problem *why)
{
	if (env_name_ok(name))
		return 0;
	return problem_set(
		why, PROBLEM_INVALID,
		"Use letters, digits and underscores, and no digit first, e.g. env.LANG.",
		"env.%s: not a name for a variable", problem_quote(name).text);
}

/* One pair of double quotes around a value keeps the blanks at its ends; nothing is escaped. */
static bool is_quoted(const char *value, size_t len)
{
	return len >= 2 && value[0] == '"' && value[len - 1] == '"';
}

static int check_env_value(const struct sandbox_spec *s, const struct sandbox_env *old,
			   const char *name, const char *value, size_t len, struct problem *why)
{
	size_t before = old ? strlen(old->name) + strlen(old->value) : 0;

	if (len > SETTINGS_ENV_VALUE)
		return problem_set(why, PROBLEM_TOO_LONG, "Write at most 4096 bytes.",
				   "env.%s: the value has %zu bytes", name, len);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)value[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return problem_set(why, PROBLEM_INVALID,
					   "Leave out control characters other than tabs.",
					   "env.%s: the value holds a control character (%#04x)",
					   name, c);
	}
	if (!old && s->nenv >= SETTINGS_ENV_MAX)
		return problem_set(why, PROBLEM_TOO_MANY, "Remove one with: unset env.NAME",
				   "env.%s: there are %d variables already, which is the most",
				   name, SETTINGS_ENV_MAX);
	if (env_bytes(s) - before + strlen(name) + len > SETTINGS_ENV_BYTES)
		return problem_set(
			why, PROBLEM_TOO_LONG,
			"Put large data into a file below files/ instead of the environment.",
			"env.%s: all variables together may have %d bytes", name,
			SETTINGS_ENV_BYTES);
	return 0;
}

static int env_add(struct sandbox_spec *s, const char *name, char *value)
{
	struct sandbox_env *grown = reallocarray((void *)s->env, s->nenv + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	s->env = grown;
	grown[s->nenv] = (struct sandbox_env){strdup(name), value};
	if (!grown[s->nenv].name)
		return -ENOMEM;
	s->nenv++;
	return 0;
}

/* Adds a variable, or gives it another value. Return: 0, -EINVAL with @s unchanged, -ENOMEM. */
static int env_set(struct sandbox_spec *s, const char *name, const char *value, struct problem *why)
{
	size_t len = strlen(value);
	struct sandbox_env *old;
	char *copy;
	int r;

	r = settings_check_env_name(name, why);
	if (r < 0)
		return r;
	if (is_quoted(value, len)) {
		value++;
		len -= 2;
	}
	old = env_find(s, name);
	r = check_env_value(s, old, name, value, len, why);
	if (r < 0)
		return r;
	copy = strndup(value, len);
	if (!copy)
		return -ENOMEM;
	if (old) {
		free((char *)old->value);
		old->value = copy;
		return 0;
	}
	r = env_add(s, name, copy);
	if (r < 0)
		free(copy);
	return r;
}

/* Removes the variable @key, written "env.NAME". Removing what is not there is no error: the result is what was
 * asked for. */
static int env_unset(struct sandbox_spec *s, const char *key, struct problem *why)
{
	struct sandbox_env *e;
	int r;

	if (strncmp(key, "env.", 4) != 0)
		return problem_set(why, PROBLEM_INVALID,
				   "Write unset env.NAME, or set the key to its default.",
				   "unset: \"%s\" is not a variable", problem_quote(key).text);
	r = settings_check_env_name(key + 4, why);
	if (r < 0)
		return r;
	e = env_find(s, key + 4);
	if (!e)
		return 0;
	free((char *)e->name);
	free((char *)e->value);
	s->nenv--;
	memmove(e, e + 1, (size_t)(s->env + s->nenv - e) * sizeof(*e));
	return 0;
}

/* Would the value change if it stood there as it is? */
static bool needs_quotes(const char *value)
{
	size_t len = strlen(value);

	return len > 0 &&
	       (is_quoted(value, len) || strchr(" \t", value[0]) || strchr(" \t", value[len - 1]));
}

static int env_render(const struct sandbox_spec *s, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < s->nenv && r >= 0; i++) {
		const char *q = needs_quotes(s->env[i].value) ? "\"" : "";

		r = buf_printf(out, "env.%s = %s%s%s\n", s->env[i].name, q, s->env[i].value, q);
	}
	return r;
}

/* Return: the first variable of @a that @b does not have, or with another value; NULL if there is none. */
static const struct sandbox_env *env_other(const struct sandbox_spec *a,
					   const struct sandbox_spec *b)
{
	for (size_t i = 0; i < a->nenv; i++) {
		const struct sandbox_env *e = env_find(b, a->env[i].name);

		if (!e || strcmp(e->value, a->env[i].value) != 0)
			return &a->env[i];
	}
	return NULL;
}

/* ---- all of them ---- */

int settings_init(struct settings *s)
{
	*s = (struct settings){0};
	if (key_init(CONF_TEMPLATE, CONF_SESSION, s) == 0)
		return 0;
	settings_clear(s);
	return -ENOMEM;
}

void settings_clear(struct settings *s)
{
	spec_free(&s->spec);
	free(s->from);
	free(s->cwd);
	free(s->entrypoint);
	*s = (struct settings){0};
}

int settings_copy(struct settings *dst, const struct settings *src)
{
	struct settings copy = *src;
	int r = spec_copy(&copy.spec, &src->spec);

	if (r < 0)
		return r;
	copy.from = strdup(src->from ? src->from : "");
	copy.cwd = src->cwd ? strdup(src->cwd) : NULL;
	copy.entrypoint = src->entrypoint ? strdup(src->entrypoint) : NULL;
	if (!copy.from || (src->cwd && !copy.cwd) || (src->entrypoint && !copy.entrypoint)) {
		settings_clear(&copy);
		return -ENOMEM;
	}
	*dst = copy;
	return 0;
}

bool settings_hibernate(const struct settings *s)
{
	if (s->fresh || s->spec.work)
		return false; /* nothing of it is saved */
	return s->idle == IDLE_HIBERNATE || (s->idle == IDLE_AUTO && s->spec.backend == VM_MICROVM);
}

size_t settings_bytes(const struct settings *s)
{
	const struct sandbox_spec *spec = &s->spec;
	const char *const texts[] = {spec->packages,
				     spec->allow,
				     spec->policy.rules,
				     spec->policy.secrets,
				     spec->policy.secrets_file,
				     spec->warmup,
				     spec->seed,
				     spec->clock,
				     s->cwd,
				     s->entrypoint};
	size_t n = env_bytes(spec);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		n += texts[i] ? strlen(texts[i]) : 0;
	return n;
}

/* ---- one setting ---- */

int settings_refuse_key(const char *key, bool template, struct problem *ret_why)
{
	problem_set(ret_why, PROBLEM_UNKNOWN_KEY, "The keys are ", "there is no setting \"%s\"",
		    problem_quote(key).text);
	for_each_key(k, CONF_TEMPLATE)
	{
		if (template)
			problem_add_fix(ret_why, "%s, ", k->name);
	}
	for_each_key(k, CONF_SESSION)
	{
		if (!(k->flags & (template ? KEY_OWN : KEY_FIXED)))
			problem_add_fix(ret_why, "%s, ", k->name);
	}
	problem_add_fix(ret_why, "and env.NAME.");
	return -EINVAL;
}

/* Is @text how @k's value is written? Return: false also if out of memory. */
static bool reads(const struct settings *s, const struct key *k, const char *text)
{
	struct buf now = {0};
	const char *written = key_print(k, s, &now) == 0 ? buf_str(&now) : NULL;
	const bool same = written && strcmp(written, text) == 0;

	buf_clear(&now);
	return same;
}

int settings_set(struct settings *s, const char *key, const char *value,
		 const struct settings_limits *limits, struct problem *ret_why)
{
	const struct key_context ctx = {.limits = limits};
	const struct key *k = key_find(CONF_SESSION, key);

	if (strncmp(key, "env.", 4) == 0)
		return env_set(&s->spec, key + 4, value, ret_why);
	if (!k)
		return settings_refuse_key(key, false, ret_why);
	/* What was read can be written back. */
	if (k->flags & KEY_FIXED)
		return reads(s, k, value)
			       ? 0
			       : problem_set(ret_why, PROBLEM_NOT_ALLOWED,
					     "Ask the administrator for a template that has it.",
					     "%s: only the configuration file can change it",
					     k->name);
	return key_set(k, s, value, &ctx, ret_why);
}

/* ---- what goes together ---- */

/* What is in files/ is in memory, and programs need some of that, too. */
static int check_room(const struct sandbox_spec *s, struct problem *why)
{
	if (s->limits.files_mb <= s->memory_mb / 4 * 3)
		return 0;
	return problem_set(why, PROBLEM_INVALID, "Write less files_mb, or more memory_mb.",
			   "files_mb: %u is more than three quarters of memory_mb, which is %u",
			   s->limits.files_mb, s->memory_mb);
}

static int check_root(const struct sandbox_spec *s, struct problem *why)
{
	return !s->root || s->backend == VM_MICROVM
		       ? 0
		       : problem_set(why, PROBLEM_NOT_HERE, "Write backend = microvm.",
				     "root: this is for a microvm, and not for processes");
}

static int check_warmup(const struct sandbox_spec *s, struct problem *why)
{
	const size_t len = s->warmup ? strlen(s->warmup) : 0;

	return len <= SETTINGS_WARMUP_MAX
		       ? 0
		       : problem_set(why, PROBLEM_TOO_LONG,
				     "Write at most 4096 bytes; put what is longer into a package.",
				     "warmup: the code has %zu bytes", len);
}

static int check_seed(const struct sandbox_spec *s, struct problem *why)
{
	uint64_t seed;
	const int r = exact_seed(s->seed, &seed);

	if (r < 0)
		return problem_set(why, PROBLEM_INVALID, "Write a number below 2^64, in decimal.",
				   "seed: \"%s\" is none", problem_quote(s->seed).text);
	/* Its interpreter is started anew, for the snapshot's had no seed. */
	if (r > 0 && spec_warmup_code(s))
		return problem_set(why, PROBLEM_INVALID, "Write warmup = auto, or leave seed out.",
				   "seed: what the code of warmup leaves is part of a snapshot, of "
				   "which a session with a seed has no interpreter");
	return 0;
}

static int check_clock(const struct sandbox_spec *s, struct problem *why)
{
	uint64_t ns;
	bool fixed;
	const int r = exact_clock(s->clock, &ns, &fixed);

	if (r < 0)
		return problem_set(why, PROBLEM_INVALID,
				   "Write a time of UTC from 1980 to 2199, as 2026-01-01T00:00:00, "
				   "and running or fixed behind it, if you like.",
				   "clock: \"%s\" is none", problem_quote(s->clock).text);
	if (r > 0 && s->backend == VM_PROCESS)
		return problem_set(why, PROBLEM_NOT_HERE,
				   "Write backend = microvm, or leave clock out.",
				   "clock: processes have the clock of this host, which they can't "
				   "have set");
	return 0;
}

/* Do settings that are right one by one fit together, and are they allowed? */
static int check_all(const struct settings *s, const struct settings_limits *limits,
		     struct problem *why)
{
	int r = 0;

	if (limits && s->spec.backend == VM_PROCESS && !limits->allow_process)
		r = problem_set(why, PROBLEM_NOT_ALLOWED,
				"Write backend = microvm, or ask the administrator for "
				"allow_process = yes.",
				"backend: processes of this host are not allowed here");
	if (r == 0 && limits && s->learn && !limits->allow_learn)
		r = problem_set(why, PROBLEM_NOT_ALLOWED,
				"Ask the administrator for allow_learn = yes.",
				"learn: that is not allowed here");
	if (r == 0 && s->learn && s->spec.backend == VM_PROCESS && *s->spec.seed)
		r = problem_set(
			why, PROBLEM_INVALID, "Leave out one of them.",
			"learn: a process can't be watched for what it uses, and have a seed");
	if (r == 0)
		r = check_room(&s->spec, why);
	if (r == 0)
		r = check_root(&s->spec, why);
	if (r == 0)
		r = check_warmup(&s->spec, why);
	if (r == 0)
		r = check_seed(&s->spec, why);
	if (r == 0)
		r = check_clock(&s->spec, why);
	if (r == 0)
		r = netset_check(s, limits, why);
	if (r == 0)
		r = ruleset_check(s, limits, why);
	return r < 0 ? r : paths_fit(&s->spec, why);
}

int settings_fit(struct settings *s, const struct settings_limits *limits, struct problem *ret_why)
{
	for_each_key(k, CONF_SESSION)
	{
		int r = k->limit ? value_fit(k, key_at(k, s), limits, ret_why) : 0;

		if (r < 0)
			return r;
	}
	return check_all(s, limits, ret_why);
}

/* ---- from text ---- */

/* Cuts blanks, and the CR of a CRLF, off both ends of a line. */
static char *trim(char *text)
{
	size_t len;

	text += strspn(text, " \t\r");
	len = strlen(text);
	while (len > 0 && strchr(" \t\r", text[len - 1]))
		len--;
	text[len] = '\0';
	return text;
}

static int parse_line(struct settings *s, char *line, const struct settings_limits *limits,
		      struct problem *why)
{
	char *value;

	line = trim(line);
	if (*line == '\0' || *line == '#')
		return 0;
	value = strchr(line, '=');
	if (!value && strncmp(line, "unset", 5) == 0 && isblank((unsigned char)line[5]))
		return env_unset(&s->spec, trim(line + 5), why);
	if (!value)
		return problem_set(
			why, PROBLEM_INVALID,
			"Write one \"key = value\" a line, or a comment with # in front.",
			"\"%s\" has no \"=\"", problem_quote(line).text);
	*value = '\0';
	return settings_set(s, trim(line), trim(value + 1), limits, why);
}

static int parse_lines(struct settings *s, char *text, unsigned above,
		       const struct settings_limits *limits, struct problem *why)
{
	char *line;

	for (unsigned n = above + 1; (line = strsep(&text, "\n")); n++) {
		int r = parse_line(s, line, limits, why);

		if (r == -EINVAL)
			problem_name_line(why, n);
		if (r < 0)
			return r;
	}
	return 0;
}

/* @s is a copy of what was, and @text may be altered. */
static int parse(struct settings *s, char *text, unsigned above,
		 const struct settings_limits *limits, struct problem *why)
{
	/* A list that the text does not mention stays; but not if the text turns the network off. */
	const char **const lists[] = {&s->spec.allow, &s->spec.policy.rules,
				      &s->spec.policy.secrets};
	char *inherited[ARRAY_SIZE(lists)];
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		inherited[i] = (char *)steal_ptr(*lists[i]);
	r = parse_lines(s, text, above, limits, why);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		if (r == 0 && !*lists[i]) {
			*lists[i] = s->spec.network ? steal_ptr(inherited[i]) : strdup("");
			r = *lists[i] ? 0 : -ENOMEM;
		}
		free(inherited[i]);
	}
	return r < 0 ? r : check_all(s, limits, why);
}

int settings_parse(struct settings *s, const char *text, size_t len, unsigned above,
		   const struct settings_limits *limits, struct problem *ret_why)
{
	static const char bom[] = "\xef\xbb\xbf";
	_cleanup_free_ char *copy = NULL;
	struct settings changed = {0};
	int r;

	if (len > SETTINGS_TEXT_MAX)
		return problem_set(ret_why, PROBLEM_TOO_LONG,
				   "Write at most 196608 bytes of settings.",
				   "the settings have %zu bytes", len);
	if (len > 0 && memchr(text, '\0', len))
		return problem_set(ret_why, PROBLEM_INVALID, "Write plain text.",
				   "the settings hold a NUL byte");
	copy = strndup(len ? text : "", len);
	r = copy ? settings_copy(&changed, s) : -ENOMEM;
	if (r < 0)
		return r;
	r = parse(&changed, copy + (strncmp(copy, bom, 3) == 0 ? 3 : 0), above, limits, ret_why);
	settings_clear(r < 0 ? &changed : s);
	if (r == 0)
		*s = changed;
	return r;
}

/* ---- as text ---- */

int settings_render(const struct settings *s, struct buf *out)
{
	int r = 0;

	for_each_key(k, CONF_SESSION)
	{
		size_t begin;

		if (r == 0)
			r = buf_printf(out, "# %s\n%s = ", k->comment, k->name);
		begin = out->len;
		if (r == 0)
			r = key_print(k, s, out);
		if (r == 0 && out->len == begin)
			r = buf_truncate(out, begin - 1);
		if (r == 0)
			r = buf_append(out, "\n", 1);
	}
	if (r == 0)
		r = buf_printf(out, "# Variables of the interpreter: env.NAME = value, and "
				    "`unset env.NAME` to remove one.\n");
	return r < 0 ? r : env_render(&s->spec, out);
}

bool settings_wired(const struct settings *s)
{
	return s->spec.network || s->spec.nports;
}

bool settings_lack_card(const struct settings *s)
{
	return s->spec.backend != VM_PROCESS && !settings_wired(s);
}

/* Without a network there are neither names nor ports, and without a card no ports. */
static bool goes_with_network(const struct key *k, const struct settings *s,
			      const struct settings *of)
{
	if (k->type == KEY_PORTS && settings_lack_card(of))
		return true;
	return (k->type == KEY_ALLOW || k->type == KEY_PORTS || k->type == KEY_RULES ||
		k->type == KEY_SECRETS) &&
	       s->spec.network != of->spec.network;
}

int settings_take_frozen(struct settings *s, const struct settings *of)
{
	const struct key_context ctx = {0};
	struct settings with = {0};
	struct problem why = {0};
	char *from = strdup(s->from);
	int r = from ? settings_copy(&with, of) : -ENOMEM;

	for_each_key(k, CONF_SESSION)
	{
		struct buf text = {0};

		if (r == 0 && (k->flags & KEY_LIVE) && !goes_with_network(k, s, of)) {
			r = key_print(k, s, &text);
			if (r == 0)
				r = key_set(k, &with, buf_str(&text), &ctx, &why);
		}
		buf_clear(&text);
	}
	if (r < 0) {
		free(from);
		settings_clear(&with);
		return r;
	}
	free(with.from);
	with.from = from;
	settings_clear(s);
	*s = with;
	return 0;
}

bool settings_frozen_change(const struct settings *a, const struct settings *b,
			    struct settings_key *ret_key)
{
	const struct sandbox_env *e;

	for_each_key(k, CONF_SESSION)
	{
		struct buf text = {0};
		const char *is = key_print(k, b, &text) == 0 ? buf_str(&text) : NULL;
		const bool same = (k->flags & KEY_LIVE) || (is && reads(a, k, is));

		buf_clear(&text);
		if (!same) {
			snprintf(ret_key->name, sizeof(ret_key->name), "%s", k->name);
			return true;
		}
	}
	e = env_other(&b->spec, &a->spec);
	if (!e)
		e = env_other(&a->spec, &b->spec);
	if (e)
		snprintf(ret_key->name, sizeof(ret_key->name), "env.%s", e->name);
	return e;
}
