/* SPDX-License-Identifier: Apache-2.0 */
/* The templates of a configuration. */
#include "daemon_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "vm/base/problem.h"

#define POOL_DEFAULT 1u
#define POOL_MAX     1000u
#define POOL_AGE_S   600u
#define POOL_AGE_MAX (86400u * 7)
#define POOL_LOW_ALL UINT_MAX /* as long as nothing is said: as many as there should be */

static const char *const languages[] = {"python", "javascript", "raw"};

/* Templates whose name says more than an image of that name would. `shell` is what `raw` is under a name
 * that tells, so both share a snapshot and its clones. */
static const struct {
	const char *name, *image, *language;
	bool asleep;
} known[] = {{"shell", "raw", "raw", false}, {"dev", "dev", "raw", true}};

/* Names at the root of the mount that are taken. */
static const char *const root_nodes[] = {"README.md", "status.json", "isolation", "doctor",
					 "metrics",   "events",	     "error"};

static bool is_one_of(const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(word, list[i]) == 0)
			return true;
	}
	return false;
}

static bool is_language(const char *word)
{
	return is_one_of(word, languages, ARRAY_SIZE(languages));
}

struct conf_template *conf_template_get(struct conf *c, const char *name,
					const struct conf_source *src)
{
	struct conf_template *t;

	for (size_t i = 0; i < c->ntemplates; i++) {
		if (strcmp(c->template[i].name, name) == 0)
			return &c->template[i];
	}
	if (!plain_name_ok(name)) {
		conf_fail(
			src, EINVAL,
			"template \"%s\": a name has 1 to 64 of A-Z a-z 0-9 . _ - and begins with "
			"neither a dot nor a dash",
			problem_quote(name).text);
		return NULL;
	}
	if (is_one_of(name, root_nodes, ARRAY_SIZE(root_nodes))) {
		conf_fail(src, EINVAL, "template %s: the mount has a file of that name", name);
		return NULL;
	}
	if (c->ntemplates == CONF_TEMPLATES_MAX) {
		conf_fail(src, EINVAL, "template %s: %d templates are the most", name,
			  CONF_TEMPLATES_MAX);
		return NULL;
	}
	t = &c->template[c->ntemplates];
	*t = (struct conf_template){.name = strdup(name),
				    .pool = {POOL_DEFAULT, POOL_LOW_ALL, POOL_AGE_S}};
	if (!t->name || settings_init(&t->settings) < 0) {
		free(t->name);
		conf_fail(src, ENOMEM, "out of memory");
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].name, name) == 0 && known[i].asleep) {
			t->asleep = true;
			t->pool.target = 0;
		}
	}
	c->ntemplates++;
	return t;
}

static int replace(char **field, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

static int set_count(unsigned *field, const char *key, const char *value, unsigned most,
		     const struct conf_source *src)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (!*value || *end || strspn(value, "0123456789") != strlen(value) || n > most)
		return conf_fail(src, EINVAL, "%s: \"%s\" is not a whole number from 0 to %u", key,
				 problem_quote(value).text, most);
	*field = (unsigned)n;
	return 0;
}

int conf_template_set(struct conf_template *t, const char *key, const char *value,
		      const struct conf_source *src)
{
	static const struct settings_limits no_limits = {
		.allow_process = true}; /* conf_template_settle() holds them */
	struct problem why;
	int r;

	if (strcmp(key, "image") == 0) {
		if (!plain_name_ok(value))
			return conf_fail(src, EINVAL, "image: \"%s\" is not a name",
					 problem_quote(value).text);
		return replace(&t->image, value);
	}
	if (strcmp(key, "language") == 0) {
		if (!is_language(value))
			return conf_fail(src, EINVAL,
					 "language: \"%s\" is not python, javascript or raw",
					 problem_quote(value).text);
		return replace(&t->language, value);
	}
	if (strcmp(key, "warmup") == 0)
		return replace(&t->warmup, value);
	if (strcmp(key, "pool") == 0)
		return set_count(&t->pool.target, key, value, POOL_MAX, src);
	if (strcmp(key, "pool_low") == 0)
		return set_count(&t->pool.low, key, value, POOL_MAX, src);
	if (strcmp(key, "pool_age_s") == 0)
		return set_count(&t->pool.age_s, key, value, POOL_AGE_MAX, src);
	if (strcmp(key, "ro") == 0)
		r = paths_set(&t->settings.ro, key, value, &why);
	else if (strcmp(key, "rw") == 0)
		r = paths_set(&t->settings.rw, key, value, &why);
	else if (strcmp(key, "view") == 0)
		r = paths_set_view(&t->settings.view, value, &why);
	else if (strcmp(key, "work") == 0)
		r = paths_set_work(&t->settings.work, value, &why);
	else
		r = settings_set(&t->settings, key, value, &no_limits, &why);
	if (r == 0 && strcmp(key, "backend") == 0)
		t->own_backend = true;
	if (r == -EINVAL)
		return conf_fail(src, EINVAL, "%s. %s", why.cause, why.fix);
	return r;
}

int conf_template_settle(struct conf_template *t, const struct conf *c,
			 const struct conf_source *src)
{
	const char *image = t->name, *spoken = "";
	struct problem why;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].name, t->name) == 0) {
			image = known[i].image;
			spoken = !t->image || strcmp(t->image, image) == 0 ? known[i].language : "";
		}
	}
	if (!t->image && replace(&t->image, image) < 0)
		return -ENOMEM;
	if (!t->language) {
		const char *language = is_language(t->name) ? t->name : *spoken ? spoken : t->image;

		if (!is_language(language))
			return conf_fail(src, EINVAL,
					 "[template %s]: which language? Add language = python, "
					 "javascript or raw",
					 t->name);
		if (replace(&t->language, language) < 0)
			return -ENOMEM;
	}
	if (!t->own_backend)
		t->settings.backend = c->backend;
	if (t->pool.low == POOL_LOW_ALL)
		t->pool.low = t->pool.target;
	if (t->pool.low > t->pool.target)
		return conf_fail(src, EINVAL,
				 "[template %s]: pool_low = %u is more than pool = %u, so the pool "
				 "would never be full",
				 t->name, t->pool.low, t->pool.target);
	r = packages_settle(&t->settings.packages, t->language, &c->packages, &why);
	if (r == 0)
		r = settings_fit(&t->settings, &c->limits, &why);
	if (r < 0)
		return conf_fail(src, EINVAL, "[template %s]: %s. %s", t->name, why.cause, why.fix);
	return 0;
}

int conf_settle_prepare(struct conf *c, const struct conf_source *src)
{
	const bool all = strcmp(c->prepare, "yes") == 0, none = strcmp(c->prepare, "no") == 0;
	_cleanup_free_ char *names = strdup(c->prepare);
	char *save = NULL;

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < c->ntemplates; i++)
		c->template[i].prepare = all && !c->template[i].asleep;
	if (all || none)
		return 0;
	for (char *name = strtok_r(names, " \t", &save); name;
	     name = strtok_r(NULL, " \t", &save)) {
		size_t i = 0;

		while (i < c->ntemplates && strcmp(c->template[i].name, name) != 0)
			i++;
		if (i == c->ntemplates)
			return conf_fail(src, EINVAL,
					 "prepare: there is no template \"%s\"; write yes, no, or "
					 "names of templates with blanks between them",
					 problem_quote(name).text);
		c->template[i].prepare = true;
	}
	return 0;
}
