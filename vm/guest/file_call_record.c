/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to an agent's files, in a record, for a process that goes on with them. See file_call.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "channel.h"
#include "file_call_internal.h"
#include "file_wire.h"
#include "vm/base/record_table.h"
#include "vm/base/util.h"

#define WAITING_MAX	 65536u /* pieces and messages that are believed */
#define ERRNO_MAX	 4095
#define FILE_MESSAGE_MAX 64u /* bytes of what has no answer: numbers */

/* Never reuse one. */
enum {
	TAG_CALL = 1, /* fields: TAG_CALL_*; oldest first */
	TAG_SLOT,     /* likewise, of one with a piece in flight */
	TAG_PIECE,    /* of one that waits, in their order */
	TAG_MESSAGE,  /* likewise, without an answer */
};

enum {
	TAG_CALL_NUMBER = 1,
	TAG_CALL_CLAIM,
	TAG_CALL_TYPE, /* of its frames */
	TAG_CALL_SIZE,
	TAG_CALL_TOKEN,
	TAG_CALL_MAY_WAIT,
	TAG_CALL_WAITS,
	TAG_CALL_URGENT,
	TAG_CALL_RESULT, /* fields: TAG_RESULT_*, of a piece that was answered */
};

enum { TAG_RESULT_PIECE = 1, TAG_RESULT_BYTES, TAG_RESULT_ERRNO };

enum { TAG_SLOT_NUMBER = 1, TAG_SLOT_CALL, TAG_SLOT_PIECE, TAG_SLOT_ROUND, TAG_SLOT_TICKET };

enum { TAG_PIECE_CALL = 1, TAG_PIECE_NUMBER };

enum { TAG_MESSAGE_TYPE = 1, TAG_MESSAGE_PAYLOAD };

#define MEMBER(member, tag, max) RECORD_MEMBER(struct file_call, member, tag, max)

static const struct record_member members[] = {
	MEMBER(number, TAG_CALL_NUMBER, UINT64_MAX - 1),
	MEMBER(claim, TAG_CALL_CLAIM, UINT64_MAX),
	MEMBER(size, TAG_CALL_SIZE, SIZE_MAX),
	MEMBER(token, TAG_CALL_TOKEN, UINT64_MAX),
	MEMBER(may_wait, TAG_CALL_MAY_WAIT, 1),
	MEMBER(waits, TAG_CALL_WAITS, 1),
	MEMBER(urgent, TAG_CALL_URGENT, 1),
};

/* ---- writing ---- */

/* Can nothing be done with its answer but to let it come? What of it was not sent is not sent then. */
static bool is_dropped(const struct file_call *call)
{
	return call->op == VM_READ || !call->claim;
}

static void put_results(const struct file_call *call, struct buf *out)
{
	for (unsigned i = 0; i < call->npieces; i++) {
		const int32_t result = call->result[i];
		size_t at;

		if (!(call->answered & 1u << i))
			continue;
		at = record_open(out, TAG_CALL_RESULT);
		record_u64(out, TAG_RESULT_PIECE, i);
		record_u64(out, result < 0 ? TAG_RESULT_ERRNO : TAG_RESULT_BYTES,
			   (uint64_t)(result < 0 ? -result : result));
		record_close(out, at);
	}
}

static void put_call(const struct file_call *call, struct buf *out)
{
	size_t at;

	if (is_dropped(call) && !call->in_flight && !call->waits)
		return;
	at = record_open(out, TAG_CALL);
	record_put_members(out, call, members, ARRAY_SIZE(members));
	record_u64(out, TAG_CALL_TYPE, file_wire_type(call->op));
	if (call->op == VM_WRITE && !is_dropped(call))
		put_results(call, out);
	record_close(out, at);
}

static void put_slot(const struct file_calls *calls, unsigned i, struct buf *out)
{
	const size_t at = record_open(out, TAG_SLOT);

	record_u64(out, TAG_SLOT_NUMBER, i);
	record_u64(out, TAG_SLOT_CALL, calls->slot[i].call->number);
	record_u64(out, TAG_SLOT_PIECE, calls->slot[i].piece);
	record_u64(out, TAG_SLOT_ROUND, calls->slot[i].round);
	record_u64(out, TAG_SLOT_TICKET, calls->slot[i].ticket);
	record_close(out, at);
}

static void put_piece(const struct file_piece *p, struct buf *out)
{
	const bool answers = p->call != NULL;
	size_t at;

	if (answers && is_dropped(p->call))
		return;
	at = record_open(out, answers ? TAG_PIECE : TAG_MESSAGE);
	if (answers) {
		record_u64(out, TAG_PIECE_CALL, p->call->number);
		record_u64(out, TAG_PIECE_NUMBER, p->number);
	} else {
		record_u64(out, TAG_MESSAGE_TYPE, p->frame->header.type);
		record_bytes(out, TAG_MESSAGE_PAYLOAD, p->frame->wire + PROTO_HEADER,
			     p->frame->out.len);
	}
	record_close(out, at);
}

void file_calls_put(const struct file_calls *calls, struct buf *out)
{
	const struct file_call *call;
	const struct file_piece *p;

	TAILQ_FOREACH(call, &calls->all, link)
		put_call(call, out);
	for (unsigned i = 0; i < PROTO_FILES_INFLIGHT; i++)
		if (calls->slot[i].call)
			put_slot(calls, i, out);
	STAILQ_FOREACH(p, &calls->waiting, link)
	put_piece(p, out);
}

/* ---- reading ---- */

struct loaded {
	struct file_call *call;
	unsigned pieces; /* bits of those that were answered, are in flight or wait */
};

struct loader {
	struct file_calls *calls;
	struct loaded *of; /* by number */
	size_t n, cap;
	size_t nwaiting;
};

static int compare(const void *key, const void *of)
{
	const uint64_t number = *(const uint64_t *)key;
	const uint64_t other = ((const struct loaded *)of)->call->number;

	return (number > other) - (number < other);
}

/* Return: 0; -EBADMSG if there is no such piece, or twice. */
static int find_piece(const struct loader *l, uint64_t number, uint64_t piece,
		      struct loaded **ret_one)
{
	struct loaded *one = l->n ? bsearch(&number, l->of, l->n, sizeof(*one), compare) : NULL;

	if (!one || piece >= one->call->npieces || one->pieces & 1u << piece || one->call->waits)
		return -EBADMSG;
	one->pieces |= 1u << piece;
	one->call->unanswered++;
	*ret_one = one;
	return 0;
}

static int take_result(struct file_call *call, const struct record_field *of)
{
	uint64_t piece = FILE_PIECES_MAX, bytes = 0, err = 0;
	struct record_reader r = record_inside(of);
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_RESULT_PIECE)
			n = record_get(&f, 0, FILE_PIECES_MAX - 1, &piece);
		else if (f.tag == TAG_RESULT_BYTES)
			n = record_get(&f, 0, PROTO_DATA_MAX, &bytes);
		else if (f.tag == TAG_RESULT_ERRNO)
			n = record_get(&f, 1, ERRNO_MAX, &err);
		if (n < 0)
			return n;
	}
	if (n < 0 || piece == FILE_PIECES_MAX || call->answered & 1u << piece)
		return -EBADMSG;
	call->answered |= 1u << piece;
	call->result[piece] = err ? -(int32_t)err : (int32_t)bytes;
	return 0;
}

static int take_call_field(struct file_call *call, const struct record_field *f)
{
	uint64_t type;
	int r;

	switch (f->tag) {
	case TAG_CALL_TYPE:
		r = record_get(f, 0, UINT16_MAX, &type);
		if (r == 0)
			call->op = file_wire_op(type);
		return r;
	case TAG_CALL_RESULT: return f->is_bytes ? take_result(call, f) : -EBADMSG;
	default: return record_take_member(f, call, members, ARRAY_SIZE(members));
	}
}

/* Is it one that there can be? */
static bool is_sound(const struct loader *l, const struct file_call *call)
{
	const size_t most = call->op == VM_READDIR ? PROTO_DATA_MAX : GUEST_FILE_REQUEST_MAX;

	if (call->op == VM_NFILEOPS || file_wire_answer(call->op) == FILE_ANSWER_NONE ||
	    (file_wire_answer(call->op) != FILE_ANSWER_OTHER && call->size > most) ||
	    (call->op != VM_WRITE && call->answered) || call->answered >> call->npieces)
		return false;
	for (unsigned i = 0; i < call->npieces; i++)
		if (call->result[i] > 0 && (size_t)call->result[i] > file_piece_size(call, i))
			return false;
	if (call->may_wait ? call->op != VM_LOCK || !call->token : call->waits)
		return false;
	return call->number && (!l->n || call->number > l->of[l->n - 1].call->number);
}

static int add_call(struct loader *l, const struct file_call *from)
{
	const size_t cap = l->n < l->cap ? l->cap : MAX(2 * l->cap, (size_t)64);
	struct loaded *more = reallocarray(l->of, cap, sizeof(*more));
	struct file_call *call;

	if (!more)
		return -ENOMEM;
	l->of = more;
	l->cap = cap;
	call = malloc(sizeof(*call));
	if (!call)
		return -ENOMEM;
	*call = *from;
	call->orphan = !is_dropped(call);
	file_call_add(l->calls, call);
	l->calls->last = call->number;
	l->of[l->n++] = (struct loaded){call, call->answered};
	return 0;
}

static int take_call(struct loader *l, const struct record_field *of)
{
	struct file_call call = {.op = VM_NFILEOPS};
	struct record_reader r = record_inside(of);
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		n = take_call_field(&call, &f);
		if (n < 0)
			return n;
	}
	if (n < 0 || call.op == VM_NFILEOPS)
		return -EBADMSG;
	/* With which flags a file is opened is not in the record. */
	call.changes = vm_file_changes(&(struct vm_file){.op = call.op, .flags = O_TRUNC});
	call.npieces =
		call.size > GUEST_FILE_REQUEST_MAX ? 1 : file_call_pieces(call.op, call.size);
	return is_sound(l, &call) ? add_call(l, &call) : -EBADMSG;
}

static int take_slot(struct loader *l, const struct record_field *of)
{
	uint64_t i = PROTO_FILES_INFLIGHT, number = 0, piece = 0, round = 0, ticket = 0;
	struct record_reader r = record_inside(of);
	struct loaded *one;
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		switch (f.tag) {
		case TAG_SLOT_NUMBER: n = record_get(&f, 0, PROTO_FILES_INFLIGHT - 1, &i); break;
		case TAG_SLOT_CALL: n = record_get(&f, 1, UINT64_MAX, &number); break;
		case TAG_SLOT_PIECE: n = record_get(&f, 0, FILE_PIECES_MAX - 1, &piece); break;
		case TAG_SLOT_ROUND: n = record_get(&f, 0, FILE_ROUND_MAX, &round); break;
		case TAG_SLOT_TICKET: n = record_get(&f, 0, UINT64_MAX, &ticket); break;
		default: break;
		}
		if (n < 0)
			return n;
	}
	if (n < 0 || i == PROTO_FILES_INFLIGHT || l->calls->slot[i].call ||
	    find_piece(l, number, piece, &one) < 0)
		return -EBADMSG;
	l->calls->slot[i].call = one->call;
	l->calls->slot[i].piece = (unsigned)piece;
	l->calls->slot[i].round = (uint32_t)round;
	l->calls->slot[i].ticket = ticket;
	one->call->in_flight++;
	return 0;
}

static int add_waiting(struct loader *l, const struct file_piece *from)
{
	struct file_piece *p = ++l->nwaiting > WAITING_MAX ? NULL : malloc(sizeof(*p));

	if (!p)
		return l->nwaiting > WAITING_MAX ? -EBADMSG : -ENOMEM;
	*p = *from;
	STAILQ_INSERT_TAIL(&l->calls->waiting, p, link);
	l->calls->held += p->frame ? channel_frame_size(p->frame) : 0;
	return 0;
}

static int take_piece(struct loader *l, const struct record_field *of)
{
	struct record_reader r = record_inside(of);
	uint64_t number = 0, piece = 0;
	struct loaded *one;
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_PIECE_CALL)
			n = record_get(&f, 1, UINT64_MAX, &number);
		else if (f.tag == TAG_PIECE_NUMBER)
			n = record_get(&f, 0, FILE_PIECES_MAX - 1, &piece);
		if (n < 0)
			return n;
	}
	/* One that nobody can claim would hold up all others. */
	if (n < 0 || find_piece(l, number, piece, &one) < 0 || !one->call->orphan)
		return -EBADMSG;
	return add_waiting(l, &(struct file_piece){.call = one->call, .number = (unsigned)piece});
}

static int take_message(struct loader *l, const struct record_field *of)
{
	struct record_reader r = record_inside(of);
	struct record_field f, payload = {0};
	struct file_piece p = {0};
	enum vm_file_op op;
	uint64_t type = 0;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_MESSAGE_TYPE)
			n = record_get(&f, 0, UINT16_MAX, &type);
		else if (f.tag == TAG_MESSAGE_PAYLOAD)
			payload = f;
		if (n < 0)
			return n;
	}
	op = file_wire_op(type);
	if (n < 0 || op == VM_NFILEOPS || file_wire_answer(op) != FILE_ANSWER_NONE ||
	    !payload.is_bytes || payload.len > FILE_MESSAGE_MAX)
		return -EBADMSG;
	p.frame = channel_frame_new((enum proto_type)type, 0, payload.len);
	if (!p.frame)
		return -ENOMEM;
	put_bytes(&p.frame->out, payload.data, payload.len);
	n = add_waiting(l, &p);
	if (n < 0)
		free(p.frame);
	return n;
}

static int take_field(struct loader *l, const struct record_field *f)
{
	if (f->tag <= TAG_MESSAGE && !f->is_bytes)
		return -EBADMSG;
	switch (f->tag) {
	case TAG_CALL: return take_call(l, f);
	case TAG_SLOT: return take_slot(l, f);
	case TAG_PIECE: return take_piece(l, f);
	case TAG_MESSAGE: return take_message(l, f);
	default: return 0;
	}
}

/* Is each of their pieces somewhere? Of those that nobody can claim, some. */
static int check(const struct loader *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct file_call *call = l->of[i].call;
		const bool all = l->of[i].pieces == (1u << call->npieces) - 1;

		if (call->waits ? l->of[i].pieces != 0
				: !call->unanswered || (!all && call->orphan))
			return -EBADMSG;
	}
	return 0;
}

/* The slots that are free, the first on top. */
static void find_free(struct file_calls *calls)
{
	calls->nfree = 0;
	for (unsigned i = PROTO_FILES_INFLIGHT; i-- > 0;)
		if (!calls->slot[i].call)
			calls->free[calls->nfree++] = (uint8_t)i;
}

int file_calls_take(struct file_calls *calls, struct record_reader r)
{
	struct loader l = {.calls = calls};
	struct record_field f;
	int n;

	if (!TAILQ_EMPTY(&calls->all) || !STAILQ_EMPTY(&calls->waiting))
		return -EBADMSG;
	while ((n = record_field(&r, &f)) > 0) {
		n = take_field(&l, &f);
		if (n < 0)
			break;
	}
	find_free(calls);
	if (n == 0)
		n = check(&l);
	free(l.of);
	return n;
}
