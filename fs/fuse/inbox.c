/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's requests of one turn. See inbox.h. */
#include "inbox.h"

#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <string.h>

/* The beginning of the memory. */
struct inbox_head {
	_Atomic uint64_t first; /* number of the first request */
	_Atomic uint32_t n;	/* requests, the one that is about to be received included */
	uint32_t unused[13];
};

static_assert(sizeof(struct inbox_head) == 64, "the first request is aligned");

static size_t room_of(size_t len)
{
	return INBOX_MARGIN + (len + 7) / 8 * 8;
}

static char *place(const struct inbox *in, size_t at)
{
	return (char *)in->head + at + INBOX_MARGIN;
}

size_t inbox_size(size_t max)
{
	return sizeof(struct inbox_head) + 2 * room_of(max);
}

static void set_length(char *request, uint32_t len)
{
	struct fuse_in_header *in = (void *)request;

	atomic_store_explicit((_Atomic uint32_t *)&in->len, len, memory_order_release);
}

static void empty(struct inbox *in)
{
	in->at = in->todo = sizeof(struct inbox_head);
	atomic_store_explicit(&in->head->n, 0, memory_order_release);
	atomic_store_explicit(&in->head->first, in->last + 1, memory_order_release);
}

void inbox_open(struct inbox *in, void *mem, size_t max)
{
	*in = (struct inbox){.head = mem, .size = inbox_size(max), .max = max};
	empty(in);
}

/* Return: bytes of the request at @at, 0 if it is none. */
static size_t length_at(const struct inbox *in, size_t at)
{
	struct fuse_in_header h;

	if (at > in->size - room_of(sizeof(h)))
		return 0;
	memcpy(&h, place(in, at), sizeof(h));
	if (h.len < sizeof(h) || h.len > in->max || room_of(h.len) > in->size - at)
		return 0;
	return h.len;
}

/* Whoever wrote it is dead, and may have been taken over before: nothing of it is believed. */
int inbox_load(struct inbox *in, void *mem, size_t max, uint64_t handled)
{
	uint64_t first;
	size_t at = sizeof(struct inbox_head), len;
	uint32_t n, i;

	*in = (struct inbox){
		.head = mem, .size = inbox_size(max), .max = max, .last = handled, .todo = at};
	first = atomic_load_explicit(&in->head->first, memory_order_acquire);
	n = atomic_load_explicit(&in->head->n, memory_order_acquire);
	if (n > 0 && (first == 0 || first > handled + 1))
		return -EBADMSG;
	for (i = 0; i < n && (len = length_at(in, at)) > 0; i++) {
		at += room_of(len);
		if (first + i <= handled)
			in->todo = at;
	}
	if (i + 1 < n)
		return -EBADMSG; /* only the last one may be missing */
	in->at = at;
	if (in->todo == at)
		empty(in);
	else
		atomic_store_explicit(&in->head->n, i, memory_order_release);
	return 0;
}

bool inbox_has_room(const struct inbox *in)
{
	return in->size - in->at >= room_of(in->max);
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

void inbox_reset(struct inbox *in)
{
	if (in->todo == in->at)
		empty(in);
}
