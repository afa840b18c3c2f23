/* SPDX-License-Identifier: Apache-2.0 */
/* What the mount leaves in an estate: all of it at first, then what has changed; and whether that is all. See handover.h. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "vm/base/estate.h"
#include "vm/base/util.h"

/*
 * Whoever forgets to say that something has changed leaves a record as it was; nothing shows that before a daemon dies. So everything
 * is written down anew, into an estate that only compares.
 */
struct shadow {
	struct estate_compare c; /* first */
	char *what;
	size_t size;
	unsigned n; /* differences */
};

/* What a number is between two commits is nobody's business, if nobody has seen it. */
static bool is_late(uint32_t kind)
{
	return kind == HANDOVER_STATS;
}

/* Return: the first tag of which the two don't have the same, or 0. */
static unsigned first_tag(struct record_reader a, struct record_reader b)
{
	struct record_field x, y;
	int r, q;

	do {
		r = record_field(&a, &x);
		q = record_field(&b, &y);
		if (r > 0 && q > 0 &&
		    (x.tag != y.tag || x.u64 != y.u64 || x.len != y.len ||
		     (x.is_bytes && memcmp(x.data, y.data, x.len) != 0)))
			return x.tag;
	} while (r > 0 && q > 0);
	return r > 0 ? x.tag : q > 0 ? y.tag : 0;
}

static void on_difference(void *data, enum estate_difference what, uint32_t kind, uint64_t key,
			  uint64_t sub)
{
	static const char *const words[] = {
		[ESTATE_MISSING] = "is missing",
		[ESTATE_OTHER] = "is another",
		[ESTATE_LEFT] = "should be gone",
	};
	struct shadow *sh = data;
	const struct estate_compare *c = &sh->c;
	unsigned tag;

	if (what == ESTATE_OTHER && is_late(kind))
		return;
	if (sh->n++)
		return; /* the first one says it */
	tag = what == ESTATE_OTHER ? first_tag(record_reader(c->has, c->has_len),
					       record_reader(c->wants, c->wants_len))
				   : 0;
	snprintf(sh->what, sh->size, "kind %u, key %llx, sub %llx %s (tag %u, %zu and %zu bytes)",
		 kind, (unsigned long long)key, (unsigned long long)sub, words[what], tag,
		 c->has_len, c->wants_len);
}

/* Of these kinds everything is written below. */
static bool is_whole(void *data, uint32_t kind)
{
	(void)data;
	switch (kind) {
	case HANDOVER_MOUNT:
	case HANDOVER_STATS:
	case HANDOVER_LOCKS:
	case HANDOVER_COMPLAINTS:
	case HANDOVER_EVENTS:
	case HANDOVER_EVENT:
	case HANDOVER_SLOT:
	case HANDOVER_GENERATION:
	case HANDOVER_HANDLE:
	case HANDOVER_TEXT:
	case HANDOVER_FILES:
	case HANDOVER_NODE:
	case HANDOVER_SAVED:
	case HANDOVER_WORKDIR:
	case HANDOVER_COMMIT:
	case HANDOVER_CALLS:
	case KEEP_SESSION:
	case KEEP_RUN:
	case KEEP_JOB:
	case KEEP_BLOCK:
	case KEEP_SCRATCH: return true;
	default: return false;
	}
}

static int put_all(struct fs *fs, struct handover_sink *sink)
{
	struct problem why;
	struct session *s;
	int r = handover_put_mount(fs, sink);

	if (r == 0)
		r = handover_put_sessions(fs, sink, &why);

	if (r == 0)
		r = handover_put_rest(fs, sink);
	if (r == 0)
		r = handover_put_handles(fs, sink);
	LIST_FOREACH(s, &fs->sessions, kept) {
		if (r == 0)
			r = handover_put_files(s, sink);
	}
	return r;
}

/* Everything is put once more, where nothing is written. Return: 0 or -errno. */
static int compare(struct fs *fs, struct estate *e, struct fdbag *fds, struct estate_compare *c)
{
	struct handover_sink sink;
	int r;

	sink_to_estate(&sink, e, fds);
	sink.compares = true;
	estate_compare_begin(e, c);
	r = put_all(fs, &sink);
	estate_compare_end(e);
	sink_fini(&sink);
	return r;
}

int handover_differs(struct fs *fs, struct estate *e, struct fdbag *fds, char *ret_what,
		     size_t size)
{
	struct shadow sh = {.what = ret_what, .size = size};
	int r;

	sh.c = (struct estate_compare){.differs = on_difference, .is_whole = is_whole, .data = &sh};
	r = compare(fs, e, fds, &sh.c);
	return r < 0 ? r : (int)MIN(sh.n, (unsigned)INT_MAX);
}

/* ---- all of it, at the beginning ---- */

struct leftover {
	uint32_t kind;
	uint64_t key, sub;
};

struct leftovers {
	struct estate_compare c; /* first */
	struct buf names;	 /* of struct leftover */
};

static void on_leftover(void *data, enum estate_difference what, uint32_t kind, uint64_t key,
			uint64_t sub)
{
	struct leftovers *lo = data;
	const struct leftover one = {kind, key, sub};

	if (what == ESTATE_LEFT)
		(void)buf_append(&lo->names, &one, sizeof(one));
}

/* What the daemon before this one had, and nobody has now. */
static int drop_leftovers(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	struct leftovers lo = {0};
	int r;

	lo.c = (struct estate_compare){.differs = on_leftover, .is_whole = is_whole, .data = &lo};
	r = compare(fs, e, fds, &lo.c);
	if (r == 0)
		r = lo.names.failed;
	for (size_t at = 0; r == 0 && at < lo.names.len; at += sizeof(struct leftover)) {
		struct leftover one;

		memcpy(&one, lo.names.data + at, sizeof(one));
		r = estate_drop(e, one.kind, one.key, one.sub);
	}
	buf_clear(&lo.names);
	return r;
}

int handover_commit_all(struct fs *fs, struct estate *e, struct fdbag *fds)
{
	struct handover_sink sink;
	int r;

	handover_watch_saved(fs);
	sink_to_estate(&sink, e, fds);
	r = put_all(fs, &sink);
	sink_fini(&sink);
	if (r == 0)
		r = drop_leftovers(fs, e, fds);
	handover_settle_sessions(fs);
	handover_settle_whole(fs);
	handover_settle_handles(fs);
	handover_settle_files(fs);
	fs->record.begun = r == 0;
	return r;
}

int handover_commit_mount(struct fs *fs, struct handover_sink *sink)
{
	int r = handover_commit_whole(fs, sink);

	if (r == 0)
		r = handover_commit_handles(fs, sink);
	return r == 0 ? handover_commit_files(fs, sink) : r;
}
