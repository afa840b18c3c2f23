/* SPDX-License-Identifier: Apache-2.0 */
/* Records in memory that outlives the process. See estate.h. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "estate_internal.h"
#include "memory.h"
#include "util.h"

/* ---- beginning and end ---- */

/* Return: NULL if out of memory. @fd is its own then. */
static struct estate *make(int fd)
{
	struct estate *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->fd = fd;
	TAILQ_INIT(&e->items);
	return e;
}

/* Of the one size for ever: nobody who has it can pull pages from under a mapping by cutting it
 * off. */
static int lay_out(int fd)
{
	if (ftruncate(fd, (off_t)ESTATE_SIZE) < 0)
		return -errno;
	return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ? -errno : 0;
}

int estate_new(struct estate **ret_e)
{
	struct estate *e;
	const int fd = memory_new("xsbxfs-estate");
	int r;

	if (fd < 0)
		return fd;
	e = make(fd);
	if (!e) {
		close(fd);
		return -ENOMEM;
	}
	r = lay_out(fd);
	if (r == 0)
		r = estate_map(e);
	if (r == 0)
		r = estate_items_init(e);
	if (r < 0) {
		estate_free(e);
		return r;
	}
	assert(e->head);
	*e->head = (struct estate_head){.magic = ESTATE_MAGIC, .version = ESTATE_VERSION};
	*ret_e = e;
	return 0;
}

/* Is it a file as lay_out() makes one? */
static bool is_laid_out(int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & F_SEAL_SHRINK) && !(seals & F_SEAL_WRITE) &&
	       fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == ESTATE_SIZE;
}

/* What its head says, of which e->head has a copy. @taken: bytes of memory that there are. Return:
 * 0 or -EBADMSG. */
static int read_head(struct estate *e, uint64_t taken)
{
	const struct estate_head *h = e->head;

	if (h->magic != ESTATE_MAGIC || h->version != ESTATE_VERSION || h->given_up)
		return -EBADMSG;
	e->active = h->committed & ESTATE_AREA_BIT ? 1 : 0;
	e->end = e->last_end = h->committed & ~ESTATE_AREA_BIT;
	/* There is memory of that size, or it would be made by looking at it. */
	return e->end > ESTATE_AREA_SIZE || e->end % 8 || e->end > taken ? -EBADMSG : 0;
}

/* All that counts of another one's file, and nothing that may be left of what was under way. */
static int inherit(struct estate *e, int from)
{
	int r = estate_copy_head(e, from);

	if (r == 0)
		r = read_head(e, estate_taken_of(from));
	if (r == 0)
		r = estate_copy(e, from);
	return r == 0 ? estate_load(e) : r;
}

int estate_open(int fd, struct estate **ret_e)
{
	struct estate *e;
	int r = estate_new(&e);

	if (r < 0) {
		close(fd);
		return r;
	}
	r = estate_take(e, fd, NULL, NULL);
	if (r < 0)
		estate_free(e);
	else
		*ret_e = e;
	return r;
}

int estate_take(struct estate *e, int fd, void (*gets_on)(void *data), void *data)
{
	_cleanup_close_ int from = fd;
	int r = is_laid_out(from) ? 0 : -EBADMSG;

	assert(!e->failed && TAILQ_EMPTY(&e->items) && !e->end);
	if (r < 0)
		return r;
	e->gets_on = gets_on;
	e->gets_on_data = data;
	r = inherit(e, from);
	e->gets_on = NULL;
	return r;
}

int estate_fd(const struct estate *e)
{
	return e->fd;
}

void estate_free(struct estate *e)
{
	if (!e)
		return;
	estate_items_clear(e);
	estate_unmap(e);
	close(e->fd);
	free(e);
}

bool estate_is_whole(const struct estate *e)
{
	return e->failed == 0;
}

/* Says so to an heir as well, and first of all. */
static int give_up(struct estate *e, int err)
{
	if (e->failed)
		return e->failed;
	e->failed = err;
	__atomic_store_n(&e->head->given_up, 1, __ATOMIC_RELEASE);
	estate_items_clear(e);
	e->moving = false;
	e->end = 0;
	for (unsigned i = 0; i < ESTATE_AREAS; i++)
		(void)estate_cut(e, i, 0);
	return err;
}

void estate_give_up(struct estate *e, int err)
{
	(void)give_up(e, err);
}

/* ---- writing ---- */

static const void *fields_of(const struct estate *e, const struct estate_item *it)
{
	return estate_entry_at(e, e->active, it->at[e->active]) + 1;
}

static bool is_equal(const struct estate *e, const struct estate_item *it, const void *fields,
		     size_t len)
{
	return it->len == len && (len == 0 || memcmp(fields_of(e, it), fields, len) == 0);
}

static void compare_put(struct estate *e, struct estate_item *it, uint32_t kind, uint64_t key,
			uint64_t sub, const void *fields, size_t len)
{
	struct estate_compare *c = e->compare;

	if (it)
		it->seen = e->comparison;
	if (it && is_equal(e, it, fields, len))
		return;
	c->has = it ? fields_of(e, it) : NULL;
	c->has_len = it ? it->len : 0;
	c->wants = fields;
	c->wants_len = len;
	c->differs(c->data, it ? ESTATE_OTHER : ESTATE_MISSING, kind, key, sub);
}

/* Return: 0 or -errno. */
static int place(struct estate *e, struct estate_item *it, const void *fields, size_t len)
{
	int r = estate_append(e, e->active, it, false, fields, len, &it->at[e->active]);

	if (r < 0)
		return r;
	estate_item_count(e, it, len);
	if (e->moving)
		estate_move_too(e, it, false);
	return 0;
}

/* The serials come to an end only if they were made up by who had this before. Return: 0,
 * -EOVERFLOW, -ENOMEM. */
static int make_item(struct estate *e, uint32_t kind, uint64_t key, uint64_t sub,
		     struct estate_item **ret_it)
{
	struct estate_item *it;

	if (e->serial == UINT64_MAX)
		return -EOVERFLOW;
	it = estate_item_new(e, kind, key, sub);
	if (!it)
		return -ENOMEM;
	it->serial = ++e->serial;
	it->seen = e->comparison;
	*ret_it = it;
	return 0;
}

int estate_put(struct estate *e, uint32_t kind, uint64_t key, uint64_t sub, const void *fields,
	       size_t len)
{
	struct estate_item *it;
	bool fresh;
	int r;

	assert(kind > 0 && kind < ESTATE_DROPPED);
	if (e->failed)
		return e->failed;
	it = estate_find(e, kind, key, sub);
	if (e->compare) {
		compare_put(e, it, kind, key, sub, fields, len);
		return 0;
	}
	if (len > RECORD_MAX)
		return give_up(e, -EFBIG);
	if (it && e->sweeps)
		it->seen = e->comparison;
	if (it && is_equal(e, it, fields, len))
		return 0;
	fresh = !it;
	r = fresh ? make_item(e, kind, key, sub, &it) : 0;
	if (r < 0)
		return give_up(e, r);
	/* Written in this turn already: nobody can have seen that. */
	if (!fresh && !e->moving && it->at[e->active] >= e->end && it->len == len) {
		memcpy(estate_entry_at(e, e->active, it->at[e->active]) + 1, fields, len);
		return 0;
	}
	r = place(e, it, fields, len);
	return r < 0 ? give_up(e, r) : 0;
}

static int drop(struct estate *e, struct estate_item *it)
{
	uint64_t at;
	int r;

	if (e->compare) {
		struct estate_compare *c = e->compare;

		it->seen = e->comparison;
		c->has = fields_of(e, it);
		c->has_len = it->len;
		c->wants = NULL;
		c->wants_len = 0;
		c->differs(c->data, ESTATE_LEFT, it->kind, it->key, it->sub);
		return 0;
	}
	r = estate_append(e, e->active, it, true, NULL, 0, &at);
	if (r < 0)
		return give_up(e, r);
	if (e->moving)
		estate_move_too(e, it, true);
	estate_item_free(e, it);
	return 0;
}

int estate_drop(struct estate *e, uint32_t kind, uint64_t key, uint64_t sub)
{
	struct estate_item *it = estate_find(e, kind, key, sub);

	if (e->failed)
		return e->failed;
	return it ? drop(e, it) : 0;
}

void estate_drop_all(struct estate *e, uint32_t kind, uint64_t key)
{
	struct estate_item *it = estate_of_key(e, kind, key, NULL), *next;

	for (; it; it = next) {
		next = estate_of_key(e, kind, key, it);
		if (drop(e, it) < 0)
			return;
	}
}

int estate_commit(struct estate *e)
{
	const uint64_t end = e->area[e->active].tail;

	assert(!e->compare);
	if (e->failed)
		return e->failed;
	if (end != e->end) {
		e->end = end;
		__atomic_store_n(&e->head->committed, end | (e->active ? ESTATE_AREA_BIT : 0),
				 __ATOMIC_RELEASE);
	}
	estate_tidy(e);
	return 0;
}

/* ---- reading ---- */

bool estate_get(const struct estate *e, uint32_t kind, uint64_t key, uint64_t sub,
		const void **ret_fields, size_t *ret_len)
{
	const struct estate_item *it = estate_find(e, kind, key, sub);

	if (!it)
		return false;
	*ret_fields = fields_of(e, it);
	*ret_len = it->len;
	return true;
}

bool estate_has(const struct estate *e, uint32_t kind, uint64_t key, uint64_t sub)
{
	return estate_find(e, kind, key, sub) != NULL;
}

int estate_each(const struct estate *e, uint32_t kind,
		int (*fn)(void *data, const struct record *rec, uint64_t sub), void *data)
{
	const struct estate_item *it;
	struct record rec;
	int r = 0;

	TAILQ_FOREACH(it, &e->items, link) {
		if (it->kind != kind)
			continue;
		rec = (struct record){
			.kind = kind,
			.key = it->key,
			.fields = record_reader(fields_of(e, it), it->len),
		};
		r = fn(data, &rec, it->sub);
		if (r)
			break;
	}
	return r;
}

size_t estate_live(const struct estate *e)
{
	return e->live;
}

/* ---- comparing ---- */

bool estate_is_compared(const struct estate *e)
{
	return e->compare != NULL;
}

void estate_compare_begin(struct estate *e, struct estate_compare *c)
{
	assert(!e->compare);
	e->compare = c;
	e->comparison++;
}

/* What was not put since. @of_kind: NULL: of all kinds */
static void drop_unseen(struct estate *e, bool (*of_kind)(uint32_t kind))
{
	struct estate_item *it, *next;

	for (it = TAILQ_FIRST(&e->items); it && !e->failed; it = next) {
		next = TAILQ_NEXT(it, link);
		if (it->seen != e->comparison && (!of_kind || of_kind(it->kind)))
			(void)drop(e, it);
	}
}

void estate_compare_end(struct estate *e)
{
	drop_unseen(e, e->compare->is_whole);
	e->compare = NULL;
}

/* ---- sweeping ---- */

void estate_sweep_begin(struct estate *e)
{
	assert(!e->compare && !e->sweeps);
	e->sweeps = true;
	e->comparison++;
}

int estate_sweep_end(struct estate *e, bool (*of_kind)(uint32_t kind))
{
	assert(e->sweeps);
	e->sweeps = false;
	drop_unseen(e, of_kind);
	return e->failed;
}

void estate_keeps(struct estate *e, uint32_t kind, uint64_t key, uint64_t sub)
{
	struct estate_item *it = e->compare || e->sweeps ? estate_find(e, kind, key, sub) : NULL;

	if (it)
		it->seen = e->comparison;
}

void estate_keeps_all(struct estate *e, uint32_t kind, uint64_t key)
{
	struct estate_item *it = NULL;

	while ((e->compare || e->sweeps) && (it = estate_of_key(e, kind, key, it)))
		it->seen = e->comparison;
}
