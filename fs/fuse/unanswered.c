/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that were not answered at once. See unanswered.h. */
#include "unanswered.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/sheets.h"

#define COPIED 16384u /* bytes that are rather copied */

void unanswered_init(struct unanswered *u, size_t size)
{
	*u = (struct unanswered){.size = size};
	TAILQ_INIT(&u->list);
}

static void bytes_free(struct unanswered *u, struct unanswered_request *r)
{
	switch (r->where) {
	case UNANSWERED_ON_SHEET: sheets_let_go(u->sheets, r->data); break;
	case UNANSWERED_OWN:
	case UNANSWERED_TO_REPLAY:
		if (r->len > COPIED && u->nspare < UNANSWERED_SPARE)
			u->spare[u->nspare++] = r->data;
		else
			free(r->data);
		break;
	case UNANSWERED_LENT:
	case UNANSWERED_NOWHERE: break;
	}
	r->where = UNANSWERED_NOWHERE;
	r->data = NULL;
}

/* It is recorded, or goes from where it is in the list: then another one is the first that is
 * not. */
static void pass(struct unanswered *u, const struct unanswered_request *r)
{
	if (u->fresh == r)
		u->fresh = TAILQ_NEXT(r, link);
}

static void take_out(struct unanswered *u, struct unanswered_request *r)
{
	pass(u, r);
	TAILQ_REMOVE(&u->list, r, link);
	LIST_REMOVE(r, near);
	u->n--;
	if (!r->recorded && r->where == UNANSWERED_NOWHERE)
		u->ngone--;
	bytes_free(u, r);
	free(r);
}

void unanswered_fini(struct unanswered *u)
{
	struct unanswered_request *r;

	while ((r = TAILQ_FIRST(&u->list)))
		take_out(u, r);
	while (u->nspare)
		free(u->spare[--u->nspare]);
}

/* Kernels count them in steps of two. */
static unsigned bucket_of(uint64_t unique)
{
	return (unsigned)(unique / 2 % UNANSWERED_BUCKETS);
}

/* Return: its bytes, for ever; or NULL. */
static char *keep_bytes(struct unanswered *u, char **buffer, size_t len)
{
	char *data = len > COPIED ? *buffer : malloc(len);

	if (len <= COPIED && data)
		memcpy(data, *buffer, len);
	if (len > COPIED)
		*buffer = u->nspare ? u->spare[--u->nspare] : malloc(u->size);
	return data;
}

/* Return: a request with these bytes, or NULL. */
static struct unanswered_request *insert(struct unanswered *u, uint64_t unique, char *data,
					 size_t len, enum unanswered_bytes where, bool recorded)
{
	struct unanswered_request *r = malloc(sizeof(*r));

	assert(!recorded || !u->fresh);
	if (!r)
		return NULL;
	*r = (struct unanswered_request){
		.unique = unique, .len = len, .where = where, .data = data, .recorded = recorded};
	TAILQ_INSERT_TAIL(&u->list, r, link);
	LIST_INSERT_HEAD(&u->bucket[bucket_of(unique)], r, near);
	u->n++;
	if (!recorded && !u->fresh)
		u->fresh = r;
	return r;
}

int unanswered_add(struct unanswered *u, uint64_t unique, char **buffer, size_t len)
{
	char *data = keep_bytes(u, buffer, len);

	if (!data || !insert(u, unique, data, len, UNANSWERED_OWN, false)) {
		free(data);
		u->nunknown++;
	}
	return *buffer ? 0 : -ENOMEM;
}

void unanswered_lend(struct unanswered *u, uint64_t unique, char *data, size_t len,
		     enum unanswered_bytes where)
{
	assert(where == UNANSWERED_LENT || where == UNANSWERED_ON_SHEET);
	if (insert(u, unique, data, len, where, false))
		return;
	if (where == UNANSWERED_ON_SHEET)
		sheets_let_go(u->sheets, data);
	u->nunknown++;
}

/* Return: @len bytes, or as many as of a buffer that is received in, because they may become one to
 * spare; or NULL. */
static char *own_bytes(const struct unanswered *u, size_t len)
{
	return malloc(len > COPIED ? u->size : len);
}

int unanswered_load(struct unanswered *u, uint64_t unique, const char *data, size_t len,
		    bool recorded)
{
	char *copy = own_bytes(u, len);

	if (!copy || !insert(u, unique, copy, len, UNANSWERED_TO_REPLAY, recorded)) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, data, len);
	return 0;
}

int unanswered_load_held(struct unanswered *u, uint64_t unique, const char *data, size_t len)
{
	if (!insert(u, unique, (char *)data, len, UNANSWERED_ON_SHEET, true))
		return -ENOMEM;
	sheets_hold(u->sheets, data);
	return 0;
}

struct unanswered_request *unanswered_new(const struct unanswered *u)
{
	assert(!u->fresh || !u->fresh->recorded);
	return u->fresh;
}

void unanswered_recorded(struct unanswered *u, struct unanswered_request *r)
{
	assert(!r->recorded && r == u->fresh);
	r->recorded = true;
	pass(u, r);
	if (r->where == UNANSWERED_OWN || r->where == UNANSWERED_LENT)
		bytes_free(u, r);
}

void unanswered_settle(struct unanswered *u, struct unanswered_request *r)
{
	if (r->where != UNANSWERED_TO_REPLAY)
		return;
	r->where = UNANSWERED_OWN;
	if (r->recorded)
		bytes_free(u, r);
}

static struct unanswered_request *find(const struct unanswered *u, uint64_t unique)
{
	struct unanswered_request *r;

	LIST_FOREACH(r, &u->bucket[bucket_of(unique)], near) {
		if (r->unique == unique)
			return r;
	}
	return NULL;
}

void unanswered_restore(struct unanswered *u, uint64_t unique, const char *data, size_t len)
{
	struct unanswered_request *r = find(u, unique);

	if (!r || !r->recorded || r->where != UNANSWERED_NOWHERE || r->len != len)
		return;
	r->data = own_bytes(u, len);
	if (!r->data)
		return;
	memcpy(r->data, data, len);
	r->where = UNANSWERED_OWN;
}

/* Or they are lost. */
static void copy_lent(const struct unanswered *u, struct unanswered_request *r)
{
	const char *lent = r->data;

	r->data = own_bytes(u, r->len);
	r->where = r->data ? UNANSWERED_OWN : UNANSWERED_NOWHERE;
	if (r->data)
		memcpy(r->data, lent, r->len);
}

void unanswered_keep(struct unanswered *u)
{
	struct unanswered_request *r;

	TAILQ_FOREACH(r, &u->list, link) {
		if (r->where == UNANSWERED_LENT)
			copy_lent(u, r);
		r->recorded = false;
		u->ngone += r->where == UNANSWERED_NOWHERE;
	}
	u->fresh = TAILQ_FIRST(&u->list);
}

void unanswered_requeue(struct unanswered *u, struct unanswered_request *r)
{
	assert(!r->recorded || !u->fresh);
	pass(u, r);
	TAILQ_REMOVE(&u->list, r, link);
	TAILQ_INSERT_TAIL(&u->list, r, link);
	if (!r->recorded && !u->fresh)
		u->fresh = r;
}

bool unanswered_drop(struct unanswered *u, uint64_t unique)
{
	struct unanswered_request *r = find(u, unique);
	const bool recorded = r && r->recorded;

	if (r)
		take_out(u, r);
	else if (u->nunknown)
		u->nunknown--; /* what is answered later than at once, and is not here, is one of those */
	return recorded;
}

bool unanswered_is_whole(const struct unanswered *u)
{
	return !u->ngone && !u->nunknown;
}
