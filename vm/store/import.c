/* SPDX-License-Identifier: Apache-2.0 */
/* Reading bundles. */
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
 * A bundle is read once, from its beginning to its end, and believed as little as a bucket: every
 * length is compared with what can be before there is memory for it, every chunk and every file with
 * its checksum. An object that is there already is passed over. A link is made only to an image that
 * is there, and while nobody builds images.
 *
 * What was imported before something turned out to be wrong is right, and stays.
 */

struct import {
	struct store *st;
	const char *cache;
	int fd;
	struct manifest m;
	struct assembly assembly;
	bool open;	 /* chunks of `m` are to come */
	bool assembling; /* and are written; if not, it was there */
	size_t chunk;	 /* that comes next */
	unsigned objects, passed;
	char *data; /* of a record */
};

static int finish_object(struct import *im)
{
	int r = im->assembling ? assemble_finish(&im->assembly) : 0;

	im->open = false;
	if (r == 0) {
		im->objects++;
		im->passed += !im->assembling;
		store_say("%s %.40s: %s", store_kind_str(im->m.kind), im->m.key,
			  im->assembling ? "imported" : "was there");
	}
	im->assembling = false;
	manifest_clear(&im->m);
	return r;
}

static int on_manifest(struct import *im, size_t len)
{
	char dir[PATH_MAX];
	int r = im->open ? -EBADMSG : manifest_parse(im->data, len, im->st->secret, &im->m);

	if (r < 0)
		return r;
	snprintf(dir, sizeof(dir), "%s/%s", im->cache, store_kind_dir(im->m.kind));
	assemble_clean(dir);
	r = assemble_open(dir, &im->m, STORE_SHARE_MS, &im->assembly);
	if (r < 0 && r != -EEXIST) {
		manifest_clear(&im->m);
		return r;
	}
	im->open = true;
	im->assembling = r == 0;
	im->chunk = 0;
	return im->m.nchunks ? 0 : finish_object(im);
}

static int on_chunk(struct import *im, size_t len)
{
	int r = 0;

	if (!im->open)
		return -EBADMSG;
	if (im->assembling && !im->assembly.have[im->chunk])
		r = assemble_add(&im->assembly, im->chunk, im->data, len);
	im->chunk++;
	return r < 0 || im->chunk < im->m.nchunks ? r : finish_object(im);
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

static int on_link(struct import *im, size_t len)
{
	char name[STORE_KEY_MAX + 1], key[STORE_KEY_MAX + 1], images[PATH_MAX], path[PATH_MAX];
	_cleanup_close_ int lock = -1;
	int r = im->open ? -EBADMSG : bundle_link(im->data, len, name, key);

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
static int next_record(struct import *im)
{
	struct bundle_record record = {0};
	uint8_t head[BUNDLE_HEAD];
	int r = fileio_read(im->fd, head, sizeof(head));

	if (r == 0)
		r = bundle_head(head, &record);
	if (r == 0)
		r = fileio_read(im->fd, im->data, record.len);
	if (r < 0)
		return r;
	switch (record.type) {
	case BUNDLE_MANIFEST: return on_manifest(im, record.len);
	case BUNDLE_CHUNK: return on_chunk(im, record.len);
	case BUNDLE_LINK: return on_link(im, record.len);
	case BUNDLE_END: return im->open ? -EBADMSG : 1;
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
		r = next_record(&im);
	if (im.assembling)
		assemble_close(&im.assembly, true);
	manifest_clear(&im.m);
	free(im.data);
	if (r < 0)
		return explain(&im, r);
	store_say("imported %u objects, %u were there", im.objects - im.passed, im.passed);
	return STORE_DONE;
}
