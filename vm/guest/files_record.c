/* SPDX-License-Identifier: Apache-2.0 */
/* What of a guest's files another daemon has to know. See files_record.h. */
#include "files_record.h"

#include <errno.h>
#include <stdlib.h>

#include "channel_record.h"
#include "files.h"
#include "vm/base/estate.h"
#include "vm/base/record_table.h"
#include "vm/base/util.h"

#define EARLY_MAX 65536u /* handles; a mount has fewer */

/* Never reuse one. */
enum {
	TAG_NOPEN = 1,
	TAG_EARLY_LAST,
	TAG_EARLY,    /* fields: TAG_EARLY_* */
	TAG_OWED,     /* likewise */
	TAG_LOCK_WAS, /* in records of an earlier version */
	TAG_CALLS,    /* fields of file_calls_put() */
	TAG_OWED_KEY, /* instead of TAG_OWED, which are in records of their own */
};

enum {
	TAG_EARLY_HANDLE = 1,
	TAG_EARLY_NODE,
	TAG_EARLY_STATE,
	TAG_EARLY_REMOTE,
	TAG_EARLY_ERR,
	TAG_EARLY_CLOSED,
};

enum { TAG_OWED_NODE = 1, TAG_OWED_LOOKUPS };

/*
 * What is owed may be a lookup of each file that there is, and each request changes one. So where
 * every turn is written down it is written by parts (known.h), each a record of its own, of which a
 * turn writes those that it has changed: to walk through a tree took a time that grew with the square
 * of its size.
 */

bool guest_files_settled(const struct guest_files *gf)
{
	return TAILQ_EMPTY(&gf->calls.all) && STAILQ_EMPTY(&gf->calls.waiting);
}

static void put_early(const struct early *e, struct buf *out)
{
	const size_t at = record_open(out, TAG_EARLY);

	record_u64(out, TAG_EARLY_HANDLE, e->handle);
	record_u64(out, TAG_EARLY_NODE, e->node);
	record_u64(out, TAG_EARLY_STATE, e->state);
	record_u64(out, TAG_EARLY_REMOTE, e->remote);
	record_u64(out, TAG_EARLY_ERR, (uint64_t)-e->err);
	record_u64(out, TAG_EARLY_CLOSED, e->closed);
	record_close(out, at);
}

static void put_owed(void *data, uint64_t node, uint64_t lookups)
{
	struct buf *out = data;
	const size_t at = record_open(out, TAG_OWED);

	record_u64(out, TAG_OWED_NODE, node);
	record_u64(out, TAG_OWED_LOOKUPS, lookups);
	record_close(out, at);
}

/* Return: 0 or -errno. */
static int write_part(const struct known *k, unsigned part, struct estate *e, uint64_t key)
{
	const uint64_t sub = CHANNEL_SUB_OWN | part;
	struct buf fields = {0};
	int r;

	known_each_owed(k, part, put_owed, &fields);
	if (fields.failed)
		r = fields.failed;
	else if (fields.len)
		r = estate_put(e, ESTATE_CHANNEL_BYTES, key, sub, fields.data, fields.len);
	else
		r = estate_drop(e, ESTATE_CHANNEL_BYTES, key, sub);
	buf_clear(&fields);
	return r;
}

static void write_owed(struct guest_files *gf, struct buf *out, struct estate *e, uint64_t key)
{
	struct known *k = &gf->lease.known;
	const bool compares = estate_is_compared(e);
	int r = 0;

	record_u64(out, TAG_OWED_KEY, key);
	for (unsigned part = 0; part < KNOWN_OWED && r == 0; part++) {
		if (compares || gf->owed_key != key || known_owed_changed(k, part))
			r = write_part(k, part, e, key);
		else
			estate_keeps(e, ESTATE_CHANNEL_BYTES, key, CHANNEL_SUB_OWN | part);
		if (!compares)
			known_owed_written(k, part);
	}
	if (r < 0)
		out->failed = r;
	if (!compares)
		gf->owed_key = key;
}

void guest_files_unwrite(struct guest_files *gf)
{
	struct channel_written w = {.key = gf->owed_key, .sub = CHANNEL_SUB_OWN};

	if (!gf->owed_key)
		return;
	for (; w.sub < (CHANNEL_SUB_OWN | KNOWN_OWED); w.sub++)
		channel_unwrite(gf->lease.channel, &w);
	gf->owed_key = 0;
}

void guest_files_put(struct guest_files *gf, struct buf *out, struct estate *e, uint64_t key)
{
	size_t at;

	record_u64(out, TAG_NOPEN, gf->nopen);
	record_u64(out, TAG_EARLY_LAST, gf->early.last);
	for (const struct early *f = early_first(&gf->early); f; f = early_next(f))
		put_early(f, out);
	for (unsigned part = 0; part < KNOWN_OWED && !e; part++)
		known_each_owed(&gf->lease.known, part, put_owed, out);
	if (e)
		write_owed(gf, out, e, key);
	at = record_open(out, TAG_CALLS);
	file_calls_put(&gf->calls, out);
	record_close(out, at);
}

static int take_early(struct guest_files *gf, const struct record_field *of)
{
	struct record_reader r = record_inside(of);
	struct early e = {0};
	struct record_field f;
	uint64_t state = 0, err = 0;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		switch (f.tag) {
		case TAG_EARLY_HANDLE:
			n = record_get(&f, EARLY_HANDLE + 1, EARLY_HANDLE | gf->early.last,
				       &e.handle);
			break;
		case TAG_EARLY_NODE: n = record_get(&f, 1, UINT64_MAX, &e.node); break;
		case TAG_EARLY_STATE: n = record_get(&f, 0, EARLY_FAILED, &state); break;
		case TAG_EARLY_REMOTE: n = record_get(&f, 0, EARLY_HANDLE - 1, &e.remote); break;
		case TAG_EARLY_ERR: n = record_get(&f, 0, 4095, &err); break;
		case TAG_EARLY_CLOSED: n = record_get_bool(&f, &e.closed); break;
		default: break;
		}
		if (n < 0)
			return n;
	}
	e.state = (enum early_state)state;
	e.err = -(int)err;
	if (n < 0 || !of->is_bytes || !e.handle || !e.node ||
	    (e.closed && e.state != EARLY_ASKED) || (e.state == EARLY_OPEN && !e.remote) ||
	    (e.state == EARLY_FAILED && !e.err) || gf->early.nheld >= EARLY_OPEN_MAX)
		return -EBADMSG;
	return early_restore(&gf->early, &e, gf);
}

static int take_owed(struct guest_files *gf, const struct record_field *of)
{
	struct record_reader r = record_inside(of);
	uint64_t node = 0, lookups = 0;
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_OWED_NODE)
			n = record_get(&f, 1, UINT64_MAX, &node);
		else if (f.tag == TAG_OWED_LOOKUPS)
			n = record_get(&f, 1, UINT64_MAX / 2, &lookups);
		if (n < 0)
			return n;
	}
	if (n < 0 || !of->is_bytes || !node || !lookups)
		return -EBADMSG;
	return known_owe(&gf->lease.known, node, lookups);
}

static int take_part(struct guest_files *gf, struct record_reader r)
{
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		n = f.tag == TAG_OWED ? take_owed(gf, &f) : -EBADMSG;
		if (n < 0)
			return n;
	}
	return n;
}

/* Nothing is owed of a part of which there is no record. */
static int take_parts(struct guest_files *gf, const struct record_field *f,
		      const struct estate *left)
{
	const void *fields;
	uint64_t key;
	size_t len;
	int r = record_get(f, 1, UINT64_MAX, &key);

	if (r == 0 && !left)
		r = -EBADMSG;
	for (unsigned part = 0; part < KNOWN_OWED && r == 0; part++)
		if (estate_get(left, ESTATE_CHANNEL_BYTES, key, CHANNEL_SUB_OWN | part, &fields,
			       &len))
			r = take_part(gf, record_reader(fields, len));
	return r;
}

int guest_files_take(struct guest_files *gf, struct record_reader r, const struct estate *left)
{
	struct record_field f;
	unsigned nearly = 0;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		switch (f.tag) {
		case TAG_NOPEN: n = record_get_u32(&f, UINT32_MAX / 2, &gf->nopen); break;
		case TAG_EARLY_LAST:
			n = record_get(&f, 0, EARLY_HANDLE - 1, &gf->early.last);
			break;
		case TAG_EARLY: n = ++nearly > EARLY_MAX ? -EBADMSG : take_early(gf, &f); break;
		case TAG_OWED: n = take_owed(gf, &f); break;
		case TAG_OWED_KEY: n = take_parts(gf, &f, left); break;
		case TAG_CALLS:
			n = f.is_bytes ? file_calls_take(&gf->calls, record_inside(&f)) : -EBADMSG;
			break;
		default: break;
		}
		if (n < 0)
			return n;
	}
	return n < 0 ? n : guest_file_inherit(gf);
}
