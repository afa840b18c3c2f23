/* SPDX-License-Identifier: Apache-2.0 */
/* Who wrote this. See origin.h. */
#include "origin.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/util.h"
#include "vm/base/hash.h"
#include "vm/base/util.h"

#define GAP_NS	100000000 /* requests of the host that follow each other so soon are of one period */
#define DEV	0	  /* all files are of one file system */
#define NAMES	6u	  /* that are told; there may be more who can have been it */

#define OR	" or "
#define OTHERS	" or others"
#define EARLIER "earlier"
#define AFTER	"after "

static int64_t to_ns(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t = {0};

	(void)clock_gettime(clock, &t);
	return to_ns(&t);
}

/* What the kernel would set as a file's time of change now. Where it can (multigrain timestamps), it gives a change that follows
 * one that was looked at a time that no file had before, and no file an older one from then on. */
static int64_t stamp(const struct origin *o)
{
	struct stat st;

	for (unsigned i = 0; i < 2; i++) {
		if (o->fd < 0 || fstat(o->fd, &st) < 0 || pwrite(o->fd, "", 1, 0) != 1)
			return clock_ns(CLOCK_REALTIME_COARSE);
	}
	return fstat(o->fd, &st) < 0 ? clock_ns(CLOCK_REALTIME_COARSE) : to_ns(&st.st_ctim);
}

/* Is a change at this time one before that of stamp()? Where times have steps, it may be. */
static bool is_before(const struct origin *o, int64_t at, int64_t end)
{
	return o->fine ? at < end : at <= end;
}

/* ---- texts ---- */

static const char *text_of(const struct origin *o, uint32_t text)
{
	return text && text <= o->ntexts ? o->texts[text - 1] : "";
}

static void keep_text(uint32_t *text, uint32_t *map, size_t *n)
{
	if (*text && !map[*text - 1])
		map[*text - 1] = (uint32_t)++ * n;
	if (*text)
		*text = map[*text - 1];
}

/* Drops those that nothing refers to any more. Return: 0 or -ENOMEM. */
static int collect(struct origin *o)
{
	_cleanup_free_ uint32_t *map = calloc(o->ntexts, sizeof(*map));
	char **texts = calloc(o->texts_cap, sizeof(*texts));
	size_t n = 0;

	if (!map || !texts) {
		free(texts);
		return -ENOMEM;
	}
	keep_text(&o->client, map, &n);
	for (size_t i = 0; i < o->n; i++)
		keep_text(&o->periods[i].text, map, &n);
	for (size_t i = 0; i < o->nnotes; i++)
		keep_text(&o->notes[i].text, map, &n);
	for (size_t i = 0; i < o->ntexts; i++) {
		if (map[i])
			texts[map[i] - 1] = o->texts[i];
		else
			free(o->texts[i]);
	}
	free(o->texts);
	o->texts = texts;
	o->ntexts = n;
	memset(o->cache, 0, sizeof(o->cache));
	return 0;
}

static int make_text_room(struct origin *o)
{
	char **more;

	if (o->ntexts == ORIGIN_TEXTS && (collect(o) < 0 || o->ntexts > ORIGIN_TEXTS * 3 / 4))
		return -ENOMEM;
	if (o->ntexts < o->texts_cap)
		return 0;
	more = realloc(o->texts, (o->texts_cap + 64) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	o->texts = more;
	o->texts_cap += 64;
	return 0;
}

/* Return: the text's number, an old one if it was used lately; 0: it is none, or there is no room. */
static uint32_t intern(struct origin *o, const char *s, size_t len)
{
	uint32_t *at = &o->cache[hash_more(HASH_BEGIN, s, len) % ORIGIN_CACHE];
	const char *known = text_of(o, *at);

	if (!len || len > PROTO_ORIGIN_MAX)
		return 0;
	if (strlen(known) == len && memcmp(known, s, len) == 0)
		return *at;
	if (make_text_room(o) < 0)
		return 0;
	o->texts[o->ntexts] = strndup(s, len);
	if (!o->texts[o->ntexts])
		return 0;
	*at = (uint32_t)++o->ntexts;
	return *at;
}

/* ---- periods ---- */

static bool is_client(const struct origin *o, const struct origin_period *p)
{
	return p->text == o->client;
}

/* Periods of the host between which none of another has begun become one. */
static void join(struct origin *o)
{
	size_t n = 0;

	assert(o->periods);
	for (size_t i = 0; i < o->n; i++) {
		struct origin_period *last = n ? &o->periods[n - 1] : NULL;

		if (last && is_client(o, last) && is_client(o, &o->periods[i]))
			last->end = o->periods[i].end;
		else
			o->periods[n++] = o->periods[i];
	}
	o->n = n;
}

/* A quarter of them, the oldest, but those that go on. */
static void drop(struct origin *o)
{
	size_t n = 0, left = ORIGIN_PERIODS / 4;

	for (size_t i = 0; i < o->n; i++) {
		const struct origin_period *p = &o->periods[i];

		if (left && p->state == ORIGIN_CLOSED) {
			o->forgotten = MAX(o->forgotten, p->end);
			left--;
		} else {
			o->periods[n++] = *p;
		}
	}
	o->n = n;
}

static bool make_room(struct origin *o)
{
	struct origin_period *more;

	if (o->n == ORIGIN_PERIODS) {
		join(o);
		if (o->n > ORIGIN_PERIODS * 3 / 4)
			drop(o);
	}
	if (o->n == ORIGIN_PERIODS)
		return false;
	if (o->n < o->cap)
		return true;
	more = realloc(o->periods, (o->cap + 64) * sizeof(*more));
	if (!more)
		return false;
	o->periods = more;
	o->cap += 64;
	return true;
}

/* What can't be noted is not told to be another's: all files are `earlier`, too. */
static struct origin_period *add(struct origin *o, uint32_t id, uint32_t text)
{
	if (!text || !make_room(o)) {
		o->forgotten = INT64_MAX;
		return NULL;
	}
	assert(o->periods);
	o->periods[o->n] = (struct origin_period){.begin = INT64_MAX, .text = text, .id = id};
	return &o->periods[o->n++];
}

/* The newest one of this state. */
static struct origin_period *find(const struct origin *o, uint32_t id, enum origin_state state)
{
	for (size_t i = o->n; i-- > 0;) {
		if (o->periods[i].id == id && o->periods[i].state == state)
			return &o->periods[i];
	}
	return NULL;
}

void origin_author(struct origin *o, uint32_t id, struct proto_str name)
{
	o->client_last = false;
	(void)add(o, id, intern(o, name.data, name.len));
}

void origin_begin(struct origin *o, uint32_t id)
{
	struct origin_period *p = find(o, id, ORIGIN_PLANNED);

	o->client_last = false;
	if (!p)
		return;
	p->begin = stamp(o);
	p->state = ORIGIN_ACTIVE;
}

static void close_period(struct origin_period *p, int64_t end)
{
	p->end = end;
	p->state = ORIGIN_CLOSED;
}

void origin_end(struct origin *o, uint32_t id, enum origin_state state)
{
	struct origin_period *p = find(o, id, ORIGIN_ACTIVE);

	o->client_last = false;
	if (p) {
		close_period(p, stamp(o));
		p->state = state;
		o->nleft += state == ORIGIN_LEFT;
		return;
	}
	p = find(o, id, ORIGIN_PLANNED); /* and never begun */
	if (p)
		close_period(p, 0);
}

bool origin_ended(const struct origin *o)
{
	for (size_t i = o->n; i-- > 0;) {
		if (o->periods[i].id && !proto_is_job(o->periods[i].id))
			return o->periods[i].state == ORIGIN_ENDED;
	}
	return false;
}

void origin_look(struct origin *o, bool added, bool any)
{
	const int64_t now = stamp(o);

	o->nleft = 0;
	for (size_t i = 0; i < o->n; i++) {
		struct origin_period *p = &o->periods[i];

		if (p->state == ORIGIN_ENDED)
			p->state = added ? ORIGIN_LEFT : ORIGIN_CLOSED;
		else if (p->state == ORIGIN_LEFT && !any)
			close_period(p, now);
		o->nleft += p->state == ORIGIN_LEFT;
	}
	o->client_last = false;
}

void origin_request(struct origin *o)
{
	struct origin_period *p = o->n ? &o->periods[o->n - 1] : NULL;

	if (o->client_last && p && clock_ns(CLOCK_REALTIME_COARSE) - p->end < GAP_NS)
		return;
	p = add(o, 0, o->client);
	o->client_last = p != NULL;
	if (!p)
		return;
	p->begin = stamp(o);
	close_period(p, p->begin);
}

void origin_requested(struct origin *o)
{
	if (o->client_last)
		o->periods[o->n - 1].end = clock_ns(CLOCK_REALTIME);
}

/* ---- notes ---- */

/* Return: that of the file, if it was not changed since; or NULL. */
static const struct origin_note *note_of(const struct origin *o, const struct stat *st)
{
	const uint64_t place = inodes_get(&o->noted, DEV, st->st_ino);
	const struct origin_note *note = place && place <= o->nnotes ? &o->notes[place - 1] : NULL;
	const int64_t at = to_ns(&st->st_ctim);

	if (!note)
		return NULL;
	if (note->until == ORIGIN_UNPACKED)
		return is_before(o, at, o->unpacked) ? note : NULL;
	return at <= note->until ? note : NULL;
}

static int note(struct origin *o, ino_t ino, const struct origin_note *new)
{
	const uint64_t at = inodes_get(&o->noted, DEV, ino);
	struct origin_note *more;
	int r;

	if (at) {
		o->notes[at - 1] = *new;
		return 0;
	}
	if (o->nnotes == o->notes_cap) {
		const size_t cap = o->notes_cap ? 2 * o->notes_cap : 64;

		more = realloc(o->notes, cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		o->notes = more;
		o->notes_cap = cap;
	}
	r = inodes_set(&o->noted, DEV, ino, o->nnotes + 1);
	if (r == 0)
		o->notes[o->nnotes++] = *new;
	return r;
}

/* Forgets what the host has renamed and the like; what was unpacked stays as it is known. */
static void forget_own(struct origin *o)
{
	for (size_t i = 0; i < o->nnotes; i++) {
		if (o->notes[i].until != ORIGIN_UNPACKED)
			o->notes[i] = (struct origin_note){.until = 0};
	}
	o->nown = 0;
}

struct origin_held origin_hold(struct origin *o, const struct stat *st)
{
	char text[PROTO_ORIGIN_MAX + 1];
	const size_t len = origin_of(o, st, text);

	if (!len || strcmp(text, text_of(o, o->client)) == 0)
		return (struct origin_held){0};
	return (struct origin_held){intern(o, text, len)};
}

void origin_keep(struct origin *o, struct origin_held held, const struct stat *st)
{
	if (!held.text)
		return;
	if (o->nown++ == ORIGIN_NOTES)
		forget_own(o);
	(void)note(o, st->st_ino, &(struct origin_note){to_ns(&st->st_ctim), held.text});
}

static void clear_notes(struct origin *o)
{
	inodes_clear(&o->noted);
	free(o->notes);
	o->notes = NULL;
	o->nnotes = o->notes_cap = o->nown = 0;
}

void origin_unpacking(struct origin *o)
{
	clear_notes(o);
	o->unpacked = 0;
	o->client_last = false;
}

int origin_inherit(struct origin *o, ino_t ino, struct proto_str text)
{
	const struct origin_note new = {ORIGIN_UNPACKED, intern(o, text.data, text.len)};

	return note(o, ino, &new);
}

void origin_unpacked(struct origin *o)
{
	o->unpacked = stamp(o);
}

/* ---- answers ---- */

struct answer {
	char *text;
	size_t len;
	unsigned names;
	bool cut;
};

/* Names have no " or " in them, for those of sessions and jobs have no blanks. */
static bool has_name(const struct answer *a, const char *name, size_t len)
{
	const char *p = a->text, *end;

	do {
		end = strstr(p, OR);
		if ((end ? (size_t)(end - p) : strlen(p)) == len && memcmp(p, name, len) == 0)
			return true;
		p = end ? end + sizeof(OR) - 1 : NULL;
	} while (p);
	return false;
}

static void put_name(struct answer *a, const char *name)
{
	const size_t len = strlen(name), room = PROTO_ORIGIN_MAX - (sizeof(OTHERS) - 1);

	if (!len || has_name(a, name, len))
		return;
	if (a->names == NAMES || a->len + sizeof(OR) + len > room) {
		a->cut = true;
		return;
	}
	if (a->len)
		a->len = (size_t)(stpcpy(a->text + a->len, OR) - a->text);
	a->len = (size_t)(stpcpy(a->text + a->len, name) - a->text);
	a->names++;
}

static bool covers(const struct origin *o, const struct origin_period *p, int64_t at)
{
	return p->begin <= at && (p->state != ORIGIN_CLOSED || is_before(o, at, p->end));
}

/* Nobody was active: something that an interpreter still did, after the last run. */
static void put_after(const struct origin *o, int64_t at, struct answer *a)
{
	for (size_t i = o->n; i-- > 0;) {
		const struct origin_period *p = &o->periods[i];

		if (p->begin > at || is_client(o, p) || proto_is_job(p->id))
			continue;
		put_name(a, text_of(o, p->text));
		memmove(a->text + sizeof(AFTER) - 1, a->text, a->len + 1);
		memcpy(a->text, AFTER, sizeof(AFTER) - 1);
		a->len += sizeof(AFTER) - 1;
		return;
	}
}

size_t origin_of(const struct origin *o, const struct stat *st, char *ret_text)
{
	const struct origin_note *note = note_of(o, st);
	const int64_t at = to_ns(&st->st_ctim);
	struct answer a = {.text = ret_text};

	*ret_text = '\0';
	if (note && !note->text)
		return 0;
	if (note)
		put_name(&a, text_of(o, note->text));
	else if (is_before(o, at, o->unpacked))
		return 0;
	for (size_t i = o->n; i-- > 0 && !(note && o->fine);) {
		const struct origin_period *p = &o->periods[i];

		if (covers(o, p, at) && !(note && is_client(o, p)))
			put_name(&a, text_of(o, p->text));
	}
	if (is_before(o, at, o->forgotten) && !note)
		put_name(&a, EARLIER);
	else if (!a.len && !o->over)
		put_after(o, at, &a);
	if (a.cut)
		a.len = (size_t)(stpcpy(a.text + a.len, OTHERS) - a.text);
	return a.len;
}

/* ---- its life ---- */

void origin_init(struct origin *o, bool over)
{
	int64_t t[3];

	o->over = over;
	o->fd = memfd_create("xsbx-time", MFD_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		t[i] = stamp(o);
	o->fine = o->fd >= 0 && t[0] != t[1] && t[1] != t[2];
	o->client = intern(o, "client", 6);
}

void origin_fini(struct origin *o)
{
	close_fd(&o->fd);
	clear_notes(o);
	for (size_t i = 0; i < o->ntexts; i++)
		free(o->texts[i]);
	free(o->texts);
	free(o->periods);
	*o = (struct origin){.fd = -1};
}
