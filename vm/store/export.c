/* SPDX-License-Identifier: Apache-2.0 */
/* Writes bundles. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/io.h"
#include "vm/base/trusted.h"
#include "bundle.h"
#include "offer.h"
#include "store.h"

/*
 * Theory of operation
 * -------------------
 * The reader of a bundle needs the manifest before the chunks, but its writer knows it only after them.
 * So room is left for the largest manifest there can be; what the real one does not fill is padded with
 * line feeds, which mean nothing at the end of a manifest.
 */

static int put_record(int fd, enum bundle_type type, const void *data, size_t len)
{
	const struct bundle_record record = {type, (uint32_t)len};
	uint8_t head[BUNDLE_HEAD];
	int r;

	bundle_put_head(&record, head);
	r = fileio_write(fd, head, sizeof(head));
	return r < 0 || !len ? r : fileio_write(fd, data, len);
}

/* To where room was left. */
static int put_manifest(int fd, off_t at, const struct offer *o, const char *secret, size_t room)
{
	const struct bundle_record record = {BUNDLE_MANIFEST, (uint32_t)room};
	struct buf text = {.limit = MANIFEST_MAX};
	uint8_t head[BUNDLE_HEAD];
	int r = manifest_print(&o->m, secret, room, &text);

	bundle_put_head(&record, head);
	if (r == 0)
		r = fileio_write_at(fd, head, sizeof(head), at);
	if (r == 0)
		r = fileio_write_at(fd, text.data, text.len, at + BUNDLE_HEAD);
	buf_clear(&text);
	return r;
}

static int put_object(struct store *st, int fd, struct offer *o)
{
	const size_t room = manifest_bound(o->m.nfiles, offer_chunks(o));
	const off_t at = lseek(fd, 0, SEEK_CUR);
	int r;

	if (at < 0 || lseek(fd, (off_t)(BUNDLE_HEAD + room), SEEK_CUR) < 0)
		return -errno;
	if (room > MANIFEST_MAX)
		return -EFBIG;
	while ((r = offer_next(o)) > 0) {
		r = put_record(fd, BUNDLE_CHUNK, o->packed, offer_chunk(o)->stored);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : put_manifest(fd, at, o, st->secret, room);
}

static int put_link(int fd, const struct store_item *item)
{
	char text[BUNDLE_LINK_MAX + 1];
	const int n = snprintf(text, sizeof(text), "%s %s\n", item->name, item->key);

	return n < 0 || n >= (int)sizeof(text) ? -EINVAL
					       : put_record(fd, BUNDLE_LINK, text, (size_t)n);
}

/* The user's own; or that which root has for all, as far as nobody else can change it. */
static int open_item(const struct store *st, const char *cache, const struct store_item *item,
		     char ret_dir[PATH_MAX], struct offer *ret_o)
{
	const char *kind = store_kind_dir(item->kind);
	char object[PATH_MAX], real[PATH_MAX];
	int r;

	if (snprintf(ret_dir, PATH_MAX, "%s/%s", cache, kind) >= PATH_MAX)
		return -ENAMETOOLONG;
	r = offer_open(ret_dir, item->kind, item->key, st->chunk_bytes, ret_o);
	if (r != -ENOENT || !st->shared)
		return r;
	if (snprintf(object, sizeof(object), "%s/%s/%s", st->shared, kind, item->key) >= PATH_MAX)
		return -ENAMETOOLONG;
	r = trusted_dir(object, real);
	if (r == -ENOENT)
		return r;
	snprintf(ret_dir, PATH_MAX, "%s/%s", st->shared, kind);
	return r < 0 ? r : offer_open(ret_dir, item->kind, item->key, st->chunk_bytes, ret_o);
}

static enum store_end put_item(struct store *st, const char *cache, int fd,
			       const struct store_item *item)
{
	char dir[PATH_MAX];
	struct offer o;
	int r = open_item(st, cache, item, dir, &o);

	if (r < 0)
		return store_fail(st, STORE_FAILED, "%s/%s: %s", dir, item->key, strerror(-r));
	o.m.tsc_khz = item->kind == STORE_SNAPSHOT ? st->tsc_khz : 0;
	r = put_object(st, fd, &o);
	if (r == 0 && item->name)
		r = put_link(fd, item);
	if (r == 0)
		store_say("%s %.40s: %" PRIu64 " of %" PRIu64 " MiB", store_kind_str(item->kind),
			  item->key, manifest_stored(&o.m) >> 20, manifest_data(&o.m) >> 20);
	offer_close(&o);
	return r < 0 ? store_fail(st, STORE_FAILED, "the bundle can't be written: %s", strerror(-r))
		     : STORE_DONE;
}

enum store_end store_export(struct store *st, const char *cache, int fd,
			    const struct store_item *items, size_t n)
{
	int r = fileio_write(fd, BUNDLE_MAGIC, BUNDLE_MAGIC_LEN);

	for (size_t i = 0; r == 0 && i < n; i++) {
		const enum store_end end = put_item(st, cache, fd, &items[i]);

		if (end != STORE_DONE)
			return end;
	}
	if (r == 0)
		r = put_record(fd, BUNDLE_END, NULL, 0);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? store_fail(st, STORE_FAILED, "the bundle can't be written: %s", strerror(-r))
		     : STORE_DONE;
}
