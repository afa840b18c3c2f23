/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that images bring along. */
#include "daemon_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "value.h"
#include "vm/base/arch.h"
#include "vm/base/problem.h"
#include "vm/base/trusted.h"

/*
 * Theory of operation
 * -------------------
 * An image says itself how it wants to be used: template.conf beside its files, written by
 * scripts/images, has a section [template NAME] with its language, and, of an image from elsewhere,
 * its variables, its working directory and its entry point. It is read like a configuration file, and
 * before all others, so that those have the last word.
 *
 * A user's own images come first, then those that root has built for all: what nobody else can have put there.
 *
 * What is in it came from a stranger. scripts/images has checked it; here it may only name its own
 * template, and keys that give a sandbox nothing of the host. It is read into a configuration of its own
 * first: one that is wrong is left out with a note, and the mount is made without it.
 */

#define FILE_NAME "template.conf"

struct place {
	const char *path; /* templates/ of the user's cache, or of what all share */
	const char *
		own; /* of the user's cache, if this is not it, or NULL: what is there is not read here */
	int dir; /* as trusted_open() has opened it; -1: it is the user's own */
};

/* Could it have been changed by anybody but root and the user? */
static int check_owner(int fd, const struct conf_source *src)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return conf_fail(src, errno, "cannot be read: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return conf_fail(src, EINVAL, "is not a file");
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return conf_fail(src, EACCES, "others may write to it");
	return 0;
}

/* What is for all is for nobody if there is a way to it that is not root's. Return: a descriptor; -ENOENT; -errno, with why in @src. */
static int open_one(const struct place *place, const char *path, const struct conf_source *src)
{
	char why[TRUSTED_WHY];
	int fd;

	if (place->dir >= 0) {
		fd = trusted_open_at(place->dir, path + strlen(place->path) + 1, O_RDONLY, why);
		return fd >= 0 || fd == -ENOENT ? fd : conf_fail(src, -fd, "is not read: %s", why);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -ENOENT
			       : conf_fail(src, errno, "cannot be read: %s", strerror(errno));
}

/* Reads it into @c, or says in @src what is wrong with it. */
static int read_one(struct conf *c, const struct place *place, const char *path,
		    const struct conf_source *like)
{
	struct conf_source src = *like;
	_cleanup_close_ int fd = -1;
	int r;

	src.file = path;
	fd = open_one(place, path, &src);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = check_owner(fd, &src);
	return r < 0 ? r : conf_read_file(c, fd, &src);
}

/* Return: 0 or -ENOMEM. */
static int add(struct conf *c, const struct place *place, const char *name,
	       const struct conf_source *outer)
{
	char path[PATH_MAX], why[1024] = "out of memory";
	const struct conf_source src = {.why = why, .why_size = sizeof(why), .only = name};
	struct conf trial = {0};
	int r;

	if (!plain_name_ok(name) || snprintf(path, sizeof(path), "%s/%s/" FILE_NAME, place->path,
					     name) >= (int)sizeof(path))
		return 0;
	r = conf_init(&trial);
	if (r == 0)
		r = read_one(&trial, place, path, &src);
	/* As a template that nobody has said anything else about. */
	if (r == 0)
		r = conf_settle_templates(&trial, &src);
	conf_clear(&trial);
	if (r == 0)
		r = read_one(c, place, path, &src);
	if (r == -ENOMEM)
		return conf_fail(outer, ENOMEM, "out of memory");
	return r < 0 ? conf_leave_out(c, why) : 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Has the user an image of that name? It is used then, and not the shared one. */
static bool has_own(const char *own, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", own, name) < (int)sizeof(path) &&
	       access(path, F_OK) == 0;
}

/* Return: 0 or -errno. */
static int read_dir(struct conf *c, const struct place *place, const struct conf_source *src)
{
	struct dirent **names = NULL;
	int n = place->dir < 0 ? scandir(place->path, &names, NULL, by_name)
			       : scandirat(place->dir, ".", &names, NULL, by_name);
	int r = 0;

	if (n < 0)
		return errno == ENOMEM ? -ENOMEM : 0; /* there are none yet */
	for (int i = 0; i < n; i++) {
		if (r == 0 && !(place->own && has_own(place->own, names[i]->d_name)))
			r = add(c, place, names[i]->d_name, src);
		free(names[i]);
	}
	free((void *)names);
	return r;
}

int conf_read_images(struct conf *c, const char *cache_dir, const char *shared_dir,
		     const struct conf_source *src)
{
	_cleanup_free_ char *own = NULL, *shared = NULL;
	_cleanup_close_ int dir = -1;
	char why[TRUSTED_WHY];
	int r;

	if (asprintf(&own, "%s/" ARCH_IMAGES "/templates", cache_dir) < 0 ||
	    asprintf(&shared, "%s/" ARCH_IMAGES "/templates", shared_dir ? shared_dir : "") < 0)
		return -ENOMEM;
	r = read_dir(c, &(struct place){.path = own, .dir = -1}, src);
	if (r < 0 || !shared_dir)
		return r;
	dir = trusted_open(shared, O_PATH | O_DIRECTORY, why);
	if (dir < 0) /* who looks for an image there is told why that is not used either */
		return 0;
	return read_dir(c, &(struct place){.path = shared, .own = own, .dir = dir}, src);
}

/* ---- templates of other names ---- */

/* What is text in one becomes text of the other. Return: 0, -EINVAL, -ENOMEM. */
static int take_key(struct conf_template *t, const struct conf_template *from, const struct key *k)
{
	const unsigned bit = conf_image_bit(k->name);
	const struct key_context ctx = {.limits = NULL};
	struct buf text = {0};
	struct problem why;
	int r;

	if (!(from->by_image & ~t->by_conf & bit))
		return 0;
	r = key_print(k, &from->settings, &text);
	if (r == 0)
		r = key_set(k, &t->settings, text.data ? buf_str(&text) : "", &ctx, &why);
	if (r == 0)
		t->by_image |= bit;
	buf_clear(&text);
	return r;
}

static bool has_variable(const struct sandbox_spec *spec, const char *name)
{
	for (size_t i = 0; i < spec->nenv; i++)
		if (strcmp(spec->env[i].name, name) == 0)
			return true;
	return false;
}

static int take_variable(struct conf_template *t, const struct sandbox_env *e)
{
	_cleanup_free_ char *key = NULL;
	struct problem why;

	if (has_variable(&t->settings.spec, e->name))
		return 0;
	if (asprintf(&key, "env.%s", e->name) < 0)
		return -ENOMEM;
	return settings_set(&t->settings, key, e->value, NULL, &why);
}

static int take(struct conf_template *t, const struct conf_template *from)
{
	const struct sandbox_spec *spec = &from->settings.spec;
	int r = 0;

	for_each_key(k, CONF_TEMPLATE) r = r == 0 ? take_key(t, from, k) : r;
	for_each_key(k, CONF_SESSION) r = r == 0 ? take_key(t, from, k) : r;
	for (size_t i = 0; i < spec->nenv && r == 0; i++)
		r = take_variable(t, &spec->env[i]);
	return r;
}

/* Return: 0 or -ENOMEM; what an image says is no reason not to have the mount. */
static int inherit(struct conf *c, struct conf_template *t)
{
	const char *image = t->settings.spec.image;
	char why[256];
	const struct conf_source src = {.why = why, .why_size = sizeof(why)};
	const struct conf_template *from;
	struct conf trial = {0};
	int r;

	if (!image || strcmp(image, t->name) == 0)
		return 0;
	r = conf_init(&trial);
	if (r == 0)
		r = conf_read_kept_image(&trial, &c->files, image, &src);
	from = r == 0 ? conf_template_find(&trial, image) : NULL;
	if (from)
		r = take(t, from);
	conf_clear(&trial);
	return r == -ENOMEM ? r : 0;
}

int conf_inherit_images(struct conf *c, const struct conf_source *src)
{
	int r = 0;

	for (size_t i = 0; i < c->ntemplates && r == 0; i++)
		r = inherit(c, &c->template[i]);
	return r < 0 ? conf_fail(src, ENOMEM, "out of memory") : 0;
}
