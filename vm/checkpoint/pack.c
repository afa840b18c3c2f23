/* SPDX-License-Identifier: Apache-2.0 */
/* Packs, looked at. See pack.h; pack_maker.c makes them. */
#include "pack.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack_internal.h"
#include "vm/base/discard.h"
#include "vm/base/io.h"
#include "vm/base/util.h"

#define TMPFS_NAME 20u /* bytes that a name adds to its directory, "." and ".." among them */
#define BLOCK	   512u

struct pack *pack_ref(struct pack *p)
{
	p->refs++;
	return p;
}

struct pack *pack_unref(struct pack *p)
{
	if (!p)
		return NULL;
	assert(p->refs > 0);
	if (--p->refs)
		return NULL;
	discard(p->fd, (void *)p->map, p->size);
	free(p->entries);
	free(p->extents);
	free(p->slots);
	free(p);
	return NULL;
}

uint32_t pack_entries(const struct pack *p)
{
	return p->n;
}

uint64_t pack_bytes(const struct pack *p)
{
	return p->size + p->entries_cap * sizeof(*p->entries) +
	       p->extents_cap * sizeof(*p->extents) + p->nslots * sizeof(*p->slots);
}

struct pack_flaws pack_flaws(const struct pack *p)
{
	return p->flaws;
}

/* ---- names ---- */

/* A polynomial over a prime field, in a point that nobody outside knows: two names are the same with a chance of
 * their length in 2^61. */
uint32_t pack_hash(const struct pack *p, uint32_t dir, const char *name, size_t len)
{
	const uint64_t prime = (1ull << 61) - 1;
	uint64_t h = dir + 1ull;

	for (size_t i = 0; i < len; i++) {
		const unsigned __int128 product =
			(unsigned __int128)h * p->key + (unsigned char)name[i] + 1;

		h = (uint64_t)(product & prime) + (uint64_t)(product >> 61);
		h = h >= prime ? h - prime : h;
	}
	h = (uint64_t)((unsigned __int128)h * p->key % prime);
	return (uint32_t)(h ^ h >> 32);
}

static int name_is(const struct pack *p, const struct pack_entry *e, const char *name, size_t len)
{
	char text[PROTO_NAME_MAX];

	if (e->name_len != len)
		return false;
	if (p->map)
		return memcmp(p->map + e->name_at, name, len) == 0;
	if (fileio_read_at(p->fd, text, len, (off_t)e->name_at) < 0)
		return -EIO;
	return memcmp(text, name, len) == 0;
}

int pack_find(const struct pack *p, uint32_t dir, const char *name, size_t len, uint32_t hash,
	      uint32_t *ret_slot)
{
	uint32_t slot = hash & (p->nslots - 1);

	for (; p->slots[slot] != PACK_NONE; slot = (slot + 1) & (p->nslots - 1)) {
		const struct pack_entry *e = &p->entries[p->slots[slot]];
		int r;

		if (e->hash != hash || e->parent != dir)
			continue;
		r = name_is(p, e, name, len);
		if (r < 0)
			return r;
		if (r)
			break;
	}
	*ret_slot = slot;
	return 0;
}

int pack_lookup(const struct pack *p, uint32_t dir, const char *name, uint32_t *ret_entry)
{
	const size_t len = strlen(name);
	uint32_t slot;
	int r;

	assert(dir < p->n);
	if (!S_ISDIR(p->entries[dir].mode))
		return -ENOTDIR;
	if (!len || len > PROTO_NAME_MAX)
		return -ENOENT;
	r = pack_find(p, dir, name, len, pack_hash(p, dir, name, len), &slot);
	if (r < 0 || p->slots[slot] == PACK_NONE)
		return -ENOENT;
	*ret_entry = p->slots[slot];
	return 0;
}

uint32_t pack_parent(const struct pack *p, uint32_t entry)
{
	assert(entry < p->n);
	return p->entries[entry].parent;
}

const char *pack_name(const struct pack *p, uint32_t entry)
{
	assert(entry < p->n && entry != PACK_ROOT);
	return p->map + p->entries[entry].name_at;
}

/* The entry that has the file, of which @entry may be another name. */
static const struct pack_entry *file_of(const struct pack *p, uint32_t entry)
{
	const struct pack_entry *e = &p->entries[entry];

	assert(entry < p->n);
	return S_ISREG(e->mode) ? &p->entries[e->first] : e;
}

/* As the file system of sandboxes has it, which is a tmpfs. */
static uint64_t size_of(const struct pack_entry *e)
{
	return S_ISDIR(e->mode) ? TMPFS_NAME * (2 + e->size) : e->size;
}

void pack_attr(const struct pack *p, uint32_t entry, struct pack_attr *ret_attr)
{
	const struct pack_entry *e = file_of(p, entry);

	*ret_attr = (struct pack_attr){
		.mode = e->mode,
		.nlink = e->nlink,
		.size = size_of(e),
		.blocks = S_ISREG(e->mode) ? (e->stored + BLOCK - 1) / BLOCK : 0,
		.mtime = {.tv_sec = e->mtime, .tv_nsec = e->mtime_ns},
		.number = e->number,
		.file = (uint32_t)(e - p->entries),
	};
}

/* An offset is the number of the entry before, and one more. */
void pack_list(const struct pack *p, uint32_t dir, uint64_t offset,
	       bool (*put)(void *data, const char *name, uint32_t entry, uint64_t offset),
	       void *data)
{
	uint32_t at;

	assert(dir < p->n);
	if (!S_ISDIR(p->entries[dir].mode))
		return;
	at = p->entries[dir].first;
	if (offset) {
		if (offset > p->n || offset == 1 || p->entries[offset - 1].parent != dir)
			return;
		at = p->entries[offset - 1].next;
	}
	for (; at != PACK_NONE; at = p->entries[at].next) {
		if (!put(data, p->map + p->entries[at].name_at, at, at + 1ull))
			return;
	}
}

const char *pack_target(const struct pack *p, uint32_t entry)
{
	assert(entry < p->n);
	return S_ISLNK(p->entries[entry].mode) ? p->map + p->entries[entry].target_at : NULL;
}

const char *pack_origin(const struct pack *p, uint32_t entry)
{
	const struct pack_entry *e = file_of(p, entry);

	return e->origin_at ? p->map + e->origin_at : NULL;
}

bool pack_has_origins(const struct pack *p)
{
	return p->origins;
}

/* ---- content ---- */

/* The first extent of @e that ends behind @offset; all that follow do, too. */
static uint32_t extent_at(const struct pack *p, const struct pack_entry *e, uint64_t offset)
{
	uint32_t low = e->extent, high = e->extent + e->nextents;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (p->extents[middle].offset + p->extents[middle].len <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

ssize_t pack_pread(const struct pack *p, uint32_t entry, void *buf, size_t len, uint64_t offset)
{
	const struct pack_entry *e = file_of(p, entry);
	size_t done = 0;

	if (!S_ISREG(e->mode))
		return -EINVAL;
	len = (size_t)MIN(len, offset < e->size ? e->size - offset : 0);
	for (uint32_t i = extent_at(p, e, offset); done < len; i++) {
		const struct pack_extent *x = i < e->extent + e->nextents ? &p->extents[i] : NULL;
		const uint64_t at = offset + done, from = x ? x->offset : e->size;
		const size_t hole = at < from ? (size_t)MIN(from - at, (uint64_t)(len - done)) : 0;
		size_t n;

		memset((char *)buf + done, 0, hole);
		done += hole;
		if (!x || done == len)
			break;
		n = (size_t)MIN(x->offset + x->len - (at + hole), (uint64_t)(len - done));
		if (fileio_read_at(p->fd, (char *)buf + done, n,
				   (off_t)(x->at + (at + hole - x->offset))) < 0)
			return -EIO;
		done += n;
	}
	return (ssize_t)done;
}

/* The end of the data around extent @i of @e, up to a hole: a frame of the agent ends in the middle of it, and the next one goes
 * on. Extents behind that hole have a `first` behind @i. */
static uint64_t data_end(const struct pack *p, const struct pack_entry *e, uint32_t i)
{
	uint32_t low = i, high = e->extent + e->nextents - 1;

	while (low < high) {
		const uint32_t middle = high - (high - low) / 2;

		if (p->extents[middle].first <= i)
			low = middle;
		else
			high = middle - 1;
	}
	return p->extents[low].offset + p->extents[low].len;
}

int pack_seek(const struct pack *p, uint32_t entry, uint64_t offset, int whence,
	      uint64_t *ret_offset)
{
	const struct pack_entry *e = file_of(p, entry);
	const struct pack_extent *x;
	uint32_t i;

	if (!S_ISREG(e->mode) || (whence != SEEK_DATA && whence != SEEK_HOLE))
		return -EINVAL;
	i = extent_at(p, e, offset);
	x = i < e->extent + e->nextents ? &p->extents[i] : NULL;
	if (offset >= e->size || (whence == SEEK_DATA && !x))
		return -ENXIO;
	if (whence == SEEK_DATA)
		*ret_offset = MAX(x->offset, offset);
	else
		*ret_offset = x && x->offset <= offset ? data_end(p, e, i) : offset;
	return 0;
}

uint64_t pack_records_size(const struct pack *p)
{
	return p->size;
}

ssize_t pack_read_records(const struct pack *p, void *buf, size_t len, uint64_t offset)
{
	int r;

	len = (size_t)MIN(len, offset < p->size ? p->size - offset : 0);
	r = fileio_read_at(p->fd, buf, len, (off_t)offset);
	return r < 0 ? r : (ssize_t)len;
}
