/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow, as records: see handover.h. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "fs/keep/keep.h"
#include "internal.h"
#include "texts.h"
#include "vm/base/estate.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * What a program writes, and what is written to it, comes in pieces, and goes when it was handed
 * over. So it is written in pieces as well, each once: records of the kind KEEP_TEXT, whose key is
 * the id of the bytes, and whose `sub` is the position of the first of these. Whoever has the bytes
 * has the id, the position, and how many there are in its own record; of pieces that begin before
 * that a part is not there any more. When that is more than what is, and when there are many
 * pieces, all of it is written as one: so all the copying together is no more than twice what was
 * written.
 */

enum { PIECE_AT = 1, PIECE_BYTES }; /* never reuse */

#define PIECES_MOST 128u
#define WASTE	    (64u << 10) /* bytes that may be there for nothing */

/* ---- writing ---- */

static int put_piece(struct handover_sink *sink, uint64_t id, uint64_t at, const char *bytes,
		     size_t len)
{
	struct buf *out = sink_begin_aside(sink);

	record_u64(out, PIECE_AT, at);
	record_bytes(out, PIECE_BYTES, bytes, len);
	return sink_end_aside(sink, KEEP_TEXT, id, at);
}

void texts_forget(struct handover_sink *sink, struct trail *t)
{
	if (sink->compares)
		return;
	if (t->id && t->npieces)
		sink_drop_all(sink, KEEP_TEXT, t->id);
	t->begin = t->end = 0;
	t->npieces = 0;
	t->others = false;
}

/* Has it to be written from the beginning? */
static bool is_stale(const struct trail *t, uint64_t at, size_t len)
{
	const uint64_t end = at + len;

	return t->others || at < t->begin || at > t->end || end < t->end ||
	       (end > t->end && t->npieces >= PIECES_MOST) ||
	       at - t->begin > MAX((uint64_t)len, (uint64_t)WASTE);
}

int texts_put(struct handover_sink *sink, struct touched *touched, struct trail *t, uint64_t at,
	      const char *bytes, size_t len)
{
	int r;

	touched_id(touched, &t->id);
	if (sink->anew)
		texts_forget(sink, t);
	if (is_stale(t, at, len)) {
		if (sink->compares) /* shows that it was forgotten */
			return put_piece(sink, t->id, UINT64_MAX, bytes, len);
		texts_forget(sink, t);
		t->begin = t->end = at;
	}
	estate_keeps_all(sink->estate, KEEP_TEXT, t->id);
	if (at + len == t->end)
		return 0;
	r = put_piece(sink, t->id, t->end, bytes + (t->end - at), (size_t)(at + len - t->end));
	if (r == 0 && !sink->compares) {
		t->end = at + len;
		t->npieces++;
	}
	return r;
}

/* ---- reading ---- */

/* All pieces of an id. */
struct text {
	uint64_t id; /* first: this is the key */
	uint64_t begin;
	struct buf bytes;
	uint32_t npieces;
};

static struct text *text_of(struct fs *fs, uint64_t id)
{
	void *const *found = tfind(&id, &fs->inherited.texts, handover_by_id);

	return found ? *found : NULL;
}

/* Return: one that was not there; NULL if out of memory. */
static struct text *add_text(struct fs *fs, uint64_t id)
{
	struct text *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->id = id;
	t->bytes.limit = RECORD_MAX;
	if (!tsearch(t, &fs->inherited.texts, handover_by_id)) {
		free(t);
		return NULL;
	}
	touched_has_id(&fs->touched, id);
	return t;
}

int texts_get(struct fs *fs, uint64_t id, struct record_reader fields)
{
	struct record_field f, bytes = {0};
	struct text *t;
	uint64_t at = 0;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == PIECE_AT && record_get(&f, 0, UINT64_MAX / 2, &at) < 0)
			return -EBADMSG;
		if (f.tag == PIECE_BYTES)
			bytes = f;
	}
	if (r < 0 || !bytes.len || id == 0 || id > UINT64_MAX / 2)
		return -EBADMSG;
	t = text_of(fs, id);
	if (!t) {
		t = add_text(fs, id);
		if (!t)
			return -ENOMEM;
		t->begin = at;
	}
	if (at != t->begin + t->bytes.len)
		return -EBADMSG;
	t->npieces++;
	r = buf_append(&t->bytes, bytes.data, bytes.len);
	return r == -EFBIG ? -EBADMSG : r;
}

int texts_take(struct fs *fs, struct trail *trail, uint64_t at, size_t len, struct buf *dest)
{
	struct text *t = text_of(fs, trail->id);
	int r;

	/* Each is somebody's: once taken there are no bytes any more. */
	if (!t || at < t->begin || at - t->begin > t->bytes.len ||
	    len != t->bytes.len - (size_t)(at - t->begin) || len == 0)
		return -EBADMSG;
	dest->len = 0;
	r = buf_append(dest, t->bytes.data + (at - t->begin), len);
	if (r < 0)
		return r == -EFBIG ? -EBADMSG : r;
	trail->begin = t->begin;
	trail->end = at + len;
	trail->npieces = t->npieces;
	buf_clear(&t->bytes);
	return 0;
}

int texts_take_all(struct fs *fs, struct trail *trail, struct buf *dest)
{
	const struct text *t = text_of(fs, trail->id);

	return t ? texts_take(fs, trail, 0, t->bytes.len, dest) : -EBADMSG;
}

static void free_text(void *text)
{
	struct text *t = text;

	buf_clear(&t->bytes);
	free(t);
}

void texts_clear(struct fs *fs)
{
	tdestroy(fs->inherited.texts, free_text);
	fs->inherited.texts = NULL;
}
