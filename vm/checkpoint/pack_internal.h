/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of packs: what a pack is made of. */
#ifndef XSBX_VM_CHECKPOINT_PACK_INTERNAL_H
#define XSBX_VM_CHECKPOINT_PACK_INTERNAL_H

#include "pack.h"
#include "agent/pack_record.h"

#define PACK_NONE UINT32_MAX

/* Entries are in the order of their records, so that PACK_ROOT is the first. */
struct pack_entry {
	uint64_t name_at; /* of the name, in the records */
	uint64_t
		size; /* of a file; of a link, of its target, which is at `target_at`; of a directory, its entries */
	union {
		uint64_t stored;    /* bytes of a file that are no hole */
		uint64_t target_at; /* in the records */
	};
	int64_t mtime;
	uint64_t number;    /* its inode number in the sandbox; 0: not known */
	uint64_t origin_at; /* of who wrote it, in the records; 0: not known */
	uint32_t mtime_ns;
	uint32_t mode;
	uint32_t parent, next; /* `next`: in the same directory, or PACK_NONE */
	uint32_t first; /* of a directory: in it, or PACK_NONE; else the entry that has the file */
	uint32_t nlink;
	uint32_t extent, nextents; /* of a file, in `extents` */
	uint32_t hash;
	uint8_t name_len;
	bool shared; /* SAME may name it */
};

/* A part of a file that is no hole. */
struct pack_extent {
	uint64_t offset; /* in the file */
	uint64_t at;	 /* in the records */
	uint32_t len;
	uint32_t first; /* of those that lie one behind the other up to this, without a hole */
};

/*
 * The records lie in a memfd, as they came, and sealed once they are whole. What is needed to find something in them is an
 * index: all entries, the extents of files, and a hash table of the names, which is keyed, because it is the sandbox that chooses
 * the names.
 */
struct pack {
	unsigned refs;
	int fd; /* the records */
	uint64_t size;
	const char *map; /* likewise, to be read; NULL until they are whole */
	struct pack_entry *entries;
	uint32_t n, entries_cap;
	struct pack_extent *extents;
	uint32_t nextents, extents_cap;
	uint32_t *slots; /* entries by their hash, PACK_NONE: free; a power of two of them */
	uint32_t nslots;
	uint64_t key;
	struct pack_flaws flaws;
	bool origins; /* there are some */
};

/* The hash of a name in a directory. */
uint32_t pack_hash(const struct pack *p, uint32_t dir, const char *name, size_t len);

/* Looks up a name by its hash. Return: the slot that it is in, or a free one in which it could be; -EIO. */
int pack_find(const struct pack *p, uint32_t dir, const char *name, size_t len, uint32_t hash,
	      uint32_t *ret_slot);

#endif
