/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the connection to an agent. */
#include "channel_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "vm/base/lent.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Reading. All channels read into one scratch buffer, where records (the agent's link.h) are put
 * together, and frames are handed on from there. Only the frame that the buffer's end cuts off is
 * kept, in `partial`, which grows to the size of that frame; its rest is put behind it from what is
 * read next. So an idle sandbox costs no buffer.
 *
 * With a turn, nothing is read before what follows from it is written down: it is peeked at,
 * handled, and taken out of the socket at the end of the turn. If we die in between, it is there
 * for our heir, who knows by the number of the last record whether it was handled. For that,
 * records are handled, and taken out, only as a whole: so there is always a header at the beginning
 * of the socket, and never the rest of a record that might be one that was handled, or the next. A
 * part of a record stays there, and the socket is watched for more (halves.h). One call takes out
 * what was handled, and is not interrupted: there is nothing to wait for, and its buffer is locked
 * where that is allowed.
 *
 * Writing: channel_send.c.
 *
 * Nothing here is bounded by trust: a length over CHANNEL_PAYLOAD_MAX ends the connection before
 * anything is allocated, and one channel gets READ_ROUNDS reads per turn of the loop, or one look
 * with a turn; but READ_MS, and what is read or recorded at once, where that takes long, as a great
 * many small frames do.
 */

#define READ_AT_ONCE	(64u << 10)
#define READ_ROUNDS	16
#define READ_MS		5

/* See whole_at_once(). */
#define SNDBUF_LEAST	1024
#define SNDBUF_OVERHEAD 64

/* ---- reading ---- */

static void on_lost(struct channel *ch, int err)
{
	ch->lost = true;
	uv_poll_stop(&ch->poll);
	halves_remove(&ch->scratch->halves, &ch->half, ch->fd);
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

/* Handles @len bytes of the socket, which may be changed. Return: 0 or -errno. */
static int handle(struct channel *ch, uint8_t *bytes, size_t len)
{
	ssize_t n;

	channel_touch(ch);
	n = link_take(&ch->from, bytes, len);
	return n > 0 ? channel_feed(ch, bytes, (size_t)n) : (int)n;
}

/* One read. Return: 1 if there may be more, 0 if not, or -errno; -EPIPE at the end of file. */
static int read_once(struct channel *ch, size_t max)
{
	const ssize_t n = read(ch->fd, ch->scratch->bytes, max);
	int r;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	r = handle(ch, ch->scratch->bytes, (size_t)n);
	return r < 0 ? r : (size_t)n == max;
}

/* Return: 0 or -errno. */
static int read_all(struct channel *ch)
{
	const uint64_t until = uv_hrtime() + READ_MS * 1000000ull;
	int r = read_once(ch, READ_AT_ONCE);

	for (unsigned i = 1; i < READ_ROUNDS && r > 0 && uv_hrtime() < until; i++)
		r = read_once(ch, READ_AT_ONCE);
	return MIN(r, 0);
}

/* ---- reading in turns ---- */

/* How long is the record that @bytes begin with? Return: 0 if it is not whole; -EPROTO for one of an impossible length. */
static ssize_t whole_record(const uint8_t *bytes, size_t len)
{
	struct proto_in in = {bytes, bytes + LINK_HEADER, false};
	uint32_t n;

	if (len < LINK_HEADER)
		return 0;
	n = get_u32(&in);
	if (n == 0 || n > LINK_DATA_MAX)
		return -EPROTO;
	return len - LINK_HEADER < n ? 0 : (ssize_t)(LINK_HEADER + n);
}

/* Who had it before us, or we without a turn, has taken a part of a record, whose rest is read at
 * once: a death at this moment loses it. Return: 1 if nothing is left of it, 0 if something is, or
 * -errno. */
static int finish_record(struct channel *ch)
{
	int r = 1;

	while (r > 0 && (ch->from.left || ch->from.nhead))
		r = read_once(ch, ch->from.left ? ch->from.left : LINK_HEADER - ch->from.nhead);
	return r;
}

/* Waits for more than the part of a record that is there; or no more. Return: 0 or -errno. */
static int await_rest(struct channel *ch, bool cut)
{
	int r = 0;

	if (cut)
		r = halves_add(&ch->scratch->halves, ch->poll.loop, &ch->half, ch->fd);
	else
		halves_remove(&ch->scratch->halves, &ch->half, ch->fd);
	channel_poll_again(ch);
	return r;
}

/* Handles whole records of @len bytes in the scratch, as many as there is time for. @n: the first. Return: 0 or -errno. */
static int handle_records(struct channel *ch, size_t len, ssize_t n)
{
	const uint64_t until = uv_hrtime() + READ_MS * 1000000ull;
	int r = 0;

	while (r == 0 && n > 0) {
		const size_t at = ch->peeked;

		ch->peeked += (size_t)n;
		r = handle(ch, ch->scratch->bytes + at, (size_t)n);
		if (r == 0 && uv_hrtime() >= until)
			return 0;
		n = whole_record(ch->scratch->bytes + ch->peeked, len - ch->peeked);
	}
	if (r == 0 && n == 0)
		ch->cut = ch->peeked < len && len < sizeof(ch->scratch->bytes);
	return r < 0 ? r : (int)n;
}

/* Handles the records that are there, and leaves them there. Return: 0 or -errno. */
static int peek(struct channel *ch)
{
	ssize_t n, first;
	int r = finish_record(ch);

	if (r <= 0)
		return r;
	n = recv(ch->fd, ch->scratch->bytes, sizeof(ch->scratch->bytes), MSG_PEEK | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	first = whole_record(ch->scratch->bytes, (size_t)n);
	if (first < 0)
		return (int)first;
	if (first == 0)
		return channel_hung_up(ch) ? -EPIPE : ch->half.watched ? 0 : await_rest(ch, true);
	ch->cut = false;
	turn_speak(ch->scratch->turn, TURN_CONSUME, &ch->consumes);
	return handle_records(ch, (size_t)n, first);
}

/* What was handled is written down: takes it out of the socket. Return: 0 or -errno. */
static int take_out(struct channel *ch)
{
	while (ch->peeked) {
		const ssize_t n = recv(ch->fd, ch->scratch->bytes, ch->peeked, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno != EAGAIN ? -errno : -EPROTO; /* it was there */
		ch->peeked -= (size_t)n;
	}
	return ch->cut || ch->half.watched ? await_rest(ch, ch->cut) : 0;
}

static void on_consume(struct turn_speaker *sp)
{
	struct channel *ch = container_of(sp, struct channel, consumes);
	int r;

	if (!ch->open || ch->lost)
		return;
	r = take_out(ch);
	if (r < 0)
		on_lost(ch, r);
}

/* ---- polling ---- */

static void on_readable(struct channel *ch)
{
	int r = 0;

	/* Others' answers are said first, if they are many. */
	turn_pause(ch->scratch->turn);
	if (!ch->open || ch->lost)
		return;
	if (!channel_in_turns(ch)) {
		r = read_all(ch);
		if (ch->half.watched && r == 0)
			r = await_rest(ch, false);
	} else if (!ch->peeked) {
		r = peek(ch);
	}
	if (r < 0 && ch->open && !ch->lost)
		on_lost(ch, r);
	turn_pause(ch->scratch->turn);
}

static void on_more(struct half *x)
{
	on_readable(container_of(x, struct channel, half));
}

static void on_writable(struct channel *ch)
{
	const int r = channel_on_writable(ch);

	if (r < 0 && r != -EAGAIN && r != -ENOMEM) {
		on_lost(ch, r);
		return;
	}
	channel_poll_again(ch);
	if (ch->high && ch->queued[CHANNEL_BULK] <= ch->high / 2) {
		ch->high = ch->queued[CHANNEL_BULK];
		ch->events->drained(ch->data);
	}
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct channel *ch = handle->data;

	/* libuv reports an error, and stops polling, if the other end was closed before it had read
	 * all. What it has sent before, perhaps a result, can still be read. */
	if (status < 0) {
		ch->polled = 0;
		on_readable(ch);
		if (ch->open && !ch->lost)
			channel_poll_again(ch);
		return;
	}
	if (events & UV_READABLE)
		on_readable(ch);
	if ((events & UV_WRITABLE) && ch->open && !ch->lost)
		on_writable(ch);
}

/* ---- life ---- */

void channel_init(struct channel *ch, struct channel_scratch *scratch,
		  const struct channel_events *events, void *data)
{
	channel_send_init(ch);
	ch->consumes.speak = on_consume;
	ch->half.more = on_more;
	ch->ready = on_poll;
	ch->scratch = scratch;
	ch->events = events;
	ch->data = data;
}

/* A socket gives no single buffer more than a part of what all of them may take
 * (unix_stream_sendmsg() of the kernel). */
static size_t whole_at_once(int fd)
{
	int size = 0;
	socklen_t len = sizeof(size);
	size_t most;

	if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &len) < 0 || size < SNDBUF_LEAST)
		return LINK_DATA_MAX;
	most = (size_t)size / 2 - SNDBUF_OVERHEAD;
	return MIN(most - LINK_HEADER, (size_t)LINK_DATA_MAX);
}

int channel_start(struct channel *ch, uv_loop_t *loop, int fd)
{
	int r;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	ch->fd = fd;
	ch->fixed_max = whole_at_once(fd);
	ch->poll.data = ch;
	r = uv_poll_init(loop, &ch->poll, fd);
	if (r < 0) {
		lent_close(&fd);
		return r;
	}
	ch->open = true;
	channel_poll_again(ch);
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
	channel_poll_again(ch);
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

void channel_close(struct channel *ch, void (*closed)(void *data))
{
	assert(ch->open);
	ch->open = false;
	ch->closed = closed;
	if (ch->scratch->turn) {
		turn_hush(ch->scratch->turn, &ch->speaks);
		turn_hush(ch->scratch->turn, &ch->consumes);
	}
	halves_remove(&ch->scratch->halves, &ch->half, ch->fd);
	uv_close((uv_handle_t *)&ch->poll, on_closed);
	lent_close(&ch->fd);
	channel_drop(ch);
}

void channel_note(struct channel *ch)
{
	channel_touch(ch);
}
