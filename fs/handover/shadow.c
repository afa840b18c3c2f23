/* SPDX-License-Identifier: Apache-2.0 */
/* Is what the mount leaves in an estate all that there is? See handover.h. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "vm/base/estate.h"
#include "vm/base/util.h"

/*
 * Whoever forgets to say that something has changed leaves a record as it was; nothing shows that
 * before a daemon dies. So everything is written down anew, into an estate that only compares.
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
	return kind == HANDOVER_STATS || kind == HANDOVER_AUDIT;
}

/* A field within a record, by the tags on the way to it. */
struct place {
	uint32_t kind;
	unsigned depth;
	unsigned tag[8];
};

/* Whose record it is knows. */
static bool is_late_field(const struct place *at, unsigned tag)
{
	unsigned tags[ARRAY_SIZE(at->tag) + 1];

	memcpy(tags, at->tag, at->depth * sizeof(*tags));
	tags[at->depth] = tag;
	return at->kind == HANDOVER_SANDBOX && sandbox_field_is_late(tags, at->depth + 1);
}

/* The next one that is to be the same. Return: as record_field(). */
static int next_field(struct record_reader *r, const struct place *at, struct record_field *ret_f)
{
	int n;

	do
		n = record_field(r, ret_f);
	while (n > 0 && is_late_field(at, ret_f->tag));
	return n;
}

/* Are these bytes fields, one behind another? */
static bool is_fields(const struct record_field *f)
{
	struct record_reader r = record_inside(f);
	struct record_field inside;
	int n = f->is_bytes && f->len ? 1 : -1;

	while (n > 0)
		n = record_field(&r, &inside);
	return n == 0;
}

/* Return: have the two the same fields? If not, @at is the first one that they don't. */
static bool is_same(struct record_reader a, struct record_reader b, struct place *at)
{
	struct record_field x = {0}, y = {0};
	bool same = true;
	int r, q;

	do {
		r = next_field(&a, at, &x);
		q = next_field(&b, at, &y);
		if (r <= 0 && q <= 0)
			return true;
		at->tag[at->depth++] = r > 0 ? x.tag : y.tag;
		if (r <= 0 || q <= 0 || x.tag != y.tag || x.is_bytes != y.is_bytes)
			return false;
		if (at->depth < ARRAY_SIZE(at->tag) && is_fields(&x) && is_fields(&y))
			same = is_same(record_inside(&x), record_inside(&y), at);
		else
			same = x.u64 == y.u64 && x.len == y.len &&
			       (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
		at->depth -= same;
	} while (same);
	return false;
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
	struct place at = {.kind = kind};
	char where[64] = "";
	size_t len = 0;

	/* A sandbox that began from it has it still: the record goes when that lets it go. */
	if (what == ESTATE_LEFT && kind == HANDOVER_SAVED)
		return;
	if (what == ESTATE_OTHER &&
	    (is_late(kind) || is_same(record_reader(c->has, c->has_len),
				      record_reader(c->wants, c->wants_len), &at)))
		return;
	if (sh->n++)
		return; /* the first one says it */
	for (unsigned i = 0; i < at.depth; i++)
		len += (size_t)snprintf(where + len, sizeof(where) - len, ".%u", at.tag[i]);
	snprintf(sh->what, sh->size, "kind %u, key %llx, sub %llx %s (tag %s, %zu and %zu bytes)",
		 kind, (unsigned long long)key, (unsigned long long)sub, words[what],
		 len ? where + 1 : "none", c->has_len, c->wants_len);
}

/* Of these kinds everything is written below. */
bool handover_is_whole(uint32_t kind)
{
	switch (kind) {
	case HANDOVER_MOUNT:
	case HANDOVER_STATS:
	case HANDOVER_AUDIT:
	case HANDOVER_ACCOUNT:
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
	case HANDOVER_SANDBOX:
	case HANDOVER_SAVED:
	case HANDOVER_WORKDIR:
	case HANDOVER_CALLS:
	case HANDOVER_COMMIT:
	case KEEP_SESSION:
	case KEEP_RUN:
	case KEEP_JOB:
	case KEEP_BLOCK:
	case KEEP_SCRATCH:
	case KEEP_REMOVAL: return true;
	default: return false;
	}
}

/* Everything is put once more, where nothing is written. Return: 0 or -errno. */
static int compare(struct fs *fs, struct estate *e, struct fdbag *fds, struct estate_compare *c)
{
	struct handover_sink sink;
	int r;

	sink_to_estate(&sink, e, fds);
	sink.compares = true;
	estate_compare_begin(e, c);
	r = handover_put_all(fs, &sink);
	estate_compare_end(e);
	sink_fini(&sink);
	return r;
}

int handover_differs(struct fs *fs, struct estate *e, struct fdbag *fds, char *ret_what,
		     size_t size)
{
	struct shadow sh = {.what = ret_what, .size = size};
	int r;

	sh.c = (struct estate_compare){
		.differs = on_difference, .is_whole = handover_is_whole, .data = &sh};
	r = compare(fs, e, fds, &sh.c);
	return r < 0 ? r : (int)MIN(sh.n, (unsigned)INT_MAX);
}
