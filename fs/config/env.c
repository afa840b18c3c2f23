/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a session: the env.NAME part of its settings. */
#include "env.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "vm/base/util.h"
#include "vm/base/problem.h"

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

size_t env_bytes(const struct sandbox_spec *s)
{
	size_t sum = 0;

	for (size_t i = 0; i < s->nenv; i++)
		sum += strlen(s->env[i].name) + strlen(s->env[i].value);
	return sum;
}

static int check_env_name(const char *name, struct problem *why)
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

int env_set(struct sandbox_spec *s, const char *name, const char *value, struct problem *why)
{
	size_t len = strlen(value);
	struct sandbox_env *old;
	char *copy;
	int r;

	r = check_env_name(name, why);
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

int env_unset(struct sandbox_spec *s, const char *key, struct problem *why)
{
	struct sandbox_env *e;
	int r;

	if (strncmp(key, "env.", 4) != 0)
		return problem_set(why, PROBLEM_INVALID,
				   "Write unset env.NAME, or set the key to its default.",
				   "unset: \"%s\" is not a variable", problem_quote(key).text);
	r = check_env_name(key + 4, why);
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

int env_render(const struct sandbox_spec *s, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < s->nenv && r >= 0; i++) {
		const char *q = needs_quotes(s->env[i].value) ? "\"" : "";

		r = buf_printf(out, "env.%s = %s%s%s\n", s->env[i].name, q, s->env[i].value, q);
	}
	return r;
}

bool env_same(const struct sandbox_spec *a, const struct sandbox_spec *b)
{
	if (a->nenv != b->nenv)
		return false;
	for (size_t i = 0; i < a->nenv; i++) {
		const struct sandbox_env *e = env_find(b, a->env[i].name);

		if (!e || strcmp(e->value, a->env[i].value) != 0)
			return false;
	}
	return true;
}
