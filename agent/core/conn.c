/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the host: framing, generations, queues. */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "util.h"

/*
 * Theory of operation
 * -------------------
 * The descriptor is watched edge-triggered. A virtio port whose host end is closed reads as end of
 * file and reports EPOLLHUP for as long as that lasts; with level-triggered events, or a loop that
 * reads until it gets data, an agent without a host would burn its processor. With edges it is
 * woken once when the host comes back.
 *
 * One conn_receive() reads a bounded number of bytes, so that a host that uploads a large file does
 * not keep the agent from reading the pipes of a run in between.
 *
 * The port accepts at most 32 KiB at a time, each in its own buffer, which costs an exit to the
 * host and a round through its event loop: so small frames that are queued are sent together,
 * through `stage`, and frames in quick succession are held for a moment. Each write is a record of the link (link.h).
 * Of a frame that is longer than one, the header of each record takes the place of bytes that were sent before.
 */

#define IN_SIZE	    ((size_t)PROTO_HEADER + PROTO_PAYLOAD_MAX)
#define IN_BUDGET   (512u << 10)
#define FRAME_ROOM  ((size_t)LINK_HEADER + PROTO_HEADER) /* before its payload */

/* EPOLLOUT is added while the descriptor is full. */
#define CONN_EVENTS (EPOLLIN | EPOLLRDHUP | EPOLLET)

static void on_conn_event(struct loop_source *s, uint32_t events)
{
	struct conn *c = container_of(s, struct conn, src);

	if (events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP | EPOLLERR))
		c->readable = true;
	if (events & (EPOLLOUT | EPOLLERR)) {
		c->writable = true;
		(void)loop_watch(c->loop, s, CONN_EVENTS);
	}
}

static void on_hold_over(struct loop_timer *t)
{
	struct conn *c = container_of(t, struct conn, hold);

	c->held = 0;
}

int conn_init(struct conn *c, struct loop *loop, int fd, bool local)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	c->in = malloc(IN_SIZE);
	if (!c->in)
		return -ENOMEM;
	TAILQ_INIT(&c->urgent.frames);
	TAILQ_INIT(&c->bulk.frames);
	c->loop = loop;
	c->local = local;
	c->src.fd = fd;
	c->src.ready = on_conn_event;
	c->readable = c->writable = true;
	c->hold.fire = on_hold_over;
	return loop_watch(loop, &c->src, CONN_EVENTS);
}

static void queue_clear(struct frame_queue *q)
{
	struct frame *f;

	while ((f = TAILQ_FIRST(&q->frames))) {
		TAILQ_REMOVE(&q->frames, f, link);
		free(f);
	}
	q->bytes = 0;
}

void conn_fini(struct conn *c)
{
	loop_close(c->loop, &c->src);
	loop_disarm(c->loop, &c->hold);
	queue_clear(&c->urgent);
	queue_clear(&c->bulk);
	free(c->current);
	c->current = NULL;
	free(c->last);
	c->last = NULL;
	free(c->in);
	c->in = NULL;
}

bool conn_full(const struct conn *c)
{
	return c->bulk.bytes >= CONN_FULL;
}

/* The host is heard: it is not, or no more, silence that it waits for. */
static void conn_speak(struct conn *c)
{
	free(c->last);
	c->last = NULL;
	c->silent = false;
}

void conn_renew(struct conn *c, uint32_t generation)
{
	queue_clear(&c->urgent);
	queue_clear(&c->bulk);
	conn_speak(c);
	c->prompt = 0;
	c->flushing = false;
	c->generation = generation;
	c->open = true;
}

struct frame *frame_new(enum proto_type type, uint32_t id, size_t cap)
{
	struct frame *f = malloc(sizeof(*f) + FRAME_ROOM + cap);

	if (!f)
		return NULL;
	memset(f, 0, sizeof(*f));
	f->type = (uint16_t)type;
	f->id = id;
	f->out.data = f->data + FRAME_ROOM;
	f->out.cap = cap;
	return f;
}

struct frame *frame_trim(struct frame *f)
{
	struct frame *small;

	if (f->out.cap - f->out.len < 4096)
		return f;
	small = realloc(f, sizeof(*f) + FRAME_ROOM + f->out.len);
	if (!small)
		return f;
	small->out.data = small->data + FRAME_ROOM;
	small->out.cap = small->out.len;
	return small;
}

static bool is_prompt(uint16_t type)
{
	return type == PROTO_EXIT || type == PROTO_FILE_REPLY || type == PROTO_LOCKED ||
	       (type >= PROTO_LEASED && type <= PROTO_JOB_GONE) || type == PROTO_PACKED ||
	       type == PROTO_UNPACKED || type == PROTO_RESUMED;
}

static bool is_bulk(uint16_t type)
{
	return type == PROTO_OUTPUT || type == PROTO_LOG || type == PROTO_TRACED ||
	       type == PROTO_CHANGED || is_prompt(type);
}

void conn_send(struct conn *c, struct frame *f)
{
	struct frame_queue *q = is_bulk(f->type) ? &c->bulk : &c->urgent;

	TAILQ_INSERT_TAIL(&q->frames, f, link);
	q->bytes += PROTO_HEADER + f->out.len;
	c->prompt += is_prompt(f->type);
}

void conn_send_last(struct conn *c, struct frame *f)
{
	free(c->last);
	c->last = f;
}

void conn_send_failed(struct conn *c, uint32_t id, int error, const char *what)
{
	struct frame *f = frame_new(PROTO_FAILED, id, 8 + strlen(what));

	if (!f)
		return;
	put_u32(&f->out, (uint32_t)error);
	put_str(&f->out, proto_cstr(what));
	conn_send(c, f);
}

struct frame *conn_last_bulk(struct conn *c)
{
	return TAILQ_LAST(&c->bulk.frames, frames);
}

void conn_grown(struct conn *c, size_t len)
{
	c->bulk.bytes += len;
}

static struct frame *queue_pop(struct frame_queue *q)
{
	struct frame *f = TAILQ_FIRST(&q->frames);

	if (!f)
		return NULL;
	TAILQ_REMOVE(&q->frames, f, link);
	q->bytes -= PROTO_HEADER + f->out.len;
	return f;
}

/* May the next bulk frame go out now? */
static bool bulk_due(struct conn *c)
{
	uint64_t now;

	if (!c->bulk.bytes)
		return false;
	if (c->flushing || c->prompt || c->last || c->bulk.bytes >= CONN_HOLD)
		return true;
	if (c->hold.armed)
		return false;
	now = now_us();
	if (now >= c->held)
		return true;
	loop_arm(c->loop, &c->hold, c->held - now);
	return false;
}

static struct frame *bulk_pop(struct conn *c)
{
	struct frame *f = bulk_due(c) ? queue_pop(&c->bulk) : NULL;

	if (!f)
		return NULL;
	c->prompt -= is_prompt(f->type);
	c->flushing = c->bulk.bytes;
	if (!c->flushing)
		c->held = now_us() + CONN_HOLD_US;
	return f;
}

/* Makes the next frame the current one. The header is written only now: the length may have grown
 * until this moment. */
static struct frame *conn_next(struct conn *c)
{
	struct proto_header h;
	struct frame *f;

	if (c->current || !c->open || c->silent)
		return c->current;
	f = queue_pop(&c->urgent);
	if (!f)
		f = bulk_pop(c);
	if (!f && c->last) {
		f = c->last;
		c->last = NULL;
		c->silent = true;
	}
	if (!f)
		return NULL;
	h = (struct proto_header){.length = (uint32_t)f->out.len,
				  .type = f->type,
				  .flags = f->flags,
				  .generation = (uint8_t)c->generation,
				  .id = f->id};
	proto_header_pack(&h, f->data + LINK_HEADER);
	c->current = f;
	c->sent = 0;
	return f;
}

/* Accounts for @n bytes that were written. */
static void pieces_put(struct conn *c, size_t n)
{
	while (n) {
		struct iovec *v = &c->piece[c->piece_at];
		const size_t part = n < v->iov_len ? n : v->iov_len;

		v->iov_base = (uint8_t *)v->iov_base + part;
		v->iov_len -= part;
		c->piece_at += !v->iov_len;
		n -= part;
	}
}

/* Writes what is left of the last records, to a port one at a time. Return: 0 or -errno. */
static int conn_put(struct conn *c)
{
	struct iovec *v = &c->piece[c->piece_at];
	const struct msghdr msg = {.msg_iov = v, .msg_iovlen = c->npieces - c->piece_at};
	const ssize_t n = c->local ? sendmsg(c->src.fd, &msg, MSG_NOSIGNAL)
				   : write(c->src.fd, v->iov_base, v->iov_len);

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && (errno == EAGAIN || errno == EPIPE || errno == ECONNRESET)) {
		/* A local end that is gone is noticed by reading. */
		c->writable = false;
		return loop_watch(c->loop, &c->src, CONN_EVENTS | EPOLLOUT);
	}
	if (n < 0)
		return -errno;
	pieces_put(c, (size_t)n);
	return 0;
}

static size_t frame_left(const struct conn *c)
{
	return PROTO_HEADER + c->current->out.len - c->sent;
}

/* Return: how many bytes are in the stage, behind room for their header. */
static size_t stage_fill(struct conn *c)
{
	uint8_t *end = c->stage + LINK_HEADER;
	size_t room = CONN_STAGE;

	while (room && conn_next(c)) {
		const size_t left = frame_left(c), n = left < room ? left : room;

		/* What fills the stage by itself goes out without being copied. */
		if (left >= CONN_STAGE)
			break;
		memcpy(end, c->current->data + LINK_HEADER + c->sent, n);
		end += n;
		room -= n;
		c->sent += n;
		if (n < left)
			break;
		free(c->current);
		c->current = NULL;
	}
	return CONN_STAGE - room;
}

static void add_piece(struct conn *c, uint8_t *data, size_t len)
{
	c->piece[c->npieces++] = (struct iovec){data, len};
}

/* Cuts the current frame into records: for a port one, whose header takes the place of what went before. */
static void cut_frame(struct conn *c)
{
	for (unsigned i = 0; i < (c->local ? CONN_BATCH : 1) && frame_left(c); i++) {
		const size_t n = frame_left(c) < LINK_DATA_MAX ? frame_left(c) : LINK_DATA_MAX;
		uint8_t *data = c->current->data + LINK_HEADER + c->sent;
		uint8_t *head = c->local ? c->heads[i] : data - LINK_HEADER;

		link_head(&c->to, n, head);
		add_piece(c, head, LINK_HEADER + (c->local ? 0 : n));
		if (c->local)
			add_piece(c, data, n);
		c->sent += n;
	}
}

/* Begins the next record, or some. Return: false if there is nothing to be sent. */
static bool conn_begin(struct conn *c)
{
	size_t n;

	c->piece_at = c->npieces = 0;
	if (c->current && !frame_left(c)) {
		free(c->current);
		c->current = NULL;
	}
	n = stage_fill(c);
	if (n) {
		link_head(&c->to, n, c->stage);
		add_piece(c, c->stage, LINK_HEADER + n);
	} else if (conn_next(c)) {
		cut_frame(c);
	}
	return c->npieces;
}

/* Is there something left of what was begun? */
static bool is_within(const struct conn *c)
{
	return c->piece_at < c->npieces;
}

int conn_transmit(struct conn *c)
{
	int r = 0;

	while (r == 0 && c->writable && (is_within(c) || conn_begin(c)))
		r = conn_put(c);
	return r;
}

bool conn_has_sent(const struct conn *c, uint32_t number)
{
	return link_has_sent(&c->to, number);
}

static size_t conn_queued(const struct conn *c)
{
	return c->urgent.bytes + c->bulk.bytes;
}

static int conn_parse(struct conn *c)
{
	c->stalled = false;
	while (c->in_end - c->in_first >= PROTO_HEADER) {
		struct proto_header h;
		int r;

		if (conn_queued(c) >= CONN_STALL && !c->silent) {
			c->stalled = true;
			break;
		}
		r = proto_header_unpack(c->in + c->in_first, &h);
		if (r < 0)
			return r;
		if (c->in_end - c->in_first < PROTO_HEADER + (size_t)h.length)
			break;
		if (h.type == PROTO_HELLO || (c->open && h.generation == (uint8_t)c->generation)) {
			conn_speak(c);
			r = c->on_frame(c, &h, c->in + c->in_first + PROTO_HEADER);
		}
		if (r < 0)
			return r;
		c->in_first += PROTO_HEADER + (size_t)h.length;
	}
	if (c->in_first) {
		memmove(c->in, c->in + c->in_first, c->in_end - c->in_first);
		c->in_end -= c->in_first;
		c->in_first = 0;
	}
	return 0;
}

static int conn_read(struct conn *c)
{
	size_t budget = IN_BUDGET;

	while (c->readable && budget && !c->stalled) {
		ssize_t n = read(c->src.fd, c->in + c->in_end, IN_SIZE - c->in_end);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			c->readable = false;
			if (c->local && (n == 0 || errno != EAGAIN))
				return -EPIPE;
			if (n < 0)
				return errno == EAGAIN || errno == EPIPE ? 0 : -errno;
			c->in_end = 0; /* half a frame of a host that went away */
			link_cut(&c->from);
			return 0;
		}
		budget -= (size_t)n < budget ? (size_t)n : budget;
		n = link_take(&c->from, c->in + c->in_end, (size_t)n);
		if (n < 0)
			return (int)n;
		c->in_end += (size_t)n;
		r = conn_parse(c);
		if (r < 0)
			return r;
	}
	return 0;
}

int conn_receive(struct conn *c)
{
	int r = c->stalled ? conn_parse(c) : 0;

	return r < 0 ? r : conn_read(c);
}

void conn_hurry(struct conn *c)
{
	loop_disarm(c->loop, &c->hold);
	c->held = 0;
}

bool conn_holds(const struct conn *c)
{
	return c->hold.armed && !c->flushing && !c->prompt && !c->last && c->bulk.bytes < CONN_HOLD;
}

bool conn_more(struct conn *c)
{
	bool in = (c->readable || c->stalled) && (c->silent || conn_queued(c) < CONN_STALL);
	bool queued = !c->silent && (c->urgent.bytes || c->last || bulk_due(c));
	bool out = c->open && (c->current || is_within(c) || queued);

	return in || (out && c->writable);
}
