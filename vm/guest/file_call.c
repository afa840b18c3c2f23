/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to an agent's files: split, pipelined, their answers reassembled. See file_call.h. */
#include "file_call.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "file_call_internal.h"
#include "file_wire.h"
#include "vm/base/util.h"

#define SLOT_BITS 8

static_assert(PROTO_FILES_INFLIGHT == 1u << SLOT_BITS, "a slot is the low byte of an id");
static_assert(GUEST_FILE_REQUEST_MAX % PROTO_DATA_MAX == 0, "whole pieces");

void file_calls_init(struct file_calls *calls, struct channel *channel, const unsigned *reserved,
		     file_orphan_fn fn, void *owner)
{
	calls->channel = channel;
	calls->reserved = reserved;
	calls->orphan_done = fn;
	calls->owner = owner;
	STAILQ_INIT(&calls->waiting);
	TAILQ_INIT(&calls->all);
	for (unsigned i = 0; i < PROTO_FILES_INFLIGHT; i++)
		calls->free[i] = (uint8_t)(PROTO_FILES_INFLIGHT - 1 - i);
	calls->nfree = PROTO_FILES_INFLIGHT;
}

/* ---- what is sent ---- */

int file_call_check(const struct vm_file *req)
{
	const size_t newname_max = req->op == VM_SYMLINK ? PROTO_LINK_MAX : PROTO_NAME_MAX;

	if ((req->op == VM_READ || req->op == VM_WRITE) && req->size > GUEST_FILE_REQUEST_MAX)
		return -EINVAL;
	if (req->name && strlen(req->name) > PROTO_NAME_MAX)
		return -ENAMETOOLONG;
	if (req->newname && strlen(req->newname) > newname_max)
		return -ENAMETOOLONG;
	return 0;
}

bool file_calls_under_way(const struct file_calls *calls)
{
	return calls->nfree < PROTO_FILES_INFLIGHT;
}

bool file_calls_have_slot(const struct file_calls *calls)
{
	return calls->nfree > *calls->reserved;
}

bool file_calls_change(const struct file_calls *calls)
{
	const struct file_call *call;

	TAILQ_FOREACH(call, &calls->all, link) {
		if (call->changes)
			return true;
	}
	return false;
}

static struct file_piece *piece_new(const struct file_calls *calls, const struct vm_file *req,
				    struct file_call *call, unsigned number)
{
	const size_t skip = (size_t)number * PROTO_DATA_MAX;
	const size_t size = MIN(req->size - skip, (size_t)PROTO_DATA_MAX);
	struct file_piece *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->frame = file_wire_pack(req, skip, size, channel_sheets(calls->channel));
	if (!p->frame) {
		free(p);
		return NULL;
	}
	p->call = call;
	p->number = number;
	return p;
}

void file_call_add(struct file_calls *calls, struct file_call *call)
{
	call->calls = calls;
	TAILQ_INSERT_TAIL(&calls->all, call, link);
	calls->norphans += call->orphan;
}

void file_call_free(struct file_call *call)
{
	TAILQ_REMOVE(&call->calls->all, call, link);
	call->calls->norphans -= call->orphan;
	free(call->bytes);
	free(call);
}

void file_piece_free(struct file_piece *p)
{
	channel_frame_free(p->frame);
	free(p);
}

unsigned file_call_pieces(enum vm_file_op op, size_t size)
{
	if (op != VM_READ && op != VM_WRITE)
		return 1;
	return MAX((unsigned)((size + PROTO_DATA_MAX - 1) / PROTO_DATA_MAX), 1u);
}

/* Does it go on where another one ended that was full? */
static bool goes_on(const struct file_calls *calls, const struct vm_file *req)
{
	return req->handle == calls->read_handle && req->offset == calls->read_end;
}

static struct file_call *call_new(struct file_calls *calls, const struct vm_file *req, unsigned how,
				  file_call_fn fn, void *data)
{
	struct file_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->number = ++calls->last;
	call->claim = req->claim;
	call->op = req->op;
	call->fn = fn;
	call->data = data;
	call->handle = req->handle;
	call->offset = req->offset;
	call->size = req->size;
	call->token = req->lock.token;
	call->may_wait = req->op == VM_LOCK && req->lock.wait;
	call->urgent = how & FILE_CALL_URGENT;
	call->changes = vm_file_changes(req);
	if (req->op == VM_READDIR)
		call->size = MIN(req->size, (size_t)PROTO_DATA_MAX);
	call->npieces = file_call_pieces(req->op, req->size);
	if (req->op == VM_READ && !(how & FILE_CALL_EXACT) && !goes_on(calls, req))
		call->kept_back = call->npieces - 1;
	call->unanswered = call->npieces - call->kept_back;
	file_call_add(calls, call);
	return call;
}

/* Where the pieces of a READ are put together. Return: false if out of memory. */
static bool call_reserve(struct file_call *call)
{
	if (call->op == VM_READ && call->npieces > 1 && !call->kept_back && !call->bytes)
		call->bytes = malloc(call->size);
	return call->op != VM_READ || call->npieces == 1 || call->kept_back || call->bytes;
}

/* May it be sent? */
static bool may_go(const struct file_calls *calls, const struct file_piece *p)
{
	if (!p->frame)
		return false;
	return !p->call || (p->call->urgent ? calls->nfree > 0 : file_calls_have_slot(calls));
}

void file_calls_pump(struct file_calls *calls)
{
	struct file_piece *p;

	while ((p = STAILQ_FIRST(&calls->waiting)) && may_go(calls, p)) {
		unsigned i = 0;
		uint64_t ticket;

		STAILQ_REMOVE_HEAD(&calls->waiting, link);
		calls->held -= channel_frame_size(p->frame);
		if (p->call) {
			i = calls->free[--calls->nfree];
			p->call->in_flight++;
			calls->slot[i].call = p->call;
			calls->slot[i].piece = p->number;
			calls->slot[i].round = (calls->slot[i].round + 1) & FILE_ROUND_MAX;
			p->frame->header.id = calls->slot[i].round << SLOT_BITS | i;
		}
		ticket = channel_push(calls->channel, p->frame,
				      p->call && p->call->urgent ? CHANNEL_CONTROL : CHANNEL_BULK);
		if (p->call)
			calls->slot[i].ticket = ticket;
		free(p);
	}
}

/* Puts @n pieces of a request into the queue, from @first on. Return: their bytes, or -ENOMEM and none is there. */
static ssize_t make_pieces(struct file_calls *calls, const struct vm_file *req,
			   struct file_call *call, unsigned first, unsigned n)
{
	struct file_piece *pieces[FILE_PIECES_MAX];
	ssize_t bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		pieces[i] = piece_new(calls, req, call, first + i);
		if (!pieces[i]) {
			while (i--)
				file_piece_free(pieces[i]);
			return -ENOMEM;
		}
		bytes += (ssize_t)channel_frame_size(pieces[i]->frame);
	}
	for (unsigned i = 0; i < n; i++) {
		if (call && call->urgent)
			STAILQ_INSERT_HEAD(&calls->waiting, pieces[i], link);
		else
			STAILQ_INSERT_TAIL(&calls->waiting, pieces[i], link);
	}
	calls->held += (size_t)bytes;
	return bytes;
}

int file_call_send(struct file_calls *calls, const struct vm_file *req, unsigned how,
		   file_call_fn fn, void *data)
{
	struct file_call *call = call_new(calls, req, how, fn, data);

	if (!call)
		return -ENOMEM;
	if (!call_reserve(call) || make_pieces(calls, req, call, 0, call->unanswered) < 0) {
		file_call_free(call);
		return -ENOMEM;
	}
	file_calls_pump(calls);
	return 0;
}

int file_call_tell(struct file_calls *calls, const struct vm_file *req)
{
	const ssize_t r = make_pieces(calls, req, NULL, 0, 1);

	if (r < 0)
		return (int)r;
	file_calls_pump(calls);
	return 0;
}

/* ---- answers ---- */

static void call_done(struct file_call *call, int err, struct vm_file_reply *reply)
{
	if (call->fn)
		call->fn(call->data, err, err ? NULL : reply);
	else
		call->calls->orphan_done(call->calls->owner, call->op, err, err ? NULL : reply);
}

static int reply_listing(struct file_call *call, struct proto_in *in)
{
	_cleanup_free_ void *memory = NULL;
	struct vm_file_reply reply = {0};
	const int r = file_wire_listing(in, call->size, &reply, &memory);

	if (r == -EPROTO)
		return r;
	call_done(call, r, &reply);
	return 0;
}

/* Of all but reads, writes and directories. */
static int reply_other(struct file_call *call, struct proto_in *in)
{
	struct vm_file_reply reply = {0};
	bool waits = false;
	const int r = file_wire_reply(call->op, in, &reply, &waits);

	if (r == -EPROTO)
		return r;
	/* The lock is not there yet: file_calls_on_locked() answers later. */
	call->waits = waits && call->may_wait;
	if (!call->waits)
		call_done(call, r, &reply);
	return 0;
}

size_t file_piece_size(const struct file_call *call, unsigned number)
{
	return MIN(call->size - (size_t)number * PROTO_DATA_MAX, (size_t)PROTO_DATA_MAX);
}

/* All pieces of a read or write are there: everything up to the first that came out short. */
static void transfer_done(struct file_call *call, const void *bytes)
{
	struct vm_file_reply reply = {.data = call->op == VM_READ ? bytes : NULL};
	int err = 0;

	for (unsigned i = 0; i < call->npieces; i++) {
		if (call->result[i] < 0) {
			err = i == 0 ? call->result[i] : 0;
			break;
		}
		reply.size += (size_t)call->result[i];
		if ((size_t)call->result[i] < file_piece_size(call, i))
			break;
	}
	if (call->op == VM_READ && reply.size == call->size) {
		call->calls->read_handle = call->handle;
		call->calls->read_end = call->offset + call->size;
	}
	call_done(call, err, &reply);
}

/* The first piece of a READ came back full: sends those that were kept back. Return: false if that cannot be; the
 * read is short then. */
static bool send_rest(struct file_call *call, const uint8_t *bytes)
{
	const unsigned n = call->kept_back;
	const struct vm_file req = {
		.op = VM_READ, .handle = call->handle, .offset = call->offset, .size = call->size};

	call->kept_back = 0;
	if (!call_reserve(call) || make_pieces(call->calls, &req, call, 1, n) < 0) {
		call->npieces = 1;
		return false;
	}
	memcpy(call->bytes, bytes, PROTO_DATA_MAX);
	call->unanswered += n;
	return true; /* they go out when the slot of the first is free */
}

/* One piece of a read or write. */
static int reply_transfer(struct file_call *call, unsigned number, struct proto_in *in)
{
	const void *bytes = NULL;
	size_t n;

	if (call->op == VM_READ) {
		struct proto_str s = get_rest(in);

		n = s.len;
		if (n > file_piece_size(call, number))
			return -EPROTO;
		if (call->kept_back && n == PROTO_DATA_MAX) {
			call->result[0] = (int32_t)n;
			if (send_rest(call, (const uint8_t *)s.data))
				return 0;
		}
		if (call->bytes)
			memcpy(call->bytes + (size_t)number * PROTO_DATA_MAX, s.data, n);
		bytes = call->bytes ? (const void *)call->bytes : s.data;
	} else {
		n = get_u32(in);
		if (!get_end(in) || n > file_piece_size(call, number))
			return -EPROTO;
	}
	call->result[number] = (int32_t)n;
	if (call->unanswered == 0)
		transfer_done(call, bytes);
	return 0;
}

/* A piece failed as a whole. */
static void reply_error(struct file_call *call, unsigned number, int err)
{
	if (file_wire_answer(call->op) != FILE_ANSWER_TRANSFER) {
		call_done(call, err, NULL);
		return;
	}
	call->result[number] = err;
	if (call->unanswered == 0)
		transfer_done(call, call->bytes);
}

static int reply_call(struct file_call *call, unsigned number, struct proto_in *in)
{
	int err = file_wire_errno(get_u32(in));

	if (in->bad)
		return -EPROTO;
	if (err) {
		reply_error(call, number, err);
		return 0;
	}
	switch ((int)file_wire_answer(call->op)) {
	case FILE_ANSWER_TRANSFER: return reply_transfer(call, number, in);
	case FILE_ANSWER_LISTING: return reply_listing(call, in);
	default: return reply_other(call, in);
	}
}

int file_calls_on_reply(struct file_calls *calls, uint32_t id, struct proto_in *in)
{
	const unsigned i = id & (PROTO_FILES_INFLIGHT - 1);
	struct file_call *call = calls->slot[i].call;
	int r;

	/* Who could answer what waits in the channel would have ever more of it wait there. */
	if (!call || calls->slot[i].round != id >> SLOT_BITS ||
	    !channel_has_sent(calls->channel, calls->slot[i].ticket))
		return -EPROTO;
	call->unanswered--;
	r = reply_call(call, calls->slot[i].piece, in);
	if (r < 0) {
		/* The connection ends; file_calls_fail() answers. */
		call->unanswered++;
		return r;
	}
	call->in_flight--;
	call->answered |= 1u << calls->slot[i].piece;
	calls->slot[i].call = NULL;
	calls->free[calls->nfree++] = (uint8_t)i;
	if (call->unanswered == 0 && !call->waits)
		file_call_free(call);
	file_calls_pump(calls);
	return 0;
}

int file_calls_on_locked(struct file_calls *calls, struct proto_in *in)
{
	struct vm_file_reply granted = {.handle = 0};
	const uint64_t token = get_u64(in);
	const uint32_t err = get_u32(in);
	struct file_call *call;

	TAILQ_FOREACH(call, &calls->all, link)
		if (call->waits && call->token == token)
			break;
	if (!get_end(in) || !call)
		return -EPROTO;
	call_done(call, file_wire_errno(err), &granted);
	file_call_free(call);
	return 0;
}

/* ---- the end ---- */

void file_calls_fail(struct file_calls *calls, int err)
{
	struct file_call *call;
	struct file_piece *p;

	for (unsigned i = 0; i < PROTO_FILES_INFLIGHT; i++) {
		if (calls->slot[i].call)
			calls->free[calls->nfree++] = (uint8_t)i;
		calls->slot[i].call = NULL;
	}
	while ((p = STAILQ_FIRST(&calls->waiting))) {
		STAILQ_REMOVE_HEAD(&calls->waiting, link);
		file_piece_free(p);
	}
	calls->held = 0;
	while ((call = TAILQ_FIRST(&calls->all))) {
		call_done(call, err, NULL);
		file_call_free(call);
	}
}
