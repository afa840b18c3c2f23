/* SPDX-License-Identifier: Apache-2.0 */
/* Reads bundles. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/base/io.h"
#include "bundle.h"
#include "chunk.h"
#include "assemble.h"
#include "store.h"

/*
 * Theory of operation
 * -------------------
 * A bundle is read once, from beginning to end, and trusted as little as a bucket: every length is
 * checked against its limit before memory is allocated for it, every chunk and every file against its
 * checksum. Objects that exist already are skipped. A link is made only to an image that exists, and
 * with the lock of the image builder held.
 *
 * Objects that were complete before an error was found have been checked, and stay.
 */

struct import {
	struct store *st;
	const char *cache;
	int fd;
	unsigned objects, passed;
	char *data; /* of a record */
};

static int read_record(struct import *im, struct bundle_record *ret_record)
{
	uint8_t head[BUNDLE_HEAD];
	int r = fileio_read(im->fd, head, sizeof(head));

	if (r == 0)
		r = bundle_head(head, ret_record);
	return r < 0 ? r : fileio_read(im->fd, im->data, ret_record->len);
}

/* All chunks follow their manifest; with @a NULL they are passed over. */
static int import_chunks(struct import *im, size_t n, struct assembly *a)
{
	struct bundle_record record = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		r = read_record(im, &record);
		if (r == 0 && record.type != BUNDLE_CHUNK)
			r = -EBADMSG;
		if (r == 0 && a && !a->have[i])
			r = assemble_add(a, i, im->data, record.len);
	}
	return r;
}

static int import_manifest(struct import *im, const struct manifest *m)
{
	char dir[PATH_MAX];
	struct assembly a;
	bool there;
	int r;

	snprintf(dir, sizeof(dir), "%s/%s", im->cache, store_kind_dir(m->kind));
	assemble_clean(dir);
	r = assemble_open(dir, m, STORE_SHARE_MS, &a);
	there = r == -EEXIST;
	if (r < 0 && !there)
		return r;
	r = import_chunks(im, m->nchunks, there ? NULL : &a);
	if (r == 0 && !there)
		r = assemble_finish(&a);
	else if (!there)
		assemble_close(&a, true);
	if (r < 0)
		return r;
	im->objects++;
	im->passed += there;
	store_say("%s %.40s: %s", store_kind_str(m->kind), m->key,
		  there ? "was there" : "imported");
	return 0;
}

static int import_object(struct import *im, size_t len)
{
	struct manifest m;
	int r = manifest_parse(im->data, len, im->st->secret, &m);

	if (r < 0)
		return r;
	r = import_manifest(im, &m);
	manifest_clear(&m);
	return r;
}

/* The link is replaced at once, as the program that builds images does it. */
static int make_link(const char *images, const char *name, const char *key)
{
	char links[PATH_MAX], from[PATH_MAX], to[PATH_MAX], leads[STORE_KEY_MAX + 4];

	if (snprintf(links, sizeof(links), "%s/" STORE_LINK_DIR, images) >= (int)sizeof(links))
		return -ENAMETOOLONG;
	if (mkdir(links, 0755) < 0 && errno != EEXIST)
		return -errno;
	snprintf(leads, sizeof(leads), "../%s", key);
	if (snprintf(from, sizeof(from), "%s/.%s.%d", links, name, (int)getpid()) >=
		    (int)sizeof(from) ||
	    snprintf(to, sizeof(to), "%s/%s", links, name) >= (int)sizeof(to))
		return -ENAMETOOLONG;
	if (symlink(leads, from) < 0)
		return -errno;
	if (rename(from, to) < 0) {
		const int err = errno;

		unlink(from);
		return -err;
	}
	return 0;
}

static int import_link(struct import *im, size_t len)
{
	char name[STORE_KEY_MAX + 1], key[STORE_KEY_MAX + 1], images[PATH_MAX], path[PATH_MAX];
	_cleanup_close_ int lock = -1;
	int r = bundle_link(im->data, len, name, key);

	if (r < 0)
		return r;
	snprintf(images, sizeof(images), "%s/%s", im->cache, store_kind_dir(STORE_IMAGE));
	if (!assemble_exists(images, key) ||
	    snprintf(path, sizeof(path), "%s/.lock", images) >= (int)sizeof(path))
		return -EBADMSG;
	lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return -errno;
	return make_link(images, name, key);
}

/* Return: 1 at the end, 0, or -errno. */
static int import_next(struct import *im)
{
	struct bundle_record record = {0};
	int r = read_record(im, &record);

	if (r < 0)
		return r;
	switch (record.type) {
	case BUNDLE_MANIFEST: return import_object(im, record.len);
	case BUNDLE_LINK: return import_link(im, record.len);
	case BUNDLE_END: return 1;
	case BUNDLE_CHUNK: break;
	}
	return -EBADMSG;
}

static enum store_end explain(struct import *im, int r)
{
	if (r == -EBADMSG)
		return store_fail(im->st, STORE_DAMAGED, "the bundle is damaged, or is none");
	if (r == -EACCES && im->st->secret)
		return store_fail(im->st, STORE_DAMAGED,
				  "the bundle is not authenticated by our " STORE_SECRET);
	return store_fail(im->st, STORE_FAILED, "%s", strerror(-r));
}

enum store_end store_import(struct store *st, const char *cache, int fd)
{
	struct import im = {.st = st, .cache = cache, .fd = fd};
	char magic[BUNDLE_MAGIC_LEN];
	int r;

	im.data = malloc(BUNDLE_RECORD_MAX);
	r = im.data ? fileio_read(fd, magic, sizeof(magic)) : -ENOMEM;
	if (r == 0 && memcmp(magic, BUNDLE_MAGIC, sizeof(magic)) != 0)
		r = -EBADMSG;
	while (r == 0)
		r = import_next(&im);
	free(im.data);
	if (r < 0)
		return explain(&im, r);
	store_say("imported %u objects, %u were there", im.objects - im.passed, im.passed);
	return STORE_DONE;
}
