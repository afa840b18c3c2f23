/* SPDX-License-Identifier: Apache-2.0 */
/* Open package layers, and their keys. */
#include "layer.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "vm/base/arch.h"
#include "vm/base/buf.h"
#include "vm/base/io.h"
#include "vm/base/path.h"
#include "vm/base/trusted.h"
#include "image.h"

/*
 * Theory of operation
 * -------------------
 * A layer is a directory DIR/KEY that never changes. Its key is a hash of its inputs: the packages,
 * their origin, and the target, which is the version of the interpreter and the C library, and the
 * processor. The image is not included: images that differ in other ways can share layers. Neither is
 * the content: with exact versions of packages, it can only differ in their dependencies; a
 * snapshot's key includes the content, see qemu_describe().
 *
 * A shared lock on the directory marks it as in use. To free disk space, only layers without such a
 * lock are removed; the modification time is the time of the last use.
 *
 * What the user has not himself is looked for in the shared directory, from which nothing is used but what only root
 * can have put there. A file needs no lock there: it outlives its name. A directory does; who can't have the lock,
 * because root removes it or some other user wants to be in the way, has a layer of his own made.
 */

#define PROCEDURE 1u /* to be changed with how layers are made */

static const char *const form_str[] = {[LAYER_TREE] = "tree", [LAYER_EROFS] = "erofs"};

int layers_init(struct layers *ls, const char *cache_dir, const char *shared_dir, uint64_t limit)
{
	TAILQ_INIT(&ls->open);
	ls->limit = limit;
	ls->shared = NULL;
	if (asprintf(&ls->dir, "%s/layers", cache_dir) < 0)
		ls->dir = NULL;
	if (shared_dir && asprintf(&ls->shared, "%s/layers", shared_dir) < 0)
		ls->shared = NULL;
	return ls->dir && (ls->shared || !shared_dir) ? 0 : -ENOMEM;
}

/* Closes what open_own() or open_shared() has left. */
static void close_files(struct layer *l)
{
	if (l->dir >= 0)
		close(l->dir);
	if (l->file >= 0)
		close(l->file);
	l->dir = l->file = -1;
}

static void close_layer(struct layer *l)
{
	if (l->in)
		TAILQ_REMOVE(&l->in->open, l, link);
	close_files(l);
	free(l);
}

void layers_fini(struct layers *ls)
{
	struct layer *l;

	/* What is saved may have some still: whoever drops the last reference closes it. */
	while (ls->dir && (l = TAILQ_FIRST(&ls->open))) {
		TAILQ_REMOVE(&ls->open, l, link);
		l->in = NULL;
	}
	free(ls->dir);
	free(ls->shared);
	ls->dir = ls->shared = NULL;
}

/* Opens what is there. Return: false if that is no layer, or on its way out. */
static bool open_own(struct layer *l, const char *dir)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", dir, l->key) >= (int)sizeof(path))
		return false;
	l->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (l->dir < 0 || flock(l->dir, LOCK_SH | LOCK_NB) < 0 || fstat(l->dir, &st) < 0)
		return false;
	/* It may have been renamed, to be removed, before it was locked. */
	if (!fileio_is_at(l->dir, AT_FDCWD, path) || st.st_uid != geteuid() || (st.st_mode & 022))
		return false;
	l->file = fileio_open(l->dir, "layer.erofs");
	if (l->file >= 0 && (fstat(l->file, &st) < 0 || st.st_size == 0))
		return false;
	if (l->file < 0 && faccessat(l->dir, "tree", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	(void)futimens(l->dir, NULL);
	return true;
}

/* The same of root's. Return: likewise. */
static bool open_shared(struct layer *l, const char *dir)
{
	char path[PATH_MAX], why[TRUSTED_WHY];
	struct stat st;
	int tree;

	if (path_join(path, dir, "", l->key) < 0)
		return false;
	l->dir = trusted_open(path, O_RDONLY | O_DIRECTORY, why);
	if (l->dir < 0)
		return false;
	l->file = trusted_open_at(l->dir, "layer.erofs", O_RDONLY, why);
	if (l->file >= 0)
		return fstat(l->file, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
	tree = trusted_open_at(l->dir, "tree", O_PATH | O_DIRECTORY, why);
	if (tree < 0)
		return false;
	close(tree);
	return flock(l->dir, LOCK_SH | LOCK_NB) == 0 && fileio_is_at(l->dir, AT_FDCWD, path);
}

struct layer *layer_get(struct layers *ls, const char *key)
{
	struct layer *l;

	TAILQ_FOREACH(l, &ls->open, link) {
		if (strcmp(l->key, key) == 0) {
			l->refs++;
			return l;
		}
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->dir = l->file = -1;
	snprintf(l->key, sizeof(l->key), "%s", key);
	if (!open_own(l, ls->dir)) {
		close_files(l);
		if (!ls->shared || !open_shared(l, ls->shared)) {
			close_layer(l);
			return NULL;
		}
	}
	l->refs = 1;
	l->in = ls;
	TAILQ_INSERT_HEAD(&ls->open, l, link);
	return l;
}

struct layer *layer_ref(struct layer *l)
{
	if (l)
		l->refs++;
	return l;
}

struct layer *layer_put(struct layer *l)
{
	if (l && --l->refs == 0)
		close_layer(l);
	return NULL;
}

/* ---- keys ---- */

/* The first two numbers of a version. */
static void put_version(struct buf *out, const char *name, const char *version)
{
	size_t len = strcspn(version, ".");

	if (version[len] == '.')
		len += 1 + strcspn(version + len + 1, ".");
	(void)buf_printf(out, "%s %.*s\n", name, (int)len, version);
}

/* Of this host. Which Python it is, its name says. */
static void put_host(struct buf *out)
{
	char target[PATH_MAX];
	ssize_t n = readlink("/usr/bin/python3", target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	(void)buf_printf(out, "host\n%s\nlibc %s\n", target, gnu_get_libc_version());
}

/* Of an image. */
static int put_image(struct images *images, const struct layer_need *n, struct buf *out,
		     const char **ret_why)
{
	const char *tool = strcmp(n->language, "python") == 0 ? "python" : "bun", *version;
	const char *text = images_manifest(images, n->image, ret_why);
	json_t *manifest = text ? json_loads(text, 0, NULL) : NULL, *p;
	size_t i;

	if (!text)
		return -ENOENT;
	version = json_string_value(json_object_get(json_object_get(manifest, "tools"), tool));
	json_array_foreach(json_object_get(manifest, "packages"), i, p)
	{
		const char *name = json_string_value(p);

		if (name && strncmp(name, "libc6=", 6) == 0)
			put_version(out, "libc", name + 6);
	}
	*ret_why = "its image does not say which interpreter it has";
	if (version)
		put_version(out, tool, version);
	json_decref(manifest);
	return version ? 0 : -EINVAL;
}

int layer_key(struct images *images, const struct layer_need *n, char ret_key[DIGEST_HEX],
	      const char **ret_why)
{
	struct buf text = {0};
	int r = 0;

	*ret_why = "there is no memory";
	if (n->host)
		put_host(&text);
	else
		r = put_image(images, n, &text, ret_why);
	if (r == 0)
		r = buf_printf(&text, "layer %u %s %s " ARCH_NAME "\n%s\n%s\n", PROCEDURE,
			       form_str[n->form], n->language, n->source, n->packages);
	if (r == 0)
		r = digest_of(text.data, text.len, ret_key);
	buf_clear(&text);
	return r;
}
