/* SPDX-License-Identifier: Apache-2.0 */
/* What of a guest's files another daemon has to know. See files_record.h. */
#include "files_record.h"

#include <errno.h>
#include <stdlib.h>

#include "files.h"
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

void guest_files_put(const struct guest_files *gf, struct buf *out)
{
	size_t at;

	record_u64(out, TAG_NOPEN, gf->nopen);
	record_u64(out, TAG_EARLY_LAST, gf->early.last);
	for (const struct early *e = early_first(&gf->early); e; e = early_next(e))
		put_early(e, out);
	known_each_owed(&gf->lease.known, put_owed, out);
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

int guest_files_take(struct guest_files *gf, struct record_reader r)
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
