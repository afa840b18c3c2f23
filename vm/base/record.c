/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "record.h"

#define HEAD	   16u	/* of a record */
#define IS_BYTES   128u /* in a tag */
#define VARINT_MAX 10u

enum { TIME_SEC = 1, TIME_NSEC };

static uint32_t take32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t take64(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* ---- writing ---- */

/* Return: where @n bytes more are to be put, which are counted already; or NULL, and it has failed. */
static unsigned char *extend(struct buf *out, size_t n)
{
	unsigned char *to;
	int r = n <= out->cap - out->len ? 0 : buf_reserve(out, n);

	if (r < 0) {
		out->failed = out->failed ? out->failed : r;
		return NULL;
	}
	to = (unsigned char *)out->data + out->len;
	out->len += n;
	return to;
}

static void put32(struct buf *out, uint32_t v)
{
	v = htole32(v);
	buf_append(out, &v, sizeof(v));
}

/* The length of what follows @at, which has been left open there. */
static void patch32(struct buf *out, size_t at, size_t len)
{
	uint32_t v;

	if (out->failed)
		return;
	if (len > RECORD_MAX) {
		out->failed = -EFBIG;
		return;
	}
	v = htole32((uint32_t)len);
	memcpy(out->data + at, &v, sizeof(v));
}

size_t record_begin(struct buf *out, uint32_t kind, uint64_t key)
{
	size_t at = out->len;

	put32(out, kind);
	put32(out, 0);
	key = htole64(key);
	buf_append(out, &key, sizeof(key));
	return at;
}

int record_end(struct buf *out, size_t at)
{
	patch32(out, at + sizeof(uint32_t), out->len - at - HEAD);
	return out->failed;
}

/* Return: bytes that it takes. */
static size_t varint_size(uint64_t v)
{
	return v < 128 ? 1 : ((size_t)(63 - __builtin_clzll(v))) / 7 + 1;
}

void record_u64(struct buf *out, unsigned tag, uint64_t v)
{
	unsigned char *to = extend(out, 1 + varint_size(v));

	assert(tag <= RECORD_TAG_MAX);
	if (!to)
		return;
	*to++ = (unsigned char)tag;
	for (; v > 127; v >>= 7)
		*to++ = (unsigned char)((v & 127) | 128);
	*to = (unsigned char)v;
}

/* Small ones of either sign are short: 0, -1, 1, -2... */
void record_i64(struct buf *out, unsigned tag, int64_t v)
{
	record_u64(out, tag, v < 0 ? ~((uint64_t)v << 1) : (uint64_t)v << 1);
}

void record_bytes(struct buf *out, unsigned tag, const void *data, size_t len)
{
	unsigned char *to;

	assert(tag <= RECORD_TAG_MAX);
	if (len > RECORD_MAX) {
		out->failed = out->failed ? out->failed : -EFBIG;
		return;
	}
	to = extend(out, RECORD_BYTES_HEAD + len);
	if (!to)
		return;
	record_bytes_head(to, tag, len);
	if (len)
		memcpy(to + RECORD_BYTES_HEAD, data, len);
}

void record_bytes_head(unsigned char *head, unsigned tag, size_t len)
{
	const uint32_t v = htole32((uint32_t)len);

	assert(tag <= RECORD_TAG_MAX && len <= RECORD_MAX);
	head[0] = (unsigned char)(tag | IS_BYTES);
	memcpy(head + 1, &v, sizeof(v));
}

void record_str(struct buf *out, unsigned tag, const char *s)
{
	if (s)
		record_bytes(out, tag, s, strlen(s));
}

void record_time(struct buf *out, unsigned tag, const struct timespec *t)
{
	size_t at = record_open(out, tag);

	record_i64(out, TIME_SEC, t->tv_sec);
	record_u64(out, TIME_NSEC, (uint64_t)t->tv_nsec);
	record_close(out, at);
}

size_t record_open(struct buf *out, unsigned tag)
{
	unsigned char *to = extend(out, RECORD_BYTES_HEAD);

	if (to)
		record_bytes_head(to, tag, 0);
	return out->len;
}

void record_close(struct buf *out, size_t at)
{
	patch32(out, at - sizeof(uint32_t), out->len - at);
}

/* ---- reading ---- */

int record_next(struct record_reader *r, struct record *ret_record)
{
	size_t left = (size_t)(r->end - r->at);
	uint32_t len;

	if (left == 0)
		return 0;
	if (left < HEAD)
		return -EBADMSG;
	len = take32(r->at + 4);
	if (len > RECORD_MAX || len > left - HEAD)
		return -EBADMSG;
	ret_record->kind = take32(r->at);
	ret_record->key = take64(r->at + 8);
	ret_record->fields = record_reader(r->at + HEAD, len);
	r->at += HEAD + len;
	return 1;
}

static int take_bytes(struct record_reader *r, struct record_field *f)
{
	size_t left = (size_t)(r->end - r->at);
	uint32_t len;

	if (left < sizeof(len))
		return -EBADMSG;
	len = take32(r->at);
	if (len > left - sizeof(len))
		return -EBADMSG;
	f->data = r->at + sizeof(len);
	f->len = len;
	r->at += sizeof(len) + len;
	return 1;
}

static int take_number(struct record_reader *r, struct record_field *f)
{
	for (unsigned i = 0; i < VARINT_MAX && r->at < r->end; i++) {
		unsigned char c = *r->at++;

		if (i == VARINT_MAX - 1 && c > 1)
			break; /* more than 64 bits */
		f->u64 |= (uint64_t)(c & 127) << (7 * i);
		if (!(c & 128))
			return 1;
	}
	return -EBADMSG;
}

int record_field(struct record_reader *r, struct record_field *ret_field)
{
	struct record_field f = {0};
	int n;

	if (r->at == r->end)
		return 0;
	f.tag = *r->at & RECORD_TAG_MAX;
	f.is_bytes = *r->at++ & IS_BYTES;
	n = f.is_bytes ? take_bytes(r, &f) : take_number(r, &f);
	if (n > 0)
		*ret_field = f;
	return n;
}

int record_get(const struct record_field *f, uint64_t min, uint64_t max, uint64_t *ret_v)
{
	if (f->is_bytes || f->u64 < min || f->u64 > max)
		return -EBADMSG;
	*ret_v = f->u64;
	return 0;
}

int record_get_u32(const struct record_field *f, uint32_t max, uint32_t *ret_v)
{
	uint64_t v;
	int r = record_get(f, 0, max, &v);

	if (r == 0)
		*ret_v = (uint32_t)v;
	return r;
}

int record_get_bool(const struct record_field *f, bool *ret_v)
{
	uint64_t v;
	int r = record_get(f, 0, 1, &v);

	if (r == 0)
		*ret_v = v;
	return r;
}

int record_get_i64(const struct record_field *f, int64_t *ret_v)
{
	if (f->is_bytes)
		return -EBADMSG;
	*ret_v = (int64_t)(f->u64 & 1 ? ~(f->u64 >> 1) : f->u64 >> 1);
	return 0;
}

int record_get_time(const struct record_field *f, struct timespec *ret_t)
{
	struct record_reader r = record_inside(f);
	struct record_field part;
	uint64_t nsec = 0;
	int64_t sec = 0;
	int n;

	if (!f->is_bytes)
		return -EBADMSG;
	while ((n = record_field(&r, &part)) > 0) {
		if (part.tag == TIME_SEC)
			n = record_get_i64(&part, &sec);
		else if (part.tag == TIME_NSEC)
			n = record_get(&part, 0, 999999999, &nsec);
		if (n < 0)
			break;
	}
	if (n < 0)
		return n;
	*ret_t = (struct timespec){.tv_sec = sec, .tv_nsec = (long)nsec};
	return 0;
}

int record_get_str(const struct record_field *f, char *dest, size_t size)
{
	if (!f->is_bytes || f->len >= size || memchr(f->data, 0, f->len))
		return -EBADMSG;
	memcpy(dest, f->data, f->len);
	dest[f->len] = 0;
	return 0;
}

int record_get_buf(const struct record_field *f, struct buf *dest)
{
	if (!f->is_bytes || (dest->limit && f->len > dest->limit))
		return -EBADMSG;
	buf_clear(dest);
	return buf_append(dest, f->data, f->len);
}
