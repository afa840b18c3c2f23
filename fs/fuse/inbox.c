/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's requests of one turn. See inbox.h. */
#include "inbox.h"

#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>

struct inbox_head {
	_Atomic uint64_t first; /* number of the first request */
	_Atomic uint32_t n;	/* requests, the one that is about to be received included */
	uint32_t unused;
	_Atomic uint64_t place; /* of the first */
	uint64_t unused_too[5];
};

static_assert(sizeof(struct inbox_head) == INBOX_HEAD, "as its users know it");

static size_t room_of(size_t len)
{
	return INBOX_MARGIN + (len + 7) / 8 * 8;
}

/* Return: bytes of the turn's sheet behind @at. */
static size_t left_at(const struct inbox *in, size_t at)
{
	return (in->sheet + 1) * in->sheets->size - at;
}

static char *place(const struct inbox *in, size_t at)
{
	return (char *)in->sheets->mem + at + INBOX_MARGIN;
}

static void set_length(char *request, uint32_t len)
{
	struct fuse_in_header *in = (void *)request;

	atomic_store_explicit((_Atomic uint32_t *)&in->len, len, memory_order_release);
}

static bool has_room(const struct inbox *in, size_t at)
{
	return left_at(in, at) >= room_of(in->max);
}

/* A turn begins, at @at. */
static void begin(struct inbox *in, size_t at)
{
	in->at = in->todo = in->settled = at;
	in->sheet = sheets_number(in->sheets, at);
	atomic_store_explicit(&in->head->n, 0, memory_order_release);
	atomic_store_explicit(&in->head->place, at, memory_order_release);
	atomic_store_explicit(&in->head->first, in->last + 1, memory_order_release);
}

void inbox_open(struct inbox *in, void *mem, struct sheets *sheets, size_t max)
{
	*in = (struct inbox){.head = mem, .sheets = sheets, .max = max};
	assert(room_of(max) < sheets->size && sheets->size % 8 == 0);
	begin(in, 0);
}

/* Return: bytes of the request at @at, 0 if it is none. */
static size_t length_at(const struct inbox *in, size_t at)
{
	const size_t left = left_at(in, at);
	struct fuse_in_header h;

	if (left < room_of(sizeof(h)))
		return 0;
	memcpy(&h, place(in, at), sizeof(h));
	if (h.len < sizeof(h) || h.len > in->max || room_of(h.len) > left)
		return 0;
	return h.len;
}

/* Return: where a turn may begin, if nothing is there of the last one; or -EBADMSG. */
static ssize_t somewhere(const struct sheets *sheets)
{
	const int free = sheets_free(sheets, sheets->n);

	return free < 0 ? -EBADMSG : (ssize_t)((size_t)free * sheets->size);
}

/* Whoever wrote it is dead, and may have been taken over before: nothing of it is believed. */
int inbox_load(struct inbox *in, void *mem, struct sheets *sheets, size_t max, uint64_t handled)
{
	const size_t all = sheets->size * sheets->n;
	uint64_t first, begun;
	size_t at, len;
	uint32_t n, i;

	*in = (struct inbox){.head = mem, .sheets = sheets, .max = max, .last = handled};
	first = atomic_load_explicit(&in->head->first, memory_order_acquire);
	n = atomic_load_explicit(&in->head->n, memory_order_acquire);
	begun = atomic_load_explicit(&in->head->place, memory_order_acquire);
	if (n == 0) {
		const ssize_t free = somewhere(sheets);

		if (free < 0)
			return (int)free;
		begin(in, (size_t)free);
		return 0;
	}
	if (first == 0 || first > handled + 1 || begun >= all || begun % 8)
		return -EBADMSG;
	at = in->todo = (size_t)begun;
	in->sheet = sheets_number(sheets, at);
	for (i = 0; i < n && (len = length_at(in, at)) > 0; i++) {
		at += room_of(len);
		if (first + i <= handled)
			in->todo = at;
	}
	if (i + 1 < n)
		return -EBADMSG; /* only the last one may be missing */
	in->at = at;
	if (sheets->held[in->sheet] && sheets_free(sheets, in->sheet) < 0)
		return -EBADMSG; /* there always was one more */
	inbox_settle(in);
	if (in->todo == at)
		begin(in, in->settled);
	else
		atomic_store_explicit(&in->head->n, i, memory_order_release);
	return 0;
}

bool inbox_has_room(const struct inbox *in)
{
	return has_room(in, in->at);
}

char *inbox_begin(struct inbox *in)
{
	const uint32_t n = (uint32_t)(in->last + 1 - in->head->first);
	char *request = place(in, in->at);

	assert(in->todo == in->at && inbox_has_room(in));
	set_length(request, 0);
	atomic_store_explicit(&in->head->n, n + 1, memory_order_release);
	return request;
}

void inbox_received(struct inbox *in, size_t len)
{
	assert(len <= in->max);
	in->at += room_of(len);
	in->todo = in->at;
	in->last++;
}

char *inbox_next(struct inbox *in, size_t *ret_len)
{
	size_t len;
	char *request;

	if (in->todo == in->at)
		return NULL;
	request = place(in, in->todo);
	len = length_at(in, in->todo);
	assert(len);
	in->todo += room_of(len);
	in->last++;
	*ret_len = len;
	return request;
}

bool inbox_hold(struct inbox *in, const char *request)
{
	assert(sheets_number(in->sheets, sheets_place(in->sheets, request)) == in->sheet);
	if (sheets_free(in->sheets, in->sheet) < 0)
		return false;
	sheets_hold(in->sheets, request);
	return true;
}

void inbox_settle(struct inbox *in)
{
	int other;

	in->settled = in->at;
	if (!in->sheets->held[in->sheet]) {
		in->settled = in->sheet * in->sheets->size;
	} else if (!has_room(in, in->at)) {
		other = sheets_free(in->sheets, in->sheet);
		assert(other >= 0);
		in->settled = (size_t)other * in->sheets->size;
	}
}

void inbox_reset(struct inbox *in)
{
	if (in->todo == in->at)
		begin(in, in->settled);
}
