/* SPDX-License-Identifier: Apache-2.0 */
/* Makes packs of their records, which come from a sandbox or from a disk, and are not trusted. */
#ifndef XSBX_VM_CHECKPOINT_PACK_MAKER_H
#define XSBX_VM_CHECKPOINT_PACK_MAKER_H

#include "pack.h"

struct pack_maker;

struct pack_limits {
	uint64_t bytes; /* of files and link targets */
	uint32_t entries;
};

/* Return: 0, -ENOMEM, or -errno. */
int pack_maker_new(const struct pack_limits *limits, struct pack_maker **ret_maker);

/* @m may be NULL. Return: NULL. */
struct pack_maker *pack_maker_free(struct pack_maker *m);

/**
 * pack_maker_add() - Add bytes of the stream
 * @m: Maker
 * @bytes: They go on where those before ended; copied
 * @len: How many
 * @ret_used: How many were used: whole records
 *
 * Return: 0, -EPROTO if they are no pack, -EFBIG if it is over the limits, -ENOMEM, or another
 * -errno, after each of which the maker can only be freed.
 */
int pack_maker_add(struct pack_maker *m, const void *bytes, size_t len, size_t *ret_used);

/**
 * pack_maker_end() - All was added
 * @m: Maker; freed, even on failure
 * @flaws: What is known of it
 * @ret_pack: The pack; the reference is the caller's
 *
 * Return: 0, -EPROTO if something is missing, or -errno.
 */
int pack_maker_end(struct pack_maker *m, const struct pack_flaws *flaws, struct pack **ret_pack);

#endif
