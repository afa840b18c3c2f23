/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on nodes, for a daemon that comes after this one. */
#include "nodelock.h"

#include <errno.h>
#include <stdlib.h>

#include "handle.h"
#include "vm/base/util.h"

/* Never reuse. */
enum nodelock_tag {
	TAG_HOLDER = 1,
};

/* Never reuse; those of who holds it stand before his locks. */
enum holder_tag {
	TAG_INO = 1,
	TAG_OWNER,
	TAG_HANDLE,
	TAG_UID,
	TAG_PID,
	TAG_WHOLE,
	TAG_RANGE,
	TAG_DEV, /* before all of them */
};

/* Never reuse. */
enum range_tag {
	TAG_START = 1,
	TAG_END,
	TAG_TYPE,
};

static void put_holder(const struct lock_holder *h, struct buf *out)
{
	if (h->file.dev)
		record_u64(out, TAG_DEV, h->file.dev);
	record_u64(out, TAG_INO, h->file.ino);
	record_u64(out, TAG_OWNER, h->owner);
	record_u64(out, TAG_HANDLE, h->handle);
	record_u64(out, TAG_UID, h->uid);
	record_u64(out, TAG_PID, h->pid);
	if (h->whole != PROTO_UNLOCK)
		record_u64(out, TAG_WHOLE, h->whole);
	for (const struct lock_range *r = h->ranges; r; r = r->next) {
		const size_t at = record_open(out, TAG_RANGE);

		record_u64(out, TAG_START, r->start);
		record_u64(out, TAG_END, r->end);
		record_u64(out, TAG_TYPE, r->type);
		record_close(out, at);
	}
}

/* Those who came first are the last of the list. */
void nodelock_put(const struct lockbook *b, struct buf *out)
{
	_cleanup_free_ const struct lock_holder **all = calloc(b->nholders + 1, sizeof(void *));
	const struct lock_holder *h;
	unsigned n = 0;

	if (!all) {
		out->failed = -ENOMEM;
		return;
	}
	LIST_FOREACH(h, &b->holders, link)
		all[n++] = h;
	while (n--) {
		const size_t at = record_open(out, TAG_HOLDER);

		put_holder(all[n], out);
		record_close(out, at);
	}
}

static int get_type(const struct record_field *f, enum proto_lock_type *ret_type)
{
	uint64_t v = 0;
	int r = record_get(f, PROTO_LOCK_SHARED, PROTO_LOCK_EXCLUSIVE, &v);

	if (r == 0)
		*ret_type = (enum proto_lock_type)v;
	return r;
}

/* Return: 0, -EBADMSG (somebody else has it, or it is none), -ENOMEM. */
static int take(struct lockbook *b, const struct lock_ask *ask)
{
	struct lock_holder *h = lockbook_find(b, ask->file, ask->owner);
	struct lock_spare spare;

	if (ask->type == PROTO_UNLOCK || ask->start > ask->end || ask->end > INT64_MAX ||
	    lockbook_conflict(b, ask, NULL, NULL))
		return -EBADMSG;
	if (lockbook_reserve(b, h, ask, &spare) < 0)
		return -ENOMEM;
	if (!h)
		h = lockbook_new(b, ask);
	if (!h) {
		lockbook_unreserve(&spare);
		return -ENOMEM;
	}
	lockbook_apply(b, h, ask, &spare);
	return 0;
}

static int get_range(struct lockbook *b, struct lock_ask ask, struct record_reader fields)
{
	struct record_field f;
	int r;

	ask.type = PROTO_UNLOCK;
	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum range_tag)f.tag) {
		case TAG_START: r = record_get(&f, 0, INT64_MAX, &ask.start); break;
		case TAG_END: r = record_get(&f, 0, INT64_MAX, &ask.end); break;
		case TAG_TYPE: r = get_type(&f, &ask.type); break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	return r < 0 ? r : take(b, &ask);
}

static int get_whole(struct lockbook *b, struct lock_ask ask, const struct record_field *f)
{
	int r = get_type(f, &ask.type);

	ask.whole = true;
	ask.start = 0;
	ask.end = INT64_MAX;
	return r < 0 ? r : take(b, &ask);
}

static int get_holder(struct lockbook *b, struct record_reader fields)
{
	struct lock_ask ask = {0};
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum holder_tag)f.tag) {
		case TAG_INO: r = record_get(&f, 0, UINT64_MAX, &ask.file.ino); break;
		case TAG_DEV: r = record_get(&f, 0, UINT64_MAX, &ask.file.dev); break;
		case TAG_OWNER: r = record_get(&f, 0, UINT64_MAX, &ask.owner); break;
		case TAG_HANDLE: r = record_get(&f, 0, UINT64_MAX, &ask.handle); break;
		case TAG_UID: r = record_get_u32(&f, UINT32_MAX, &ask.uid); break;
		case TAG_PID: r = record_get_u32(&f, UINT32_MAX, &ask.pid); break;
		case TAG_WHOLE: r = get_whole(b, ask, &f); break;
		case TAG_RANGE: r = get_range(b, ask, record_inside(&f)); break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	return r;
}

int nodelock_get(struct lockbook *b, struct record_reader fields)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_HOLDER)
			r = get_holder(b, record_inside(&f));
		if (r < 0)
			return r;
	}
	return r;
}

int nodelock_check(struct lockbook *b, const struct handles *hs)
{
	struct lock_holder *h, *next;
	int r = 0;

	for (h = LIST_FIRST(&b->holders); h; h = next) {
		const struct handle *through = handle_get(hs, h->handle);
		const struct lock_file of =
			through ? nodelock_file(through) : (struct lock_file){0};

		next = LIST_NEXT(h, link);
		if (through && of.dev == h->file.dev && of.ino == h->file.ino)
			continue;
		lockbook_free(b, h);
		r = -EBADMSG;
	}
	return r;
}
