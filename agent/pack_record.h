/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a pack: all files of a working directory as one stream of bytes, shared by the
 * agent and vm/. */
#ifndef XSBX_AGENT_PACK_RECORD_H
#define XSBX_AGENT_PACK_RECORD_H

#include <stdint.h>

#include "protocol.h"

/*
 * Theory of operation
 * -------------------
 * A pack is what a depth-first walk has found, as records {u8 kind, u32 length, ...}; names and
 * link targets have a NUL behind them, so that they can be used where they lie:
 *
 *	DIR	u32 mode, u64 mtime, u32 ns, name		its entries follow, up to its UP
 *	FILE	u32 mode, u64 mtime, u32 ns, name, u64 size, u8 shared	DATA may follow
 *	DATA	u64 offset, bytes				of the file before; what none covers is a hole
 *	LINK	u32 mode, u64 mtime, u32 ns, name, target	a symbolic link
 *	SAME	name, u32 entry					one more name of a `shared` file that came before
 *	OTHER	u32 mode, u64 mtime, u32 ns, name		a socket, FIFO or device: that it was there
 *	UP
 *	NUMBER	u64: the inode number that the host was told of the entry before (or before its DATA), not 0; none of SAME
 *	ORIGIN	text: who wrote the entry before, behind its NUMBER; none of SAME
 *
 * The first record is the DIR of the working directory itself, without a name, and the last its UP.
 * All that have a name, and the first, are entries, numbered from 0.
 *
 * Both sides parse with these functions, which check what can be seen of one record; that records
 * fit each other, each side sees for itself.
 */

enum pack_kind {
	PACK_DIR = 1,
	PACK_FILE,
	PACK_DATA,
	PACK_LINK,
	PACK_SAME,
	PACK_OTHER,
	PACK_UP,
	PACK_NUMBER,
	PACK_ORIGIN,
};

#define PACK_HEADER	5u	       /* kind and length */
#define PACK_RECORD_MAX PROTO_DATA_MAX /* with the header */
#define PACK_MODE_MASK	01777u	       /* permissions that there can be: no set-id bits */
#define PACK_DEPTH_MAX	1024u	       /* directories in each other, with the working directory */
#define PACK_DATA_HEAD	(PACK_HEADER + 8u) /* of DATA, before its bytes */

struct pack_record {
	enum pack_kind kind;
	const char *name; /* terminated; "": the working directory; the text of ORIGIN */
	uint32_t name_len;
	uint32_t mode; /* S_IFMT and permissions */
	int64_t mtime;
	uint32_t mtime_ns;
	uint64_t size;	    /* FILE */
	bool shared;	    /* FILE: SAME may follow */
	const char *target; /* LINK; terminated */
	uint32_t target_len;
	uint32_t entry;	 /* SAME */
	uint64_t number; /* NUMBER */
	uint64_t offset; /* DATA */
	const uint8_t *data;
	uint32_t len;
};

/* Most bytes that pack_record_put() takes of a record without DATA. */
#define PACK_NUMBER_SIZE (PACK_HEADER + 8u)
#define PACK_ORIGIN_ROOM (PACK_HEADER + 2u + PROTO_ORIGIN_MAX)
#define PACK_RECORD_ROOM (PACK_HEADER + 16u + 2u + PROTO_NAME_MAX + 5u + PROTO_LINK_MAX + 8u)

/** pack_record_put() - Write a record that is not DATA. */
void pack_record_put(struct proto_out *o, const struct pack_record *r);

/**
 * pack_data_begin() - Write the beginning of DATA, whose bytes the caller then puts behind it
 * @o: With room for PACK_DATA_HEAD and @len
 * @offset: In the file
 * @len: Bytes
 */
void pack_data_begin(struct proto_out *o, uint64_t offset, uint32_t len);

/**
 * pack_record_get() - Read a record
 * @in: Not trusted; stands behind the record afterwards, or where it stood if there was none
 * @ret_r: Result; points into the payload
 *
 * Return: 0; -EAGAIN if it is not whole; -EPROTO.
 */
int pack_record_get(struct proto_in *in, struct pack_record *ret_r);

#endif
