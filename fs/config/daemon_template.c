/* SPDX-License-Identifier: Apache-2.0 */
/* The templates of a configuration. */
#include "daemon_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "value.h"
#include "vm/base/problem.h"

/* As VM_NBACKENDS is for the backend: nothing was said. */
#define POOL_UNSET UINT_MAX /* not given: follows from the others */
#define POOL_MAX   4u	    /* of one for which none is given */

/* Templates whose name says more than an image of that name would. `shell` is what `raw` is under a name
 * that tells, so both share a snapshot and its clones. */
static const struct {
	const char *name, *image, *language;
	bool asleep;
	unsigned memory_mb, timeout_s; /* if they are not the standard */
} known[] = {
	{"shell", "raw", "raw", false, 0, 0},
	{"dev", "dev", "raw", true, 0, 0},
	{"go", "go", "raw", true, 512, 0},
	{"rust", "rust", "raw", true, 512, 0},
	{"java", "java", "raw", true, 512, 0},
	{"ruby", "ruby", "raw", true, 0, 0},
	{"php", "php", "raw", true, 0, 0},
	{"r", "r", "raw", true, 256, 0},
	{"browser", "browser", "raw", true, 768, 120},
};

/* Names at the root of the mount that are taken. */
static const char *const root_nodes[] = {"README.md", "status.json", "status.html", "isolation",
					 "doctor",    "metrics",     "events",	    "error",
					 "ctl",	      "quota"};

static bool is_taken(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(root_nodes); i++) {
		if (strcmp(root_nodes[i], name) == 0)
			return true;
	}
	return false;
}

static bool is_language(const char *word)
{
	return value_word(key_find(CONF_TEMPLATE, "language"), word) >= 0;
}

struct conf_template *conf_template_find(struct conf *c, const char *name)
{
	for (size_t i = 0; i < c->ntemplates; i++) {
		if (strcmp(c->template[i].name, name) == 0)
			return &c->template[i];
	}
	return NULL;
}

int conf_template_index(struct conf *c, const char *name)
{
	const struct conf_template *t = conf_template_find(c, name);

	return t ? (int)(t - c->template) : -1;
}

/* Leaves template @i out. Return: 0 or -ENOMEM. */
static int drop(struct conf *c, size_t i, const char *why)
{
	struct conf_template *t = &c->template[i];
	int r = conf_leave_out(c, why);

	free(t->name);
	settings_clear(&t->settings);
	c->ntemplates--;
	memmove(t, t + 1, (c->ntemplates - i) * sizeof(*t));
	return r;
}

/* Images come first, and must not take all places from the configuration. Return: 0, -ENOENT: no template is an
 * image's; -ENOMEM. */
static int make_place(struct conf *c)
{
	char why[PLAIN_NAME_MAX + 100];

	for (size_t i = c->ntemplates; i-- > 0;) {
		if (!c->template[i].of_image)
			continue;
		snprintf(why, sizeof(why),
			 "[template %s]: %d templates are the most, and the configuration has "
			 "others",
			 c->template[i].name, CONF_TEMPLATES_MAX);
		return drop(c, i, why);
	}
	return -ENOENT;
}

struct conf_template *conf_template_get(struct conf *c, const char *name,
					const struct conf_source *src)
{
	struct conf_template *t = conf_template_find(c, name);

	if (t) {
		t->of_image &= src->only != NULL;
		return t;
	}
	if (!plain_name_ok(name)) {
		conf_fail(
			src, EINVAL,
			"template \"%s\": a name has 1 to 64 of A-Z a-z 0-9 . _ - and begins with "
			"neither a dot nor a dash",
			problem_quote(name).text);
		return NULL;
	}
	if (is_taken(name)) {
		conf_fail(src, EINVAL, "template %s: the mount has a file of that name", name);
		return NULL;
	}
	if (c->ntemplates == CONF_TEMPLATES_MAX && (src->only || make_place(c) < 0)) {
		conf_fail(src, EINVAL, "template %s: %d templates are the most", name,
			  CONF_TEMPLATES_MAX);
		return NULL;
	}
	t = &c->template[c->ntemplates];
	*t = (struct conf_template){.name = strdup(name)};
	if (!t->name || settings_init(&t->settings) < 0) {
		free(t->name);
		conf_fail(src, ENOMEM, "out of memory");
		return NULL;
	}
	t->settings.spec.backend = VM_NBACKENDS;
	t->settings.spec.pool.low = POOL_UNSET;
	t->settings.spec.pool.most = POOL_UNSET;
	t->of_image = t->asleep = src->only != NULL;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].name, name) != 0)
			continue;
		t->asleep |= known[i].asleep;
		if (known[i].memory_mb)
			t->settings.spec.memory_mb = known[i].memory_mb;
		if (known[i].timeout_s)
			t->settings.timeout_s = known[i].timeout_s;
	}
	if (t->asleep)
		t->settings.spec.pool.target = 0;
	c->ntemplates++;
	return t;
}

/* What an image's template may set: nothing that gives a sandbox anything of the host. */
static const char *const of_images[] = {"language",   "memory_mb",  "cpus",
					"timeout_s",  "processes",  "cwd",
					"entrypoint", "open_files", "view"};

unsigned conf_image_bit(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_images); i++) {
		if (strcmp(of_images[i], key) == 0)
			return 1u << i;
	}
	return 0;
}

static bool image_may_set(const char *key)
{
	return conf_image_bit(key) || strncmp(key, "env.", 4) == 0;
}

int conf_template_set(struct conf_template *t, const char *key, const char *value,
		      const struct conf_source *src)
{
	const struct key_context ctx = {.limits = NULL}; /* conf_settle_templates() has them */
	const struct key *k = key_find(CONF_TEMPLATE, key);
	struct problem why;
	int r;

	if (src->only && !image_may_set(key))
		return conf_fail(src, EINVAL, "%s: an image can't set this",
				 problem_quote(key).text);
	if (!k)
		k = key_find(CONF_SESSION, key);
	if (k && (k->flags & KEY_OWN))
		k = NULL;
	if (k)
		r = key_set(k, &t->settings, value, &ctx, &why);
	else if (strncmp(key, "env.", 4) == 0)
		r = settings_set(&t->settings, key, value, NULL, &why);
	else
		r = settings_refuse_key(key, true, &why);
	if (r == 0 && src->only) {
		t->by_image |= conf_image_bit(key);
	} else if (r == 0) {
		t->by_image &= ~conf_image_bit(key);
		t->by_conf |= conf_image_bit(key);
	}
	return conf_refuse(src, r, "", &why);
}

/* Fills in image and language where they follow from other values. */
static int settle_image(struct conf_template *t, const struct conf_source *src)
{
	struct sandbox_spec *spec = &t->settings.spec;
	const char *image = t->name, *language = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].name, t->name) == 0) {
			image = known[i].image;
			if (!spec->image || strcmp(spec->image, image) == 0)
				language = known[i].language;
		}
	}
	if (!spec->image && value_keep(&spec->image, image) < 0)
		return -ENOMEM;
	if (spec->language)
		return 0;
	if (is_language(t->name))
		language = t->name;
	else if (!language)
		language = spec->image;
	if (!is_language(language))
		return conf_fail(src, EINVAL,
				 "[template %s]: which language? Add language = python, "
				 "javascript or raw; no image \"%s\" is here that says it",
				 t->name, spec->image);
	return value_keep(&spec->language, language);
}

/* Return: @value; or @most, if that is less and @value what a template of that name begins with. */
static unsigned lowered(unsigned value, unsigned standard, unsigned most)
{
	return most && value > most && value == standard ? most : value;
}

/* What a template of that name begins with is lowered to the limit, as a standard is. */
static void lower(struct conf_template *t, const struct settings_limits *limits)
{
	struct settings *s = &t->settings;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].name, t->name) != 0)
			continue;
		s->spec.memory_mb =
			lowered(s->spec.memory_mb, known[i].memory_mb, limits->max_memory_mb);
		s->timeout_s = lowered(s->timeout_s, known[i].timeout_s, limits->max_timeout_s);
	}
}

/* The administrator's limits are no reason not to have an image, nor is the image one not to have the mount. Return: 0 or
 * -ENOMEM. */
static int lower_of_image(struct conf *c, struct conf_template *t)
{
	int r = 0;

	for_each_key(k, CONF_SESSION)
	{
		unsigned *n = key_at(k, &t->settings), was;

		if (!k->limit || k->type != KEY_NUMBER || !(t->by_image & conf_image_bit(k->name)))
			continue;
		was = *n;
		if (r == 0 && value_lower(k, n, &c->limits))
			r = buf_printf(
				&c->notes,
				"image %s wants %s = %u%s: it has %u, the most that is allowed\n",
				t->settings.spec.image, k->name, was,
				was ? "" : ", which is no limit", *n);
	}
	return r;
}

/* Fills in what follows from other values, and holds the settings against the limits. */
static int settle_one(struct conf_template *t, struct conf *c, const struct conf_source *src)
{
	struct sandbox_spec *spec = &t->settings.spec;
	char whose[PLAIN_NAME_MAX + sizeof("[template ]: ")];
	struct problem why = {.cause = "out of memory"};
	int r = settle_image(t, src);

	if (r < 0)
		return r;
	if (spec->backend == VM_NBACKENDS)
		spec->backend = c->backend;
	if (spec->pool.most == POOL_UNSET)
		spec->pool.most = MAX(spec->pool.target, POOL_MAX);
	if (spec->pool.most < spec->pool.target)
		return conf_fail(src, EINVAL,
				 "[template %s]: pool_max = %u is less than pool = %u, which is "
				 "the least",
				 t->name, spec->pool.most, spec->pool.target);
	if (spec->pool.low == POOL_UNSET)
		spec->pool.low = spec->pool.target;
	if (spec->pool.low > spec->pool.target)
		return conf_fail(src, EINVAL,
				 "[template %s]: pool_low = %u is more than pool = %u, so the pool "
				 "would never be full",
				 t->name, spec->pool.low, spec->pool.target);
	lower(t, &c->limits);
	r = lower_of_image(c, t);
	if (r == 0)
		r = packages_settle((char **)&spec->packages, spec->language, &c->packages, false,
				    &why);
	if (r == 0)
		r = settings_fit(&t->settings, &c->limits, &why);
	snprintf(whose, sizeof(whose), "[template %s]: ", t->name);
	return conf_refuse(src, r, whose, &why);
}

int conf_template_gone(struct conf *c, const char *name, const char *language)
{
	char words[1024];
	const struct conf_source src = {.why = words, .why_size = sizeof(words), .only = name};
	struct conf_template *t = conf_template_get(c, name, &src);
	int r;

	if (!t)
		return -ENOENT;
	r = value_keep(&t->settings.spec.language, language);
	if (r == 0)
		r = settle_one(t, c, &src);
	t->gone = true;
	if (r < 0)
		(void)drop(c, c->ntemplates - 1, words);
	return r == 0 || r == -ENOMEM ? r : -ENOENT;
}

/* Finds out which templates are to be prepared. */
static int settle_prepare(struct conf *c, const struct conf_source *src)
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
		struct conf_template *t = conf_template_find(c, name);

		if (!t)
			return conf_fail(src, EINVAL,
					 "prepare: there is no template \"%s\"; write yes, no, or "
					 "names of templates with blanks between them",
					 problem_quote(name).text);
		t->prepare = true;
	}
	return 0;
}

int conf_settle_templates(struct conf *c, const struct conf_source *src)
{
	int r = 0;

	for (size_t i = 0; i < c->ntemplates && r == 0; i++) {
		r = settle_one(&c->template[i], c, src);
		/* What is wrong with an image's is no fault of the configuration, which has said nothing about it. */
		if (r == -EINVAL && c->template[i].of_image)
			r = drop(c, i--, src->why);
	}
	return r < 0 ? r : settle_prepare(c, src);
}
