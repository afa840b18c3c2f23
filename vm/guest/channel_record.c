/* SPDX-License-Identifier: Apache-2.0 */
/* A channel in a record. See channel_record.h. */
#include "channel_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "channel_internal.h"
#include "vm/base/estate.h"
#include "vm/base/record_table.h"
#include "vm/base/sheets.h"
#include "vm/base/util.h"

#define QUEUED_MAX (128u << 20) /* bytes of frames that are believed */

/* Never reuse one. */
enum {
	TAG_FD = 1,
	TAG_GENERATION,
	TAG_FROM_NUMBER,
	TAG_FROM_BEGUN,
	TAG_FROM_TWICE,
	TAG_FROM_LEFT,
	TAG_FROM_HEAD, /* bytes */
	TAG_TO_NEXT,
	TAG_TO_HEAD, /* not used any more: of a record that was sent in part, */
	TAG_TO_LEFT, /* which there is none of */
	TAG_PARTIAL, /* bytes */
	TAG_SENT,    /* of each class, in their order; what is in records counts */
	TAG_FRAME,   /* fields: TAG_FRAME_*; in the order of their class */
	TAG_COMMANDS,
	TAG_RECORD, /* bytes of a record that is to be sent, or was sent, from that of TAG_TO_NEXT on; before the frames */
	TAG_RECORD_WRITTEN, /* the same: fields TAG_WRITTEN_* */
	TAG_RECORD_PARTS,   /* the same: fields TAG_PART_*, in their order */
};

enum { TAG_FRAME_CLASS = 1, TAG_FRAME_SENT, TAG_FRAME_WIRE, TAG_FRAME_WRITTEN, TAG_FRAME_TAIL };

/* Some bytes, themselves or where they are on the sheets: fields TAG_HELD_*. */
enum { TAG_PART_BYTES = 1, TAG_PART_HELD };
enum { TAG_HELD_PLACE = 1, TAG_HELD_LEN };

/* Bytes that are a record of their own in the estate. */
enum { TAG_WRITTEN_KEY = 1, TAG_WRITTEN_SUB };

/*
 * While much is queued, the channel changes with each piece that is sent, and is written down at
 * each commit. So long bytes, which don't change any more, are records of their own, written once:
 * by the number of the channel's descriptor, which is nobody else's as long as it is held, and that
 * of the frame, or of the record of the link. Not where there are no turns, and all is written
 * once.
 */
#define LONG			 CHANNEL_LONG
#define SUB_OF_LINK		 (1ull << 63)

#define MEMBER(member, tag, max) RECORD_MEMBER(struct channel, member, tag, max)

static const struct record_member members[] = {
	MEMBER(from.number, TAG_FROM_NUMBER, UINT32_MAX),
	MEMBER(from.begun, TAG_FROM_BEGUN, 1),
	MEMBER(from.twice, TAG_FROM_TWICE, 1),
	MEMBER(from.left, TAG_FROM_LEFT, LINK_DATA_MAX),
	MEMBER(to.next, TAG_TO_NEXT, UINT32_MAX),
	MEMBER(commands, TAG_COMMANDS, UINT32_MAX),
};

/* ---- writing ---- */

struct writer {
	struct buf *out;
	struct estate *estate; /* or NULL: everything is in `out` */
	uint64_t key;
};

/* Bytes, or the name of their record, into which they are put if they are `fresh`. */
static void put_bytes_of(const struct writer *to, unsigned tag, unsigned tag_written,
			 struct channel_written *w, uint64_t sub, bool fresh, const void *data,
			 size_t len)
{
	size_t at;

	if (!to->estate || (len < LONG && !w->key)) {
		record_bytes(to->out, tag, data, len);
		return;
	}
	if (!w->key)
		*w = (struct channel_written){to->key, sub};
	if (!fresh)
		estate_keeps(to->estate, ESTATE_CHANNEL_BYTES, w->key, w->sub);
	else if (estate_put(to->estate, ESTATE_CHANNEL_BYTES, w->key, w->sub, data, len) < 0)
		to->out->failed = -ENOMEM;
	at = record_open(to->out, tag_written);
	record_u64(to->out, TAG_WRITTEN_KEY, w->key);
	record_u64(to->out, TAG_WRITTEN_SUB, w->sub);
	record_close(to->out, at);
}

static void put_held(struct buf *out, unsigned tag, const struct sheets *sheets, const void *bytes,
		     size_t len)
{
	const size_t at = record_open(out, tag);

	record_u64(out, TAG_HELD_PLACE, sheets_place(sheets, bytes));
	record_u64(out, TAG_HELD_LEN, len);
	record_close(out, at);
}

/* With a tail there is little else. Without turns nothing is named. */
static void put_wire(const struct writer *to, struct channel_frame *f)
{
	size_t at;

	if (!f->ntail) {
		put_bytes_of(to, TAG_FRAME_WIRE, TAG_FRAME_WRITTEN, &f->written, f->ticket,
			     !f->written.key, f->wire, f->len);
	} else if (to->estate) {
		record_bytes(to->out, TAG_FRAME_WIRE, f->wire, f->len - f->ntail);
		put_held(to->out, TAG_FRAME_TAIL, f->sheets, f->tail, f->ntail);
	} else {
		at = record_open(to->out, TAG_FRAME_WIRE);
		(void)buf_append(to->out, f->wire, f->len - f->ntail);
		(void)buf_append(to->out, f->tail, f->ntail);
		record_close(to->out, at);
	}
}

static void put_frame(const struct writer *to, struct channel_frame *f)
{
	const size_t at = record_open(to->out, TAG_FRAME);

	record_u64(to->out, TAG_FRAME_CLASS, f->ticket % CHANNEL_NCLASSES);
	record_u64(to->out, TAG_FRAME_SENT, f->sent);
	put_wire(to, f);
	record_close(to->out, at);
}

static void put_frames(const struct writer *to, const struct channel_queue *q)
{
	struct channel_frame *f;

	STAILQ_FOREACH(f, q, link)
	put_frame(to, f);
}

static void put_parts(const struct writer *to, const struct channel_fixed *x)
{
	const size_t at = record_open(to->out, to->estate ? TAG_RECORD_PARTS : TAG_RECORD);

	for (unsigned i = 0; i < x->nparts; i++) {
		const struct channel_part *p = &x->part[i];

		if (!to->estate)
			(void)buf_append(to->out, p->bytes, p->len);
		else if (p->held)
			put_held(to->out, TAG_PART_HELD, x->sheets, p->bytes, p->len);
		else
			record_bytes(to->out, TAG_PART_BYTES, p->bytes, p->len);
	}
	record_close(to->out, at);
}

static void put_fixed(const struct writer *to, const struct channel *ch, struct channel_fixed *x,
		      uint32_t number)
{
	if (x->nheld) {
		put_parts(to, x);
		return;
	}
	/* The last one may have become longer. */
	put_bytes_of(to, TAG_RECORD, TAG_RECORD_WRITTEN, &x->written, SUB_OF_LINK | number,
		     !x->written.key || x == ch->adding, x->data, x->len);
}

struct estate *channel_estate(const struct channel *ch, struct fdbag *fds, uint64_t *ret_key)
{
	if (!channel_in_turns(ch) || !fds->number)
		return NULL;
	*ret_key = fdbag_put(fds, ch->fd);
	return *ret_key ? ch->scratch->turn->estate : NULL;
}

void channel_put(const struct channel *ch, struct buf *out, struct fdbag *fds)
{
	struct writer to = {.out = out, .key = fdbag_put(fds, ch->fd)};
	uint64_t sent[CHANNEL_NCLASSES];
	uint32_t number = ch->to.next;
	struct channel_fixed *x;

	to.estate = channel_estate(ch, fds, &to.key);
	record_u64(out, TAG_FD, to.key);
	record_u64(out, TAG_GENERATION, ch->generation);
	record_put_members(out, ch, members, ARRAY_SIZE(members));
	record_bytes(out, TAG_FROM_HEAD, ch->from.head, ch->from.nhead);
	record_bytes(out, TAG_PARTIAL, ch->partial, ch->partial_len);
	memcpy(sent, ch->sent, sizeof(sent));
	STAILQ_FOREACH(x, &ch->fixed, link)
	{
		put_fixed(&to, ch, x, number++);
		for (unsigned cl = 0; cl < CHANNEL_NCLASSES; cl++)
			sent[cl] += x->done[cl];
	}
	for (unsigned cl = 0; cl < CHANNEL_NCLASSES; cl++)
		record_u64(out, TAG_SENT, sent[cl]);
	if (ch->current)
		put_frame(&to, ch->current);
	for (unsigned cl = 0; cl < CHANNEL_NCLASSES; cl++) {
		put_frames(&to, &ch->queue[cl]);
		/* Whoever takes it over holds nothing back. */
		put_frames(&to, &ch->later[cl]);
	}
}

bool channel_field_is_late(unsigned tag)
{
	return tag == TAG_TO_NEXT || tag == TAG_RECORD || tag == TAG_RECORD_WRITTEN ||
	       tag == TAG_RECORD_PARTS;
}

/* ---- reading ---- */

struct loader {
	struct channel *ch;
	int fd;
	unsigned nclasses; /* of which it is known what was sent */
	size_t bytes;
};

static int take_bytes(const struct record_field *f, uint8_t *dest, size_t size)
{
	if (!f->is_bytes || f->len > size)
		return -EBADMSG;
	if (f->len)
		memcpy(dest, f->data, f->len);
	return 0;
}

/* The beginning of a frame, which channel.c checks as it does what it has read. */
static int take_partial(struct loader *l, const struct record_field *f)
{
	if (!f->is_bytes || l->ch->partial || f->len > PROTO_HEADER + CHANNEL_PAYLOAD_MAX)
		return -EBADMSG;
	return f->len ? channel_feed(l->ch, f->data, f->len) : 0;
}

/* Bytes that were written as a record of their own: as if they were the field. */
static int take_written(struct loader *l, const struct record_field *of, struct record_field *ret_f,
			struct channel_written *ret_w)
{
	const struct estate *left = l->ch->scratch->left;
	struct record_reader r = record_inside(of);
	struct record_field f;
	int n;

	if (!of->is_bytes || !left)
		return -EBADMSG;
	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_WRITTEN_KEY)
			n = record_get(&f, 1, UINT64_MAX, &ret_w->key);
		else if (f.tag == TAG_WRITTEN_SUB)
			n = record_get(&f, 0, UINT64_MAX, &ret_w->sub);
		if (n < 0)
			return n;
	}
	*ret_f = (struct record_field){.is_bytes = true};
	return n == 0 && estate_get(left, ESTATE_CHANNEL_BYTES, ret_w->key, ret_w->sub,
				    &ret_f->data, &ret_f->len)
		       ? 0
		       : -EBADMSG;
}

/* Bytes that are on a sheet: as if they were the field. */
static int take_held(const struct loader *l, const struct record_field *of,
		     struct record_field *ret_f)
{
	struct sheets *sheets = l->ch->scratch->left ? estate_sheets(l->ch->scratch->left) : NULL;
	struct record_reader r = record_inside(of);
	struct record_field f;
	uint64_t place = 0, len = 0;
	int n;

	if (!of->is_bytes || !sheets)
		return -EBADMSG;
	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_HELD_PLACE)
			n = record_get(&f, 0, INT64_MAX, &place);
		else if (f.tag == TAG_HELD_LEN)
			n = record_get(&f, CHANNEL_LONG, PROTO_PAYLOAD_MAX, &len);
		if (n < 0)
			return n;
	}
	*ret_f = (struct record_field){
		.is_bytes = true, .data = sheets_find(sheets, place, len), .len = len};
	return n == 0 && len && ret_f->data ? 0 : -EBADMSG;
}

static int take_parts(struct loader *l, struct channel_fixed *x, const struct record_field *of)
{
	struct record_reader r = record_inside(of);
	struct record_field f, bytes;
	bool held;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		held = f.tag == TAG_PART_HELD;
		bytes = f;
		if (held)
			n = take_held(l, &f, &bytes);
		else if (f.tag != TAG_PART_BYTES)
			continue;
		if (n < 0)
			return n;
		if (!bytes.is_bytes || !bytes.len ||
		    !channel_fix_bytes(x, held ? estate_sheets(l->ch->scratch->left) : NULL,
				       bytes.data, bytes.len))
			return -EBADMSG;
	}
	return n < 0 || !x->len ? -EBADMSG : 0;
}

static int take_fixed(struct loader *l, const struct record_field *of)
{
	struct channel_written written = {0};
	struct record_field f = *of;
	struct channel *ch = l->ch;
	struct channel_fixed *x;
	int r = of->tag == TAG_RECORD_WRITTEN ? take_written(l, of, &f, &written) : 0;

	if (r < 0 || !f.is_bytes || ch->current || ch->queued[0] || ch->queued[1] ||
	    ch->nfixed == CHANNEL_FIXED_MAX)
		return -EBADMSG;
	x = channel_add_fixed(ch);
	if (!x)
		return -ENOMEM;
	x->written = written;
	if (of->tag == TAG_RECORD_PARTS)
		return take_parts(l, x, of);
	return f.len && channel_fix_bytes(x, NULL, f.data, f.len) ? 0 : -EBADMSG;
}

static int add_frame(struct loader *l, uint64_t class, uint64_t sent, const struct record_field *w,
		     const struct record_field *tail, const struct channel_written *written)
{
	const size_t len = w->len + tail->len;
	struct channel *ch = l->ch;
	struct channel_frame *f;
	struct proto_header h;

	if (w->len < PROTO_HEADER || proto_header_unpack(w->data, &h) < 0 ||
	    h.length != len - PROTO_HEADER || sent >= len || l->nclasses < CHANNEL_NCLASSES ||
	    (sent && (ch->current || ch->queued[0] || ch->queued[1])))
		return -EBADMSG;
	l->bytes += len;
	if (l->bytes > QUEUED_MAX)
		return -EBADMSG;
	f = channel_frame_new((enum proto_type)h.type, h.id, w->len - PROTO_HEADER);
	if (!f)
		return -ENOMEM;
	memcpy(f->wire, w->data, w->len);
	f->header = h;
	f->out.len = w->len - PROTO_HEADER;
	if (tail->len) {
		f->sheets = estate_sheets(ch->scratch->left);
		f->tail = tail->data;
		f->ntail = tail->len;
		sheets_hold(f->sheets, f->tail);
	}
	f->len = len;
	f->sent = sent;
	f->written = *written;
	f->ticket = ++ch->tickets[class] * CHANNEL_NCLASSES + class;
	if (sent) {
		ch->current = f;
		return 0;
	}
	STAILQ_INSERT_TAIL(&ch->queue[class], f, link);
	ch->queued[class] += f->len;
	return 0;
}

static int take_frame(struct loader *l, const struct record_field *of)
{
	struct record_reader r = record_inside(of);
	struct channel_written written = {0};
	struct record_field f, wire = {0}, tail = {0};
	uint64_t class = 0, sent = 0;
	int n;

	if (!of->is_bytes)
		return -EBADMSG;
	while ((n = record_field(&r, &f)) > 0) {
		if (f.tag == TAG_FRAME_CLASS)
			n = record_get(&f, 0, CHANNEL_NCLASSES - 1, &class);
		else if (f.tag == TAG_FRAME_SENT)
			n = record_get(&f, 0, PROTO_HEADER + PROTO_PAYLOAD_MAX, &sent);
		else if (f.tag == TAG_FRAME_WIRE)
			wire = f;
		else if (f.tag == TAG_FRAME_WRITTEN)
			n = take_written(l, &f, &wire, &written);
		else if (f.tag == TAG_FRAME_TAIL)
			n = take_held(l, &f, &tail);
		if (n < 0)
			return n;
	}
	return n < 0 ? n : add_frame(l, class, sent, &wire, &tail, &written);
}

static int take_field(struct loader *l, const struct record_field *f)
{
	struct channel *ch = l->ch;
	uint64_t v;
	int r;

	switch (f->tag) {
	case TAG_FD:
		if (f->is_bytes || l->fd >= 0)
			return -EBADMSG;
		l->fd = (int)f->u64; /* its number, for now */
		return f->u64 <= FDBAG_MAX ? 0 : -EBADMSG;
	case TAG_GENERATION:
		r = record_get(f, 1, UINT8_MAX, &v);
		ch->generation = r == 0 ? (uint8_t)v : 0;
		return r;
	case TAG_FROM_HEAD:
		ch->from.nhead = (uint32_t)f->len;
		return take_bytes(f, ch->from.head, LINK_HEADER - 1);
	case TAG_TO_HEAD:
	case TAG_TO_LEFT: return f->len || f->u64 ? -EBADMSG : 0;
	case TAG_RECORD:
	case TAG_RECORD_PARTS:
	case TAG_RECORD_WRITTEN: return take_fixed(l, f);
	case TAG_PARTIAL: return take_partial(l, f);
	case TAG_SENT:
		if (l->nclasses == CHANNEL_NCLASSES)
			return -EBADMSG;
		r = record_get(f, 0, UINT64_MAX / CHANNEL_NCLASSES / 2, &v);
		ch->sent[l->nclasses] = ch->tickets[l->nclasses] = r == 0 ? v : 0;
		l->nclasses++;
		return r;
	case TAG_FRAME: return take_frame(l, f);
	default: return record_take_member(f, ch, members, ARRAY_SIZE(members));
	}
}

/* A record that has begun has no header any more. */
static int check(const struct loader *l)
{
	const struct channel *ch = l->ch;

	if (!ch->generation || l->fd <= 0 || l->nclasses < CHANNEL_NCLASSES ||
	    (ch->from.left && ch->from.nhead))
		return -EBADMSG;
	return 0;
}

/* Nothing in the bytes of a record is a frame to be handled now. */
static int refuse_frame(void *data, const struct proto_header *h, struct proto_in *in)
{
	(void)data;
	(void)h;
	(void)in;
	return -EBADMSG;
}

static const struct channel_events refuses = {.frame = refuse_frame};

int channel_take(struct channel *ch, struct record_reader r, struct fdbag *fds, uv_loop_t *loop,
		 struct channel_scratch *scratch, const struct channel_events *events, void *data)
{
	struct loader l = {.ch = ch, .fd = -1};
	struct record_field f;
	int n;

	channel_init(ch, scratch, &refuses, NULL);
	while ((n = record_field(&r, &f)) > 0) {
		n = take_field(&l, &f);
		if (n < 0)
			break;
	}
	n = n < 0 ? n : check(&l);
	l.fd = n == 0 ? fdbag_take(fds, (unsigned)l.fd) : -1;
	if (n == 0 && l.fd < 0)
		n = -EBADMSG;
	ch->events = events;
	ch->data = data;
	ch->waits = true;
	if (n == 0)
		n = channel_start(ch, loop, l.fd);
	if (n < 0)
		channel_drop(ch);
	return n == -EPROTO ? -EBADMSG : n;
}
