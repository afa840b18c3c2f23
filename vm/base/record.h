/* SPDX-License-Identifier: Apache-2.0 */
/* Records: what an object knows of itself as bytes, for who comes after this process. */
#ifndef XSBX_VM_BASE_RECORD_H
#define XSBX_VM_BASE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "buf.h"

/*
 * A stream of records, each of a kind and with a key, which together say whose it is. A record has
 * fields:
 *
 *     record: u32 kind, u32 len, u64 key, then `len` bytes of fields
 *     field:  u8 tag, then a number (LEB128, at most ten bytes); or u8 tag | 128, u32 len, then `len` bytes
 *
 * all little-endian. Fields of one tag may be repeated: a list. Bytes may be fields again:
 * record_open(). Whoever reads takes the tags that he knows and passes over the others, and gives
 * what is missing a default; so tags are never used for something else, and a version that knows
 * more and one that knows less read each other.
 *
 * What is read is not trusted: it may come from a damaged disk, or from a process that was taken
 * over by a guest. The functions here check lengths, and those who call them all else.
 */

#define RECORD_TAG_MAX 127u
#define RECORD_MAX     (256u << 20) /* bytes of one */

/* ---- writing: appends to `out`, whose `failed` is looked at once, at the end ---- */

/* Return: where it is, for record_end(). */
size_t record_begin(struct buf *out, uint32_t kind, uint64_t key);
/* Return: 0, or the first error of all that was appended: -ENOMEM, -EFBIG. */
int record_end(struct buf *out, size_t at);

void record_u64(struct buf *out, unsigned tag, uint64_t v);
void record_i64(struct buf *out, unsigned tag, int64_t v);
void record_bytes(struct buf *out, unsigned tag, const void *data, size_t len);
/* What is in front of such bytes, for who has them already: RECORD_BYTES_HEAD of them. */
#define RECORD_BYTES_HEAD 5u
void record_bytes_head(unsigned char *head, unsigned tag, size_t len);
/* NULL: left out. */
void record_str(struct buf *out, unsigned tag, const char *s);
void record_time(struct buf *out, unsigned tag, const struct timespec *t);

/* Fields within a field. Return: for record_close(). */
size_t record_open(struct buf *out, unsigned tag);
void record_close(struct buf *out, size_t at);

/* ---- reading ---- */

struct record_reader {
	const unsigned char *at, *end;
};

struct record {
	uint32_t kind;
	uint64_t key;
	struct record_reader fields;
};

/* Valid as long as what is read. */
struct record_field {
	unsigned tag;
	bool is_bytes;
	uint64_t u64; /* 0 if it is bytes */
	const void *data;
	size_t len; /* 0 if it is a number */
};

static inline struct record_reader record_reader(const void *data, size_t len)
{
	const unsigned char *at = data;

	return (struct record_reader){at, at ? at + len : at};
}

/* Return: 1, 0 at the end, -EBADMSG if this is not the beginning of a whole record. */
int record_next(struct record_reader *r, struct record *ret_record);

/* Likewise of a record's fields, or of those in a field. */
int record_field(struct record_reader *r, struct record_field *ret_field);

static inline struct record_reader record_inside(const struct record_field *f)
{
	return record_reader(f->data, f->len);
}

/* All return 0, or -EBADMSG, with nothing stored, if that is not what is there. */

/* A number of @min to @max. */
int record_get(const struct record_field *f, uint64_t min, uint64_t max, uint64_t *ret_v);
int record_get_u32(const struct record_field *f, uint32_t max, uint32_t *ret_v);
int record_get_bool(const struct record_field *f, bool *ret_v);
int record_get_i64(const struct record_field *f, int64_t *ret_v);
int record_get_time(const struct record_field *f, struct timespec *ret_t);
/* Text without a NUL in it, shorter than @size, which is terminated. */
int record_get_str(const struct record_field *f, char *dest, size_t size);
/* Replaces what is in @dest, within its limit. Return likewise, and -ENOMEM. */
int record_get_buf(const struct record_field *f, struct buf *dest);

#endif
