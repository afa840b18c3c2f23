/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an estate: see estate.h. */
#ifndef XSBX_VM_BASE_ESTATE_INTERNAL_H
#define XSBX_VM_BASE_ESTATE_INTERNAL_H

#include <sys/queue.h>

#include "estate.h"

#define ESTATE_MAGIC	   0x6574617473657378ull
#define ESTATE_VERSION	   1u
#define ESTATE_PAGE	   4096u
#define ESTATE_AREAS	   2u
#define ESTATE_AREA_SIZE   (16ull << 30)
#define ESTATE_REGION_AT   (64ull << 20) /* each of ESTATE_REGION_MAX */
#define ESTATE_REGIONS_END (ESTATE_REGION_AT + (uint64_t)ESTATE_REGIONS * ESTATE_REGION_MAX)
#define ESTATE_AREA_AT	   (2ull << 30)
#define ESTATE_SIZE	   (ESTATE_AREA_AT + ESTATE_AREAS * ESTATE_AREA_SIZE)
#define ESTATE_AREA_BIT	   (1ull << 63) /* of head.committed: the second area */
#define ESTATE_DROPPED	   (1u << 31)	/* of entry.kind */

/* The first page of the file. */
struct estate_head {
	uint64_t magic;
	uint32_t version;
	uint32_t given_up;
	uint64_t committed; /* bytes of entries that count, and which area they are in */
};

/* In an area, at a multiple of eight; the fields follow. */
struct estate_entry {
	uint32_t len;
	uint32_t kind;
	uint64_t key, sub;
	uint64_t serial; /* the same for all of one name, until it is dropped */
};

/* A record. Owned by its estate. */
struct estate_item {
	uint32_t kind, len;
	uint64_t key, sub, serial;
	/* Its entry; in the area that is not active only if `move` is the one under way. */
	uint64_t at[ESTATE_AREAS];
	uint32_t move;		       /* the last that it was written in */
	uint32_t seen;		       /* the last comparison, or sweep, that it was put in */
	TAILQ_ENTRY(estate_item) link; /* in the order of serials */
	struct estate_item *by_name;   /* the next one of the same bucket */
	LIST_ENTRY(estate_item) by_key;
};

/*
 * - tail <= taken: memory was asked for.
 * - All entries are before `tail`.
 */
struct estate_area {
	unsigned char *map;
	uint64_t tail, taken;
};

/*
 * - Every item has an entry in the active area.
 * - While `moving`, every item before `cursor` has one in the other area, and so has each that was
 *   written since; what is committed there is nothing.
 * - `failed` or not, head and regions are mapped, these until estate_retire().
 */
struct estate {
	int fd;
	int failed; /* the error after which it was given up, or 0 */
	struct estate_head *head;
	void *region[ESTATE_REGIONS];
	size_t region_size[ESTATE_REGIONS];
	struct sheets sheets;

	void (*gets_on)(void *data); /* while it is taken; or NULL */
	void *gets_on_data;

	struct estate_area area[ESTATE_AREAS];
	unsigned active;
	uint64_t end;	   /* of the active area, committed */
	uint64_t last_end; /* as it was at the commit before */

	TAILQ_HEAD(estate_items, estate_item) items;
	uint64_t serial; /* the last one */
	size_t n, live;	 /* items, and their bytes */
	struct estate_item **names;
	LIST_HEAD(estate_key, estate_item) * keys;
	size_t buckets; /* of each: a power of two */
	uint64_t seed;

	bool moving;
	uint32_t move;		    /* counts them */
	struct estate_item *cursor; /* the next one to be copied; NULL: none is left */
	unsigned
		rested; /* commits since the last move has ended, as far as estate_tidy.c counts them */
	uint64_t tidy_at; /* not before the area is as long as this */

	struct estate_compare *compare;
	bool sweeps;	     /* never both */
	uint32_t comparison; /* counts them, and sweeps */
};

/* What an entry with @len bytes of fields takes. */
static inline uint64_t estate_entry_size(size_t len)
{
	return sizeof(struct estate_entry) + (((uint64_t)len + 7) & ~7ull);
}

static inline struct estate_entry *estate_entry_at(const struct estate *e, unsigned area,
						   uint64_t at)
{
	return (struct estate_entry *)(void *)(e->area[area].map + at);
}

static inline void estate_gets_on(const struct estate *e)
{
	if (e->gets_on)
		e->gets_on(e->gets_on_data);
}

/* ---- estate_file.c: the file and its pages ---- */

/* Maps a file of the right size. Return: 0 or -errno. */
int estate_map(struct estate *e);
void estate_unmap(struct estate *e);
/* A region that nobody looks at any more, and what the file has of it. */
void estate_unmap_region(struct estate *e, unsigned number);

/* Has memory for @upto bytes of an area. Return: 0 or -errno. */
int estate_grow(struct estate *e, unsigned area, uint64_t upto);

/* Gives back the pages behind the first @keep bytes, about @most bytes of them. */
void estate_give_back(struct estate *e, unsigned area, uint64_t keep, uint64_t most);

/* Nothing behind @used bytes of an area has pages. Return: 0 or -errno. */
int estate_cut(struct estate *e, unsigned area, uint64_t used);

/* Appends an entry to an area, with the name of @it. Return: 0 or -errno, with nothing written. */
int estate_append(struct estate *e, unsigned area, const struct estate_item *it, bool dropped,
		  const void *fields, size_t len, uint64_t *ret_at);

/* Bytes that a file takes. */
uint64_t estate_taken_of(int fd);

/* From the file of another one, which may be written to meanwhile: its head; then what is committed
 * of the active area, and the regions. Return: 0 or -errno. */
int estate_copy_head(struct estate *e, int from);
int estate_copy(struct estate *e, int from);

/* ---- estate_items.c: what there is, by name and in its order ---- */

int estate_items_init(struct estate *e);
void estate_items_clear(struct estate *e);
struct estate_item *estate_find(const struct estate *e, uint32_t kind, uint64_t key, uint64_t sub);
/* Makes one without fields, the last. Return: NULL if out of memory. */
struct estate_item *estate_item_new(struct estate *e, uint32_t kind, uint64_t key, uint64_t sub);
void estate_item_free(struct estate *e, struct estate_item *it);
/* The first one of this key behind @after, or the first. */
struct estate_item *estate_of_key(const struct estate *e, uint32_t kind, uint64_t key,
				  const struct estate_item *after);

/* Puts them into the order of their serials. Return: 0 or -ENOMEM. */
int estate_items_sort(struct estate *e);

/* @len bytes of fields are to be counted of it from now on. */
void estate_item_count(struct estate *e, struct estate_item *it, size_t len);

/* ---- estate_load.c ---- */

/* Makes the items of what was committed, and checks all of it. Return: 0, -EBADMSG, -ENOMEM. */
int estate_load(struct estate *e);

/* ---- estate_tidy.c: from one area to the other ---- */

/* Called when all is committed. */
void estate_tidy(struct estate *e);

/* An item was written, or @dropped, in the active area, while it is being moved. */
void estate_move_too(struct estate *e, struct estate_item *it, bool dropped);

#endif
