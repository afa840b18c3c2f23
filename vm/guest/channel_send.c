/* SPDX-License-Identifier: Apache-2.0 */
/* What a channel sends. */
#include "channel_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "vm/base/estate.h"
#include "vm/base/sheets.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A frame waits in the queue of its class until there is room for it in a record of the link. There
 * its bytes are copied to, and from then on this record is as it is: *fixed*. A socket takes a
 * record as a whole or not at all, and what it does not take waits, and goes out when it is
 * writable again. An error in writing is not reported where it happens, inside somebody's call: the
 * record stays, the loop sees the same error on its own, and reports it from there. What is pushed
 * while the channel is held waits in queues of its own, so that nothing else has to know.
 *
 * Without a turn, records are fixed one at a time, and sent at once.
 *
 * With one, they are fixed when a frame is pushed, as many as CHANNEL_FIXED_MAX, and sent when an
 * heir knows of them. If we die, it finds them in our record, has no way to know which of them we
 * have sent, and sends them all once more, under the same numbers, before anything else: the agent
 * drops what it has. So they must be the same bytes then, and that is why frames can't stay in
 * their queues, where one that comes later may overtake them. What was sent is freed at once, and
 * not written down: an heir that sends it again does no harm, however late.
 *
 * What is long is not copied where it is on a sheet that an heir has as well (vm/base/sheets.h):
 * frames, and then records, hold it there, and are written down as where it lies. Of a record that
 * was sent these bytes may be others, before that is written down: the agent drops it all the same.
 */

#define DRAINED_MIN (64u << 10) /* fewer bytes are nothing that anybody waits for */

struct channel_frame *channel_frame_new(enum proto_type type, uint32_t id, size_t payload_max)
{
	struct channel_frame *f = malloc(sizeof(*f) + PROTO_HEADER + payload_max);

	if (!f)
		return NULL;
	memset(f, 0, sizeof(*f));
	f->header.type = (uint16_t)type;
	f->header.id = id;
	f->out = (struct proto_out){f->wire + PROTO_HEADER, 0, payload_max, false};
	return f;
}

void channel_frame_free(struct channel_frame *f)
{
	if (f && f->ntail)
		sheets_let_go(f->sheets, f->tail);
	free(f);
}

size_t channel_frame_size(const struct channel_frame *f)
{
	return f->out.len + f->ntail;
}

void channel_frame_add(struct channel_frame *f, struct sheets *sheets, const void *bytes,
		       size_t len)
{
	assert(!f->ntail);
	if (!sheets || len < CHANNEL_LONG || !sheets_keep(sheets, bytes, len)) {
		put_bytes(&f->out, bytes, len);
		return;
	}
	sheets_hold(sheets, bytes);
	f->sheets = sheets;
	f->tail = bytes;
	f->ntail = len;
}

struct sheets *channel_sheets(const struct channel *ch)
{
	return channel_in_turns(ch) ? estate_sheets(ch->scratch->turn->estate) : NULL;
}

/* ---- records ---- */

/* The next frame, out of its queue; or NULL. */
static struct channel_frame *begin_frame(struct channel *ch)
{
	for (unsigned cl = 0; !ch->current && cl < CHANNEL_NCLASSES; cl++) {
		struct channel_frame *f = STAILQ_FIRST(&ch->queue[cl]);

		if (!f)
			continue;
		STAILQ_REMOVE_HEAD(&ch->queue[cl], link);
		ch->queued[cl] -= f->len;
		ch->current = f;
	}
	return ch->current;
}

static bool has_frames(const struct channel *ch)
{
	return ch->current || STAILQ_FIRST(&ch->queue[CHANNEL_CONTROL]) ||
	       STAILQ_FIRST(&ch->queue[CHANNEL_BULK]);
}

void channel_unwrite(struct channel *ch, const struct channel_written *w)
{
	if (w->key && channel_in_turns(ch))
		(void)estate_drop(ch->scratch->turn->estate, ESTATE_CHANNEL_BYTES, w->key, w->sub);
}

static struct channel_fixed *new_record(struct channel *ch)
{
	struct channel_fixed *x = malloc(sizeof(*x));

	if (!x)
		return NULL;
	memset(x, 0, offsetof(struct channel_fixed, data));
	STAILQ_INSERT_TAIL(&ch->fixed, x, link);
	ch->nfixed++;
	return x;
}

bool channel_fix_bytes(struct channel_fixed *x, struct sheets *sheets, const void *bytes,
		       size_t len)
{
	struct channel_part *last = x->nparts ? &x->part[x->nparts - 1] : NULL;
	const bool held = sheets && len >= CHANNEL_LONG;

	if (len > sizeof(x->data) - x->len)
		return false;
	if (held || !last || last->held) {
		if (x->nparts == CHANNEL_PARTS_MAX)
			return false;
		last = &x->part[x->nparts++];
		*last = (struct channel_part){held ? bytes : x->data + x->ndata, 0, held};
	}
	if (held) {
		sheets_hold(sheets, bytes);
		x->sheets = sheets;
		x->nheld++;
	} else {
		memcpy(x->data + x->ndata, bytes, len);
		x->ndata += len;
	}
	last->len += len;
	x->len += len;
	return true;
}

/* What is next of a frame: from `wire`, or from where its tail is. */
static const uint8_t *next_of(const struct channel_frame *f, size_t *ret_len)
{
	const size_t own = f->len - f->ntail;

	*ret_len = f->sent < own ? own - f->sent : f->len - f->sent;
	return f->sent < own ? f->wire + f->sent : f->tail + (f->sent - own);
}

/* As much as it takes. Return: is it full? */
static bool fill_part(struct channel *ch, struct channel_fixed *x, struct channel_frame *f)
{
	const bool tail = f->sent >= f->len - f->ntail;
	size_t len;
	const uint8_t *bytes = next_of(f, &len);

	len = MIN(len, ch->fixed_max - x->len);
	if (len == 0 || !channel_fix_bytes(x, tail ? f->sheets : NULL, bytes, len))
		return true;
	f->sent += len;
	return false;
}

static void fill(struct channel *ch, struct channel_fixed *x)
{
	struct channel_frame *f;

	while ((f = begin_frame(ch))) {
		x->full = fill_part(ch, x, f);
		if (x->full)
			break;
		if (f->sent < f->len)
			continue;
		x->done[f->ticket % CHANNEL_NCLASSES]++; /* each class keeps its order */
		ch->current = NULL;
		if (f->written.key)
			channel_touch(ch);
		channel_unwrite(ch, &f->written);
		channel_frame_free(f);
	}
}

/* Fixes what is queued, as far as there is room for @max records. Return: 0 or -ENOMEM. */
static int fix(struct channel *ch, unsigned max)
{
	while (has_frames(ch)) {
		struct channel_fixed *x = ch->adding;

		if (!x || x->full) {
			if (ch->nfixed >= max)
				break;
			x = new_record(ch);
			if (!x)
				return -ENOMEM;
		}
		fill(ch, x);
		ch->adding = x;
	}
	return 0;
}

struct channel_fixed *channel_add_fixed(struct channel *ch)
{
	struct channel_fixed *x = new_record(ch);

	if (x)
		ch->nwritten++;
	return x;
}

static void free_record(struct channel_fixed *x)
{
	for (unsigned i = 0; i < x->nparts; i++)
		if (x->part[i].held)
			sheets_let_go(x->sheets, x->part[i].bytes);
	free(x);
}

static void drop_first(struct channel *ch)
{
	struct channel_fixed *x = STAILQ_FIRST(&ch->fixed);

	STAILQ_REMOVE_HEAD(&ch->fixed, link);
	ch->nfixed--;
	ch->nwritten -= ch->nwritten > 0;
	if (x == ch->adding)
		ch->adding = NULL;
	channel_unwrite(ch, &x->written);
	free_record(x);
}

/* Sends the first record. Return: 0 or -errno; nothing was sent then. */
static int send_first(struct channel *ch)
{
	struct channel_fixed *x = STAILQ_FIRST(&ch->fixed);
	struct link_out to = ch->to;
	uint8_t head[LINK_HEADER];
	struct iovec iov[1 + CHANNEL_PARTS_MAX] = {{head, sizeof(head)}};
	const struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 1 + x->nparts};
	ssize_t n;

	for (unsigned i = 0; i < x->nparts; i++)
		iov[1 + i] = (struct iovec){(void *)x->part[i].bytes, x->part[i].len};

	link_head(&to, x->len, head);
	n = sendmsg(ch->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	ch->to = to;
	/* A socket that takes a part of what is so short is not of this kernel, and can't be used
	 * for anything any more. */
	if ((size_t)n != sizeof(head) + x->len)
		shutdown(ch->fd, SHUT_RDWR);
	for (unsigned cl = 0; cl < CHANNEL_NCLASSES; cl++)
		ch->sent[cl] += x->done[cl];
	/* Its name, or its place, is in the channel's record, which must not outlive it. */
	if (x->written.key || x->nheld)
		channel_touch(ch);
	drop_first(ch);
	return 0;
}

int channel_flush(struct channel *ch)
{
	int r = 0;

	if (channel_in_turns(ch)) {
		while (r == 0 && ch->nwritten)
			r = send_first(ch);
		return r;
	}
	while (r == 0 && (ch->nfixed || has_frames(ch))) {
		ch->adding = NULL;
		r = ch->nfixed ? 0 : fix(ch, 1);
		if (r == 0)
			r = send_first(ch);
	}
	return r;
}

/* ---- turns ---- */

/* Somebody may wait for `drained`. Without a turn, the socket was full before that. */
static bool owes_drained(const struct channel *ch)
{
	return ch->high >= DRAINED_MIN && ch->queued[CHANNEL_BULK] <= ch->high / 2;
}

/* Is there something to be done when the socket is writable? */
static bool has_to_write(const struct channel *ch)
{
	if (channel_in_turns(ch))
		return ch->nwritten || owes_drained(ch) || (has_frames(ch) && !ch->nfixed);
	return ch->nfixed || has_frames(ch);
}

void channel_poll_again(struct channel *ch)
{
	const int wanted =
		(ch->half.watched ? 0 : UV_READABLE) | (has_to_write(ch) ? UV_WRITABLE : 0);

	if (ch->waits || wanted == ch->polled)
		return;
	ch->polled = wanted;
	if (wanted)
		uv_poll_start(&ch->poll, wanted, ch->ready);
	else
		uv_poll_stop(&ch->poll);
}

static void speak_later(struct channel *ch)
{
	turn_speak(ch->scratch->turn, TURN_FRAMES, &ch->speaks);
}

/* Fixes more, which is sent when that is written down. Without memory, it is tried again. */
static void fix_more(struct channel *ch)
{
	const bool more = has_frames(ch) && ch->nfixed < CHANNEL_FIXED_MAX;

	if (more) {
		channel_touch(ch);
		(void)fix(ch, CHANNEL_FIXED_MAX);
	}
	if (ch->nfixed > ch->nwritten)
		speak_later(ch);
}

static void on_speak(struct turn_speaker *sp)
{
	struct channel *ch = container_of(sp, struct channel, speaks);

	ch->nwritten = ch->nfixed;
	ch->adding = NULL;
	if (!ch->open || ch->lost || ch->waits)
		return;
	if (channel_flush(ch) == 0 && channel_in_turns(ch))
		fix_more(ch);
	if (!ch->queued[CHANNEL_BULK] && ch->high < DRAINED_MIN)
		ch->high = 0;
	channel_poll_again(ch);
}

int channel_on_writable(struct channel *ch)
{
	int r = channel_flush(ch);

	if (channel_in_turns(ch) && (r == 0 || r == -EAGAIN))
		fix_more(ch);
	return r;
}

void channel_send_init(struct channel *ch)
{
	for (unsigned cl = 0; cl < CHANNEL_NCLASSES; cl++) {
		STAILQ_INIT(&ch->queue[cl]);
		STAILQ_INIT(&ch->later[cl]);
	}
	STAILQ_INIT(&ch->fixed);
	ch->speaks.speak = on_speak;
	ch->fixed_max = LINK_DATA_MAX;
}

/* ---- frames ---- */

static void seal_frame(struct channel *ch, struct channel_frame *f)
{
	assert(!f->out.bad);
	f->header.generation = ch->generation;
	f->header.length = (uint32_t)channel_frame_size(f);
	proto_header_pack(&f->header, f->wire);
	f->len = PROTO_HEADER + channel_frame_size(f);
}

static void queue_later(struct channel *ch)
{
	for (unsigned cl = 0; cl < CHANNEL_NCLASSES; cl++)
		STAILQ_CONCAT(&ch->queue[cl], &ch->later[cl]);
}

static bool is_idle(const struct channel *ch)
{
	return !ch->nfixed && !has_frames(ch);
}

/* Sends what is queued, unless something was on its way already, which then takes it along. */
static void begin_flush(struct channel *ch, bool idle)
{
	if (ch->waits)
		return;
	if (!channel_in_turns(ch)) {
		if (idle && channel_flush(ch) < 0)
			channel_poll_again(ch);
		return;
	}
	/* What others say is not written down yet, and what is fixed now would pass for it. */
	if (!ch->scratch->turn->busy)
		(void)fix(ch, CHANNEL_FIXED_MAX);
	speak_later(ch);
}

uint64_t channel_push(struct channel *ch, struct channel_frame *f, enum channel_class cl)
{
	uint64_t ticket;
	bool idle;

	if (!ch->open || ch->lost) {
		channel_frame_free(f);
		return 0;
	}
	channel_touch(ch);
	if (ch->events->pushes)
		ch->events->pushes(ch->data, f->header.type);
	if (!proto_keeps_lease(f->header.type)) {
		if (ch->events->stirs)
			ch->events->stirs(ch->data);
		ch->commands++;
	}
	idle = is_idle(ch);
	seal_frame(ch, f);
	ticket = ++ch->tickets[cl] * CHANNEL_NCLASSES + cl;
	f->ticket = ticket;
	if (ch->held)
		STAILQ_INSERT_TAIL(&ch->later[cl], f, link);
	else
		STAILQ_INSERT_TAIL(&ch->queue[cl], f, link);
	ch->queued[cl] += f->len;
	if (cl == CHANNEL_BULK)
		ch->high = MAX(ch->high, ch->queued[cl]);
	if (!ch->held)
		begin_flush(ch, idle);
	return ticket;
}

void channel_hold(struct channel *ch, bool hold)
{
	const bool idle = is_idle(ch);

	ch->held = hold;
	if (hold)
		return;
	queue_later(ch);
	if (ch->open && !ch->lost)
		begin_flush(ch, idle);
}

bool channel_has_sent(const struct channel *ch, uint64_t ticket)
{
	return ticket && ticket / CHANNEL_NCLASSES <= ch->sent[ticket % CHANNEL_NCLASSES];
}

int channel_send(struct channel *ch, enum proto_type type, uint32_t id, const void *payload,
		 size_t len)
{
	struct channel_frame *f = channel_frame_new(type, id, len);

	if (!f)
		return -ENOMEM;
	put_bytes(&f->out, payload, len);
	channel_push(ch, f, CHANNEL_CONTROL);
	return 0;
}

int channel_send_u32(struct channel *ch, enum proto_type type, uint32_t id, uint32_t n)
{
	uint8_t wire[4];
	struct proto_out o = {wire, 0, sizeof(wire), false};

	put_u32(&o, n);
	return channel_send(ch, type, id, wire, o.len);
}

void channel_drop(struct channel *ch)
{
	struct channel_frame *f;

	queue_later(ch);
	while ((f = begin_frame(ch))) {
		ch->current = NULL;
		channel_unwrite(ch, &f->written);
		channel_frame_free(f);
	}
	while (ch->nfixed)
		drop_first(ch);
	free(ch->partial);
	ch->partial = NULL;
	ch->partial_len = ch->partial_cap = 0;
}
