/* SPDX-License-Identifier: Apache-2.0 */
/* Points on disk. */
#ifndef XSBX_VM_CHECKPOINT_POINT_DISK_H
#define XSBX_VM_CHECKPOINT_POINT_DISK_H

#include "point.h"
#include "seal.h"
#include "vm/base/buf.h"
#include "vm/base/digest.h"
#include "vm/base/record.h"

/*
 * Of a point there are two files in a directory, which its owner makes and renames: its base and
 * its stream, both packed (packed_ram.h) and sealed (seal.h). All else stands in what its owner
 * keeps beside them (struct point_facts).
 *
 * Bases are as large as snapshots, and many points have the same one: each is in a directory of
 * bases as well, under a name made of its content, and points have links to it.
 */

struct point_facts {
	uint64_t base_bytes, stream_bytes; /* of the files in memory */
	char base_sum[DIGEST_HEX];	   /* see sparse_sum() */
	/* Numbers, and what it depends on. The latter is not in what is read, but for where it is
	 * (`machine`), in what was read. */
	struct point point;
	const char *machine;
	size_t machine_len;
};

/* As fields of a record. */
void point_facts_put(struct buf *out, const struct point_facts *f);
/* Return: 0 or -EBADMSG. */
int point_facts_get(const struct record_field *field, struct point_facts *ret_facts);

/* These block for a second: call them in worker threads. */

/**
 * point_store() - Write a point
 * @key: Seals it
 * @id: Of its directory: nothing else is taken for it
 * @dir: Directory, without such files
 * @bases: Directory of bases, on the same file system
 * @p: Point
 * @base_sum: Of its base, if that is known; or ""
 * @ret_facts: What has to be kept beside it; its text is @p's
 *
 * All is on the disk then, but for the names in both directories. Return: 0 or -errno.
 */
int point_store(const struct seal_key *key, const char *id, int dir, int bases,
		const struct point *p, const char *base_sum, struct point_facts *ret_facts);

/**
 * point_load() - Read a point
 * @key: It was sealed with
 * @id: Of its directory
 * @dir: Its directory
 * @f: What was kept beside it
 * @base: A sealed file in memory that is its base; duplicated; or -1: it is read as well
 * @ret_point: Result, with a reference, to which point_settle() is due
 *
 * Return: 0; -EBADMSG if it is damaged; -EKEYREJECTED if it was sealed with another key; or -errno.
 */
int point_load(const struct seal_key *key, const char *id, int dir, const struct point_facts *f,
	       int base, struct point **ret_point);

/* Removes bases that no point has any more. */
void point_clean(int bases);

#endif
