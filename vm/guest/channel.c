/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the connection to an agent. */
#include "channel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "vm/base/lent.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Reading. All channels read into one scratch buffer, where records (the agent's link.h) are put together, and frames are
 * handed on from there. Only the frame that the buffer's end cuts off is kept, in `partial`, which grows to
 * the size of that frame; its rest is put behind it from what is read next. So an idle sandbox costs no buffer.
 *
 * Writing. A frame is written at once if the socket takes it; what it does not take waits, in one
 * queue per class, and goes out by gathering writes, a record each, when the socket is writable again. An error in
 * writing is not reported where it happens, inside somebody's call: the frame stays, the loop sees
 * the same error on its own, and reports it from there. What is pushed while the channel is held waits in queues of its
 * own, so that nothing else has to know.
 *
 * Nothing here is bounded by trust: a length over CHANNEL_PAYLOAD_MAX ends the connection before
 * anything is allocated, and one channel gets READ_ROUNDS reads per turn of the loop, or READ_MS where what was read
 * takes long, as a great many small frames do.
 */

#define READ_ROUNDS 4
#define READ_MS	    5
#define WRITE_IOV   32

static void poll_again(struct channel *ch);

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

static struct channel_frame *next_frame(struct channel *ch)
{
	struct channel_frame *f = ch->current;

	for (unsigned cl = 0; !f && cl < CHANNEL_NCLASSES; cl++)
		f = STAILQ_FIRST(&ch->queue[cl]);
	return f;
}

/* Takes the next frame out of its queue, to be the current one. */
static void begin_frame(struct channel *ch)
{
	for (unsigned cl = 0; !ch->current && cl < CHANNEL_NCLASSES; cl++) {
		struct channel_frame *f = STAILQ_FIRST(&ch->queue[cl]);

		if (!f)
			continue;
		STAILQ_REMOVE_HEAD(&ch->queue[cl], link);
		ch->queued[cl] -= f->len;
		ch->current = f;
	}
}

/* Accounts for @n bytes that were written. */
static void frames_sent(struct channel *ch, size_t n)
{
	while (n) {
		struct channel_frame *f;
		size_t part;

		begin_frame(ch);
		f = ch->current;
		assert(f);
		part = MIN(n, f->len - f->sent);
		f->sent += part;
		n -= part;
		if (f->sent == f->len) {
			ch->current = NULL;
			ch->sent[f->ticket % CHANNEL_NCLASSES]++; /* each class keeps its order */
			free(f);
		}
	}
}

/* Adds up to @max bytes of @f. Return: how many. */
static size_t add_part(struct iovec *v, struct channel_frame *f, size_t max)
{
	*v = (struct iovec){f->wire + f->sent, MIN(f->len - f->sent, max)};
	return v->iov_len;
}

/* Collects up to @max bytes to be written next, in the order in which frames_sent() accounts for them. Return: how many. */
static size_t gather(struct channel *ch, struct iovec iov[WRITE_IOV], size_t max, size_t *ret_n)
{
	size_t bytes = 0;

	*ret_n = 0;
	if (ch->current)
		bytes = add_part(&iov[(*ret_n)++], ch->current, max);
	for (unsigned cl = 0; cl < CHANNEL_NCLASSES; cl++) {
		struct channel_frame *f;

		STAILQ_FOREACH(f, &ch->queue[cl], link)
		{
			if (*ret_n == WRITE_IOV || bytes == max)
				return bytes;
			bytes += add_part(&iov[(*ret_n)++], f, max - bytes);
		}
	}
	return bytes;
}

/* Accounts for @n bytes of the record that is being sent. */
static void record_sent(struct channel *ch, size_t n)
{
	const size_t head = MIN(n, ch->head_left);

	ch->head_left -= head;
	ch->record_left -= n - head;
	frames_sent(ch, n - head);
}

/* Sends one record, or the rest of one: a socket that takes a part of what is so short is not of this kernel.
 * Return: 0 or -errno; nothing was sent then. */
static int send_record(struct channel *ch)
{
	const bool fresh = !ch->head_left && !ch->record_left;
	struct link_out to = ch->to;
	struct iovec iov[1 + WRITE_IOV];
	struct msghdr msg = {.msg_iov = iov};
	size_t bytes, niov;
	ssize_t n;

	bytes = gather(ch, iov + 1, fresh ? LINK_DATA_MAX : ch->record_left, &niov);
	if (fresh)
		link_head(&to, bytes, ch->head);
	iov[0].iov_len = fresh ? LINK_HEADER : ch->head_left;
	iov[0].iov_base = ch->head + LINK_HEADER - iov[0].iov_len;
	msg.msg_iovlen = niov + 1;
	n = sendmsg(ch->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (fresh) {
		ch->to = to;
		ch->head_left = LINK_HEADER;
		ch->record_left = bytes;
	}
	record_sent(ch, (size_t)n);
	return 0;
}

/* Writes what the socket takes. Return: 0, -EAGAIN if that was not all, or -errno. */
static int flush(struct channel *ch)
{
	int r = 0;

	while (r == 0 && next_frame(ch))
		r = send_record(ch);
	return r;
}

static void seal_frame(struct channel *ch, struct channel_frame *f)
{
	assert(!f->out.bad);
	f->header.generation = ch->generation;
	f->header.length = (uint32_t)f->out.len;
	proto_header_pack(&f->header, f->wire);
	f->len = PROTO_HEADER + f->out.len;
}

static void queue_later(struct channel *ch)
{
	for (unsigned cl = 0; cl < CHANNEL_NCLASSES; cl++)
		STAILQ_CONCAT(&ch->queue[cl], &ch->later[cl]);
}

/* Sends what is queued, unless something was on its way already, which then takes it along. */
static void begin_flush(struct channel *ch, bool idle)
{
	if (idle && !ch->waits && flush(ch) < 0)
		poll_again(ch);
}

uint64_t channel_push(struct channel *ch, struct channel_frame *f, enum channel_class cl)
{
	uint64_t ticket;
	bool idle;

	if (!ch->open || ch->lost) {
		free(f);
		return 0;
	}
	if (ch->events->pushes)
		ch->events->pushes(ch->data, f->header.type);
	if (!proto_keeps_lease(f->header.type)) {
		if (ch->events->stirs)
			ch->events->stirs(ch->data);
		ch->commands++;
	}
	idle = !next_frame(ch);
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
	const bool idle = !next_frame(ch);

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

/* ---- reading ---- */

static void on_lost(struct channel *ch, int err)
{
	ch->lost = true;
	uv_poll_stop(&ch->poll);
	if (err != -ECANCELED)
		ch->events->lost(ch->data, err == -EPIPE || err == -ECONNRESET ? 0 : err);
}

/* How long the frame that begins at @bytes is, as far as @len bytes tell: its header, or all of it.
 * Return: 0 or -EPROTO. */
static int frame_size(const uint8_t *bytes, size_t len, size_t *ret_size)
{
	struct proto_header h;

	if (len < PROTO_HEADER) {
		*ret_size = PROTO_HEADER;
		return 0;
	}
	if (proto_header_unpack(bytes, &h) < 0 || h.length > CHANNEL_PAYLOAD_MAX)
		return -EPROTO;
	*ret_size = PROTO_HEADER + h.length;
	return 0;
}

/* Hands on one whole frame. */
static int dispatch(struct channel *ch, const uint8_t *bytes, size_t size)
{
	struct proto_in in = {bytes + PROTO_HEADER, bytes + size, false};
	struct proto_header h;

	proto_header_unpack(bytes, &h);
	/* The agent's log belongs to no generation: lines from before HELLO are wanted too. */
	if (h.generation != ch->generation && h.type != PROTO_LOG)
		return 0;
	return ch->events->frame(ch->data, &h, &in);
}

static int partial_reserve(struct channel *ch, size_t size)
{
	uint8_t *p;

	if (size <= ch->partial_cap)
		return 0;
	p = realloc(ch->partial, size);
	if (!p)
		return -ENOMEM;
	ch->partial = p;
	ch->partial_cap = size;
	return 0;
}

static void partial_clear(struct channel *ch)
{
	ch->partial_len = 0;
	if (ch->partial_cap > PROTO_HEADER) {
		free(ch->partial);
		ch->partial = NULL;
		ch->partial_cap = 0;
	}
}

/* Whole frames from @bytes on; the rest is kept. */
static int feed_frames(struct channel *ch, const uint8_t *bytes, size_t len)
{
	while (len) {
		size_t size;
		int r = frame_size(bytes, len, &size);

		if (r < 0)
			return r;
		if (size > len || len < PROTO_HEADER) {
			r = partial_reserve(ch, size);
			if (r < 0)
				return r;
			memcpy(ch->partial, bytes, len);
			ch->partial_len = len;
			return 0;
		}
		r = dispatch(ch, bytes, size);
		if (r < 0)
			return r;
		bytes += size;
		len -= size;
	}
	return 0;
}

/* After bytes were added to `partial`: is the frame whole now? Its size may only be known now.
 * Return: 0 or -errno. */
static int partial_advance(struct channel *ch)
{
	size_t size;
	int r = frame_size(ch->partial, ch->partial_len, &size);

	if (r < 0)
		return r;
	if (ch->partial_len < PROTO_HEADER || ch->partial_len < size)
		return partial_reserve(ch, size);
	r = dispatch(ch, ch->partial, size);
	if (r == 0)
		partial_clear(ch);
	return r;
}

/* How many bytes `partial` still wants for its header or its whole. */
static int partial_missing(struct channel *ch, size_t *ret_missing)
{
	size_t size = 0;
	int r = 0;

	if (ch->partial_len)
		r = frame_size(ch->partial, ch->partial_len, &size);
	*ret_missing = ch->partial_len ? size - ch->partial_len : 0;
	return r;
}

int channel_feed(struct channel *ch, const uint8_t *bytes, size_t len)
{
	while (ch->partial_len && len) {
		size_t missing, part;
		int r = partial_missing(ch, &missing);

		if (r < 0)
			return r;
		part = MIN(missing, len);
		memcpy(ch->partial + ch->partial_len, bytes, part);
		ch->partial_len += part;
		bytes += part;
		len -= part;
		r = partial_advance(ch);
		if (r < 0)
			return r;
	}
	return feed_frames(ch, bytes, len);
}

/* One read. Return: 1 if there may be more, 0 if not, or -errno; -EPIPE at the end of file. */
static int read_once(struct channel *ch)
{
	uint8_t *bytes = ch->scratch->bytes;
	const ssize_t n = read(ch->fd, bytes, sizeof(ch->scratch->bytes));
	ssize_t r;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	r = link_take(&ch->from, bytes, (size_t)n);
	if (r > 0)
		r = channel_feed(ch, bytes, (size_t)r);
	return r < 0 ? (int)r : n == sizeof(ch->scratch->bytes);
}

static void on_readable(struct channel *ch)
{
	const uint64_t until = uv_hrtime() + READ_MS * 1000000ull;
	int r = read_once(ch);

	for (unsigned i = 1; i < READ_ROUNDS && r > 0 && uv_hrtime() < until; i++)
		r = read_once(ch);
	if (r < 0)
		on_lost(ch, r);
}

static void on_writable(struct channel *ch)
{
	int r = flush(ch);

	if (r < 0 && r != -EAGAIN) {
		on_lost(ch, r);
		return;
	}
	poll_again(ch);
	if (ch->high && ch->queued[CHANNEL_BULK] <= ch->high / 2) {
		ch->high = ch->queued[CHANNEL_BULK];
		ch->events->drained(ch->data);
	}
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct channel *ch = handle->data;

	/* libuv reports an error, and stops polling, if the other end was closed before it had read all. What it
	 * has sent before, perhaps a result, can still be read. */
	if (status < 0) {
		on_readable(ch);
		if (ch->open && !ch->lost)
			poll_again(ch);
		return;
	}
	if (events & UV_READABLE)
		on_readable(ch);
	if ((events & UV_WRITABLE) && ch->open && !ch->lost)
		on_writable(ch);
}

static void poll_again(struct channel *ch)
{
	if (ch->waits)
		return;
	uv_poll_start(&ch->poll, UV_READABLE | (next_frame(ch) ? UV_WRITABLE : 0), on_poll);
}

void channel_init(struct channel *ch, struct channel_scratch *scratch,
		  const struct channel_events *events, void *data)
{
	for (unsigned cl = 0; cl < CHANNEL_NCLASSES; cl++) {
		STAILQ_INIT(&ch->queue[cl]);
		STAILQ_INIT(&ch->later[cl]);
	}
	ch->scratch = scratch;
	ch->events = events;
	ch->data = data;
}

int channel_start(struct channel *ch, uv_loop_t *loop, int fd)
{
	int r;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	ch->fd = fd;
	ch->poll.data = ch;
	r = uv_poll_init(loop, &ch->poll, fd);
	if (r < 0) {
		lent_close(&fd);
		return r;
	}
	ch->open = true;
	poll_again(ch);
	return 0;
}

int channel_open(struct channel *ch, uv_loop_t *loop, int fd, struct channel_scratch *scratch,
		 const struct channel_events *events, void *data)
{
	channel_init(ch, scratch, events, data);
	return channel_start(ch, loop, fd);
}

void channel_go(struct channel *ch)
{
	if (!ch->open || ch->lost || !ch->waits)
		return;
	ch->waits = false;
	poll_again(ch);
}

static void on_closed(uv_handle_t *handle)
{
	struct channel *ch = handle->data;

	ch->closed(ch->data);
}

bool channel_hung_up(const struct channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0;
}

void channel_drop(struct channel *ch)
{
	struct channel_frame *f;

	queue_later(ch);
	begin_frame(ch);
	while ((f = ch->current)) {
		ch->current = NULL;
		free(f);
		begin_frame(ch);
	}
	free(ch->partial);
	ch->partial = NULL;
	ch->partial_len = ch->partial_cap = 0;
}

void channel_close(struct channel *ch, void (*closed)(void *data))
{
	assert(ch->open);
	ch->open = false;
	ch->closed = closed;
	uv_close((uv_handle_t *)&ch->poll, on_closed);
	lent_close(&ch->fd);
	channel_drop(ch);
}
