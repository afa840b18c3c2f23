/* SPDX-License-Identifier: Apache-2.0 */
/* Makes packs of their records. See pack_maker.h. */
#include "pack_maker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "pack_internal.h"
#include "vm/base/io.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The stream is checked and indexed as it comes, record by record, so there is nothing left to do that takes long when
 * it is whole. What it may make us allocate is bounded by the limits: entries by their number, bytes by theirs,
 * and extents, which a stream could have one of for each byte, by both: real ones are a page, or end where a frame of the agent does,
 * of which there are few.
 *
 * Records have to fit each other: there is one tree, with one root; data belongs to the file before it, lies
 * within its size and goes up; names differ within a directory; another name is of a file that said there would be.
 */

static_assert(PACK_LEVELS_MAX == PACK_DEPTH_MAX, "what records may have");

#define EXTENT_BYTES \
	1024u /* of files, for each extent that there may be, beside one for each entry */

struct pack_maker {
	struct pack *pack;
	struct pack_limits limits;
	uint64_t bytes;
	bool done;	     /* the root was left */
	uint32_t unnumbered; /* the last entry, where NUMBER may come, or PACK_NONE */
	uint32_t unwritten;  /* likewise, ORIGIN */
	uint32_t file;	     /* to which DATA belongs, or PACK_NONE */
	uint64_t file_end;   /* of its last extent */
	uint32_t depth;	     /* directories that it is in */
	struct {
		uint32_t entry, last; /* `last`: the newest entry in it, or PACK_NONE */
	} dirs[PACK_DEPTH_MAX];
};

struct pack_maker *pack_maker_free(struct pack_maker *m)
{
	if (m)
		pack_unref(m->pack);
	free(m);
	return NULL;
}

static int slots_init(struct pack *p, uint32_t n)
{
	uint32_t *slots = malloc(n * sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	memset(slots, 0xff, n * sizeof(*slots)); /* PACK_NONE */
	free(p->slots);
	p->slots = slots;
	p->nslots = n;
	return 0;
}

int pack_maker_new(const struct pack_limits *limits, struct pack_maker **ret_maker)
{
	struct pack_maker *m = calloc(1, sizeof(*m));
	struct pack *p = m ? calloc(1, sizeof(*p)) : NULL;
	int r;

	if (!p) {
		free(m);
		return -ENOMEM;
	}
	m->pack = p;
	m->limits = *limits;
	m->file = m->unnumbered = m->unwritten = PACK_NONE;
	p->refs = 1;
	p->fd = memfd_create("xsbx-pack", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r = p->fd < 0 ? -errno : slots_init(p, 64);
	if (r == 0 && getrandom(&p->key, sizeof(p->key), 0) != sizeof(p->key))
		r = -EIO;
	p->key >>= 4; /* less than the prime, and not near 0 but by a miracle */
	if (r < 0) {
		pack_maker_free(m);
		return r;
	}
	*ret_maker = m;
	return 0;
}

/* ---- the index ---- */

/* Makes room for one more of @size bytes. Return: 0 or -ENOMEM. */
static int grow(void *array, uint32_t n, uint32_t *cap, size_t size)
{
	const uint32_t more = *cap ? *cap + *cap / 2 : 16;
	void *p;

	if (n < *cap)
		return 0;
	p = realloc(*(void **)array, more * size);
	if (!p)
		return -ENOMEM;
	*(void **)array = p;
	*cap = more;
	return 0;
}

/* Keeps the table at most half full. */
static int slots_grow(struct pack *p)
{
	int r = 0;

	if (p->n < p->nslots / 2)
		return 0;
	r = slots_init(p, 2 * p->nslots);
	for (uint32_t i = 1; r == 0 && i < p->n; i++) {
		uint32_t slot = p->entries[i].hash & (p->nslots - 1);

		while (p->slots[slot] != PACK_NONE)
			slot = (slot + 1) & (p->nslots - 1);
		p->slots[slot] = i;
	}
	return r;
}

/* Enters its name into the table. Return: 0, -EPROTO if it is there already, -ENOMEM, -EIO. */
static int enter_name(struct pack_maker *m, const struct pack_record *r, struct pack_entry *e)
{
	struct pack *p = m->pack;
	uint32_t slot;
	int err = slots_grow(p);

	if (err < 0)
		return err;
	e->hash = pack_hash(p, e->parent, r->name, r->name_len);
	err = pack_find(p, e->parent, r->name, r->name_len, e->hash, &slot);
	if (err < 0)
		return err;
	if (p->slots[slot] != PACK_NONE)
		return -EPROTO;
	p->slots[slot] = p->n;
	return 0;
}

/* Adds an entry to the directory that the stream is in. @at: of its name. */
static int add_entry(struct pack_maker *m, const struct pack_record *r, uint64_t at,
		     struct pack_entry **ret_entry)
{
	struct pack *p = m->pack;
	struct pack_entry e = {.name_at = at,
			       .mtime = r->mtime,
			       .mtime_ns = r->mtime_ns,
			       .mode = r->mode,
			       .next = PACK_NONE,
			       .first = p->n,
			       .nlink = 1,
			       .name_len = (uint8_t)r->name_len};
	int err = p->n < m->limits.entries ? 0 : -EFBIG;

	if (err == 0)
		err = grow(&p->entries, p->n, &p->entries_cap, sizeof(e));
	if (err == 0 && m->depth) {
		e.parent = m->dirs[m->depth - 1].entry;
		err = enter_name(m, r, &e);
	}
	if (err < 0)
		return err;
	if (m->depth) {
		uint32_t *last = &m->dirs[m->depth - 1].last;

		*(*last == PACK_NONE ? &p->entries[e.parent].first : &p->entries[*last].next) =
			p->n;
		*last = p->n;
		p->entries[e.parent].size++;
	}
	p->entries[p->n] = e;
	*ret_entry = &p->entries[p->n++];
	return 0;
}

/* Counts bytes that the sandbox has chosen the number of. */
static int charge(struct pack_maker *m, uint64_t bytes)
{
	if (bytes > m->limits.bytes - m->bytes)
		return -EFBIG;
	m->bytes += bytes;
	return 0;
}

static int add_dir(struct pack_maker *m, struct pack_entry *e)
{
	struct pack *p = m->pack;

	if (m->depth == PACK_DEPTH_MAX)
		return -EPROTO;
	if (m->depth)
		p->entries[e->parent].nlink++;
	e->nlink = 2;
	e->first = PACK_NONE;
	m->dirs[m->depth].entry = (uint32_t)(e - p->entries);
	m->dirs[m->depth++].last = PACK_NONE;
	return 0;
}

/* One more name of a file. */
static int add_same(struct pack_maker *m, const struct pack_record *r, uint64_t at)
{
	struct pack *p = m->pack;
	struct pack_entry *e;
	int err;

	if (r->entry >= p->n || !p->entries[r->entry].shared)
		return -EPROTO;
	err = add_entry(m, r, at, &e);
	if (err < 0)
		return err;
	e->mode = S_IFREG;
	e->first = r->entry;
	p->entries[r->entry].nlink++;
	return 0;
}

static int add_data(struct pack_maker *m, const struct pack_record *r, uint64_t at)
{
	struct pack *p = m->pack;
	struct pack_entry *e;
	uint32_t first;
	int err;

	if (m->file == PACK_NONE)
		return -EPROTO;
	e = &p->entries[m->file];
	if (r->offset < m->file_end || r->offset > e->size || r->len > e->size - r->offset)
		return -EPROTO;
	err = charge(m, r->len);
	if (err == 0 &&
	    (p->nextents >= p->n + m->limits.bytes / EXTENT_BYTES || p->nextents == UINT32_MAX / 2))
		err = -EFBIG;
	if (err == 0)
		err = grow(&p->extents, p->nextents, &p->extents_cap, sizeof(*p->extents));
	if (err < 0)
		return err;
	if (!e->nextents)
		e->extent = p->nextents;
	first = e->nextents && r->offset == m->file_end ? p->extents[p->nextents - 1].first
							: p->nextents;
	p->extents[p->nextents++] = (struct pack_extent){r->offset, at, r->len, first};
	e->nextents++;
	e->stored += r->len;
	m->file_end = r->offset + r->len;
	return 0;
}

/* An entry of another kind; @base: of the payload, in the records. */
static int add_other(struct pack_maker *m, const struct pack_record *r, const uint8_t *payload,
		     uint64_t base)
{
	struct pack_entry *e;
	int err = add_entry(m, r, base + (uint64_t)((const uint8_t *)r->name - payload), &e);

	if (err < 0)
		return err;
	m->unnumbered = m->unwritten = m->pack->n - 1;
	if (r->kind == PACK_DIR)
		return add_dir(m, e);
	e->size = r->size;
	if (r->kind == PACK_FILE) {
		e->shared = r->shared;
		m->file = m->pack->n - 1;
		m->file_end = 0;
	} else if (r->kind == PACK_LINK) {
		e->size = r->target_len;
		e->target_at = base + (uint64_t)((const uint8_t *)r->target - payload);
		err = charge(m, r->target_len);
	}
	return err;
}

static int add_number(struct pack_maker *m, uint64_t number)
{
	if (m->unnumbered == PACK_NONE)
		return -EPROTO;
	m->pack->entries[m->unnumbered].number = number;
	m->unnumbered = PACK_NONE;
	return 0;
}

static int add_origin(struct pack_maker *m, uint64_t at)
{
	if (m->unwritten == PACK_NONE)
		return -EPROTO;
	m->pack->entries[m->unwritten].origin_at = at;
	m->pack->origins = true;
	m->unwritten = PACK_NONE;
	return 0;
}

static int add_record(struct pack_maker *m, const struct pack_record *r, const uint8_t *payload,
		      uint64_t base)
{
	const bool first = !m->pack->n;

	if (m->done || (first && (r->kind != PACK_DIR || r->name_len)))
		return -EPROTO;
	if (r->kind == PACK_DATA)
		return add_data(m, r, base + (uint64_t)(r->data - payload));
	if (r->kind == PACK_NUMBER)
		return add_number(m, r->number);
	if (r->kind == PACK_ORIGIN)
		return add_origin(m, base + (uint64_t)((const uint8_t *)r->name - payload));
	m->unnumbered = m->unwritten = PACK_NONE;
	m->file = PACK_NONE;
	if (r->kind == PACK_UP) {
		m->done = --m->depth == 0;
		return 0;
	}
	if (!first && !r->name_len)
		return -EPROTO;
	return r->kind == PACK_SAME
		       ? add_same(m, r, base + (uint64_t)((const uint8_t *)r->name - payload))
		       : add_other(m, r, payload, base);
}

/* ---- the stream ---- */

int pack_maker_add(struct pack_maker *m, const void *bytes, size_t len, size_t *ret_used)
{
	struct pack *p = m->pack;
	struct proto_in in = {bytes, (const uint8_t *)bytes + len, false};
	struct pack_record r;
	/* First, as names are compared with what is there. */
	int err = fileio_write_at(p->fd, bytes, len, (off_t)p->size);

	while (err == 0) {
		err = pack_record_get(&in, &r);
		if (err == 0)
			err = add_record(m, &r, bytes, p->size);
	}
	if (err != -EAGAIN)
		return err;
	*ret_used = (size_t)(in.p - (const uint8_t *)bytes);
	p->size += *ret_used;
	return 0;
}

/* Gives back the memory of what did not come. */
static void fit(void *array, uint32_t n, uint32_t *cap, size_t size)
{
	void *p = n && n < *cap ? realloc(*(void **)array, n * size) : NULL;

	if (!p)
		return;
	*(void **)array = p;
	*cap = n;
}

/* Nothing changes any more. F_SEAL_WRITE would first have to wait for all whose business the pages are at the moment, be it the
 * kernel's own, and fails with EBUSY if that takes long; nobody has a mapping that could be written to. */
static int seal(struct pack *p)
{
	void *map;

	/* Half a record may lie behind them. */
	if (ftruncate(p->fd, (off_t)p->size) < 0 ||
	    fcntl(p->fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	map = mmap(NULL, p->size, PROT_READ, MAP_PRIVATE, p->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	p->map = map;
	fit(&p->entries, p->n, &p->entries_cap, sizeof(*p->entries));
	fit(&p->extents, p->nextents, &p->extents_cap, sizeof(*p->extents));
	return 0;
}

int pack_maker_end(struct pack_maker *m, const struct pack_flaws *flaws, struct pack **ret_pack)
{
	int r = m->done ? seal(m->pack) : -EPROTO;

	if (r == 0) {
		m->pack->flaws = *flaws;
		*ret_pack = steal_ptr(m->pack);
	}
	pack_maker_free(m);
	return r;
}
