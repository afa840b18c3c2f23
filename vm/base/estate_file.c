/* SPDX-License-Identifier: Apache-2.0 */
/* The file of an estate: its pages, and entries in them. See estate.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "estate_internal.h"
#include "io.h"
#include "util.h"

#define CHUNK_MIN (64ull << 10) /* by which an area grows */
#define CHUNK_MAX (4ull << 20)

static uint64_t area_at(unsigned area)
{
	return ESTATE_AREA_AT + area * ESTATE_AREA_SIZE;
}

static uint64_t region_at(unsigned number)
{
	return ESTATE_REGION_AT + (uint64_t)number * ESTATE_REGION_MAX;
}

static uint64_t whole(uint64_t bytes, uint64_t of)
{
	return (bytes + of - 1) / of * of;
}

/* Signals don't cut it short. Return: 0 or -errno. */
static int allocate(int fd, int mode, uint64_t at, uint64_t len)
{
	int r;

	do
		r = fallocate(fd, mode, (off_t)at, (off_t)len);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

static int punch(int fd, uint64_t at, uint64_t len)
{
	return allocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len);
}

/* Return: NULL and errno. In a core of this process there would be nothing but zeroes, for most of
 * it has no pages. */
static void *map(int fd, uint64_t at, uint64_t size, int flags)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, (off_t)at);

	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, size, MADV_DONTDUMP);
	return p;
}

int estate_map(struct estate *e)
{
	int r = allocate(e->fd, 0, 0, ESTATE_PAGE);

	if (r < 0)
		return r;
	e->head = map(e->fd, 0, ESTATE_PAGE, 0);
	if (!e->head)
		return -errno;
	for (unsigned i = 0; i < ESTATE_AREAS; i++) {
		e->area[i].map = map(e->fd, area_at(i), ESTATE_AREA_SIZE, MAP_NORESERVE);
		if (!e->area[i].map)
			return -errno;
	}
	return 0;
}

static void unmap_region(struct estate *e, unsigned number)
{
	if (e->region[number])
		munmap(e->region[number], e->region_size[number]);
	e->region[number] = NULL;
}

void estate_unmap_region(struct estate *e, unsigned number)
{
	unmap_region(e, number);
	(void)punch(e->fd, region_at(number), ESTATE_REGION_MAX);
}

void estate_unmap(struct estate *e)
{
	for (unsigned i = 0; i < ESTATE_REGIONS; i++)
		unmap_region(e, i);
	for (unsigned i = 0; i < ESTATE_AREAS; i++)
		if (e->area[i].map)
			munmap(e->area[i].map, ESTATE_AREA_SIZE);
	if (e->head)
		munmap(e->head, ESTATE_PAGE);
}

int estate_grow(struct estate *e, unsigned area, uint64_t upto)
{
	struct estate_area *a = &e->area[area];
	const uint64_t chunk = MIN(MAX(a->taken / 8, CHUNK_MIN), CHUNK_MAX);
	uint64_t to;
	int r;

	if (upto <= a->taken)
		return 0;
	if (upto > ESTATE_AREA_SIZE)
		return -ENOMEM;
	to = MIN(whole(MAX(upto, a->taken + chunk), ESTATE_PAGE), ESTATE_AREA_SIZE);
	r = allocate(e->fd, 0, area_at(area) + a->taken, to - a->taken);
	if (r == 0)
		a->taken = to;
	return r;
}

void estate_give_back(struct estate *e, unsigned area, uint64_t keep, uint64_t most)
{
	struct estate_area *a = &e->area[area];
	uint64_t len;

	keep = whole(keep, ESTATE_PAGE);
	if (a->taken <= keep)
		return;
	len = MIN(a->taken - keep, whole(most, ESTATE_PAGE));
	/* What can't be given back is there when it is wanted again. */
	(void)punch(e->fd, area_at(area) + a->taken - len, len);
	a->taken -= len;
}

int estate_cut(struct estate *e, unsigned area, uint64_t used)
{
	struct estate_area *a = &e->area[area];

	a->tail = used;
	a->taken = whole(used, ESTATE_PAGE);
	return a->taken == ESTATE_AREA_SIZE
		       ? 0
		       : punch(e->fd, area_at(area) + a->taken, ESTATE_AREA_SIZE - a->taken);
}

int estate_append(struct estate *e, unsigned area, const struct estate_item *it, bool dropped,
		  const void *fields, size_t len, uint64_t *ret_at)
{
	struct estate_area *a = &e->area[area];
	const uint64_t size = estate_entry_size(len);
	struct estate_entry *to;
	int r = estate_grow(e, area, a->tail + size);

	if (r < 0)
		return r;
	to = estate_entry_at(e, area, a->tail);
	*to = (struct estate_entry){
		.len = (uint32_t)len,
		.kind = it->kind | (dropped ? ESTATE_DROPPED : 0),
		.key = it->key,
		.sub = it->sub,
		.serial = it->serial,
	};
	if (len)
		memcpy(to + 1, fields, len);
	*ret_at = a->tail;
	a->tail += size;
	return 0;
}

void *estate_region(struct estate *e, unsigned number, size_t size)
{
	const uint64_t at = region_at(number);
	void *p;

	if (number >= ESTATE_REGIONS || size == 0 || size > ESTATE_REGION_MAX)
		return NULL;
	size = whole(size, ESTATE_PAGE);
	if (e->region[number])
		return size == e->region_size[number] ? e->region[number] : NULL;
	if (allocate(e->fd, 0, at, size) < 0)
		return NULL;
	p = map(e->fd, at, size, MAP_POPULATE);
	if (!p)
		return NULL;
	(void)mlock(p, size); /* it is as good as it gets without */
	e->region[number] = p;
	e->region_size[number] = size;
	return p;
}

uint64_t estate_taken_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}

size_t estate_taken(const struct estate *e)
{
	return (size_t)estate_taken_of(e->fd);
}

/* ---- a copy ---- */

#define COPIED_AT_ONCE (64u << 10)
#define READ_AT_ONCE   (1u << 20)

int estate_copy_head(struct estate *e, int from)
{
	return fileio_read_at(from, e->head, sizeof(*e->head), 0);
}

/* Return: where this place of the file is, if it is in a region that is mapped; *@len may become
 * less. */
static void *mapped(const struct estate *e, uint64_t at, uint64_t *len)
{
	const uint64_t i = (at - ESTATE_REGION_AT) / ESTATE_REGION_MAX,
		       in = (at - ESTATE_REGION_AT) % ESTATE_REGION_MAX;

	if (!e->region[i] || in >= e->region_size[i])
		return NULL;
	*len = MIN(*len, e->region_size[i] - in);
	return (char *)e->region[i] + in;
}

/* Return: 0 or -errno. */
static int copy_part(const struct estate *e, int from, uint64_t at, uint64_t end)
{
	char bytes[COPIED_AT_ONCE];
	int r = 0;

	for (uint64_t len; r == 0 && at < end; at += len) {
		void *to;

		len = MIN(end - at, READ_AT_ONCE);
		to = mapped(e, at, &len);
		if (!to)
			len = MIN(len, sizeof(bytes));
		r = fileio_read_at(from, to ? to : bytes, len, (off_t)at);
		if (r == 0 && !to)
			r = fileio_write_at(e->fd, bytes, len, (off_t)at);
		estate_gets_on(e);
	}
	return r;
}

/* Those of which there are pages. */
static int copy_regions(const struct estate *e, int from)
{
	uint64_t end = ESTATE_REGION_AT;
	int r = 0;

	while (r == 0) {
		const off_t at = lseek(from, (off_t)end, SEEK_DATA);
		off_t hole;

		if (at < 0)
			return errno == ENXIO ? 0 : -errno;
		if ((uint64_t)at >= ESTATE_REGIONS_END)
			return 0;
		hole = lseek(from, at, SEEK_HOLE);
		end = MIN((uint64_t)hole, ESTATE_REGIONS_END);
		r = copy_part(e, from, (uint64_t)at, end);
	}
	return r;
}

/* Of the active area, what is committed. It takes memory, of which there may be little. */
static int copy_records(struct estate *e, int from)
{
	const uint64_t begin = area_at(e->active);
	struct estate_area *a = &e->area[e->active];
	int r = 0;

	for (uint64_t at = 0, len; r == 0 && at < e->end; at += len) {
		len = MIN(e->end - at, READ_AT_ONCE);
		r = estate_grow(e, e->active, at + len);
		if (r == 0)
			r = fileio_read_at(from, a->map + at, len, (off_t)(begin + at));
		estate_gets_on(e);
	}
	return r;
}

int estate_copy(struct estate *e, int from)
{
	struct estate_area *a = &e->area[e->active];
	int r = copy_records(e, from);

	if (r == 0)
		r = copy_regions(e, from);
	a->tail = r == 0 ? e->end : 0;
	return r;
}
