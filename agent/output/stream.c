/* SPDX-License-Identifier: Apache-2.0 */
/* Output of a run: reads the pipes as they fill, sends frames, honours credit and limits. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/core/conn.h"
#include "agent/core/guest_env.h"
#include "agent/core/log.h"
#include "agent/core/util.h"
#include "apart.h"
#include "pipe.h"
#include "records.h"

/*
 * Theory of operation
 * -------------------
 * The first write to a stream wakes the agent, and is sent at once. A program that goes on writing
 * would wake it again for each line, which on an emulated processor costs more than the line; so a
 * stream that was just read is left alone until the next tick, a millisecond later, when all that
 * came in between is read in one go, and is watched again once it has been silent for a tick. In
 * the same way standard output is left alone when a run begins: what a short program writes goes out
 * together with its result, and nobody is woken twice.
 *
 * This keeps the order of both streams, because only the stream that was written last is ever left
 * alone: a write to the other one wakes the agent, which takes what is in the quiet one first,
 * for that is older.
 *
 * Of a program that writes to both in turn, no write can be left for later: what is in two pipes does
 * not tell which of it came first. So each change from one to the other costs a wake, and the best
 * that can be done is to make it cheap: both stay watched, one read takes the line, and while frames
 * are held anyway nothing else is looked at. A stream is left alone again when it was written twice
 * in a row.
 *
 * A stream that has to wait, for credit or room, keeps what is older than anything in the other one, which
 * therefore waits for it, and is read after it.
 *
 * What a driver writes as records (records.c) is older than all that is in the two pipes, and is taken before
 * it. A program whose driver does that changes from one stream to the other without waking anybody.
 *
 * Writes to a pipe may be kept apart (O_DIRECT), because of the journal or of a program (dd), also behind some that are not.
 * A read takes what is not, and one that is; and what it has no room for of that one, the kernel drops. So each read is of all
 * that was there at some moment: it ends where a write does. What may not be sent yet of that is kept in a piece of memory.
 * That is then older than all there is: nobody can see it in the pipe, and a driver that sees nothing there writes records.
 *
 * All that holds where we are woken before the writer goes on: in a machine with one processor. Elsewhere both streams
 * are read by the journal (journal.c), unless it cannot be had; then what is said here still is the best there is.
 */

#define PIPE_SIZE (1 << 20)
#define FRAME_MIN 4096u /* room for small writes that follow while the frame waits */
#define LINE_SIZE 1024u /* as much as most lines need */
#define FIRST_US  5000u /* after this, a run is not a short one */

/* All pipes of a user together may have fs.pipe-user-pages-soft pages; then there are but short ones. */
static void say_short(struct output *o)
{
	if (!o->said_short)
		log_line("which of two outputs was written first is not always known: "
			 "there are only short pipes (fs.pipe-user-pages-soft)");
	o->said_short = true;
}

/* An idle jail keeps none of the pages that its user may have; a machine has them to itself. */
static void widen(struct stream *s)
{
	(void)fcntl(s->spare[1], F_SETPIPE_SZ, PIPE_SIZE); /* a small one works too */
	if (s->output->journal.src.fd < 0)
		return;
	s->spare_slots = apart_mark(s->spare, s->output->journal.signal);
	if (!s->spare_slots)
		say_short(s->output);
}

int stream_prepare(struct stream *s)
{
	int r;

	if (s->spare[0] >= 0)
		return 0;
	r = pipe_make(s->output->env, 0, s->spare);
	if (r < 0)
		return r;
	/* Without the mark there are no records. */
	(void)fcntl(s->spare[1], F_SETSIG,
		    s->which == PROTO_STDOUT ? DRIVER_MARK_STDOUT : DRIVER_MARK_STDERR);
	if (s->output->env->guest)
		widen(s);
	return 0;
}

int stream_open(struct stream *s, uint64_t limit, int *ret_fd)
{
	int r = stream_prepare(s);

	if (r < 0)
		return r;
	if (!s->output->env->guest)
		widen(s);
	s->src.fd = s->spare[0];
	s->slots = s->spare_slots;
	s->piece_len = s->piece_sent = 0;
	*ret_fd = s->spare[1];
	s->writer = s->slots ? fcntl(*ret_fd, F_DUPFD_CLOEXEC, 0) : -1;
	s->merged = s->muted = s->skipped = false;
	s->alone = 0;
	s->ahead = 0;
	s->spare[0] = s->spare[1] = -1;
	s->src.events = 0;
	s->limit_left = limit;
	s->dropped = 0;
	s->drain_left = 0;
	s->state = STREAM_IDLE;
	return 0;
}

size_t stream_avail(const struct stream *s)
{
	int n = 0;

	if (s->src.fd >= 0 && (ioctl(s->src.fd, FIONREAD, &n) < 0 || n < 0))
		n = 0;
	return (size_t)n + s->piece_len - s->piece_sent;
}

/* Reads the pipe. Return: how many bytes, or -errno; 0 also if there were some a moment ago: user code can
 * open the pipe, too, and has read them itself. */
static ssize_t stream_read(struct stream *s, void *buf, size_t want)
{
	ssize_t n = read(s->src.fd, buf, want);

	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	return n;
}

/* Finds where @want bytes go: behind the newest frame if that is of this stream and has room (then
 * @ret_fresh is NULL), else into one of its own, of at least @least. Return: NULL if there is no memory. */
static struct frame *stream_frame(const struct stream *s, size_t want, size_t least,
				  struct frame **ret_fresh)
{
	const struct output *o = s->output;
	struct frame *f = conn_last_bulk(o->conn);

	*ret_fresh = NULL;
	if (f && f->type == PROTO_OUTPUT && f->id == o->id && f->flags == s->which &&
	    f->out.cap - f->out.len >= want)
		return f;
	f = frame_new(PROTO_OUTPUT, o->id, sizeof(uint32_t) + (want < least ? least : want));
	if (!f)
		return NULL;
	f->flags = (uint8_t)s->which;
	put_u32(&f->out, o->sequence);
	*ret_fresh = f;
	return f;
}

/* @n bytes were added to @f. */
static void stream_added(struct stream *s, struct frame *f, size_t n, bool fresh)
{
	struct output *o = s->output;

	f->out.len += n;
	if (fresh) {
		if (o->sequence == 0)
			log_trace("it has written something");
		o->sequence++;
		conn_send(o->conn, f);
	} else {
		conn_grown(o->conn, n);
	}
	s->limit_left -= n;
	o->credit -= n;
}

static unsigned count_lines(const uint8_t *data, size_t len)
{
	unsigned n = 0;

	for (size_t i = 0; i < len; i++)
		n += data[i] == '\n';
	return n;
}

/* Reads @want bytes, all that there were, into the queue of the connection. @lines: add of how many lines, or NULL. */
static ssize_t stream_send(struct stream *s, size_t want, unsigned *lines)
{
	/* A frame of one line, as a rule, or one that what follows may fill. */
	const size_t least = want <= LINE_SIZE ? LINE_SIZE : FRAME_MIN;
	struct frame *fresh, *f = stream_frame(s, want, least, &fresh);
	ssize_t n;

	if (!f)
		return -ENOMEM;
	n = stream_read(s, f->out.data + f->out.len, want);
	if (n <= 0) {
		free(fresh);
		return n;
	}
	if (lines)
		*lines += count_lines(f->out.data + f->out.len, (size_t)n);
	stream_added(s, f, (size_t)n, fresh);
	return n;
}

/* Sends bytes that were read already. @least: of a frame that is made for them, at least so many are to follow. */
static int put(struct stream *s, const void *data, size_t len, size_t least)
{
	const size_t n = len < s->limit_left ? len : (size_t)s->limit_left;
	struct frame *f, *fresh;

	s->dropped += len - n;
	if (n == 0)
		return 0;
	f = stream_frame(s, n, least, &fresh);
	if (!f)
		return -ENOMEM;
	memcpy(f->out.data + f->out.len, data, n);
	stream_added(s, f, n, fresh);
	s->output->wrote = s;
	return 0;
}

/* Return: how many bytes are to follow in a frame. Where both take turns, what follows goes into another one. */
static size_t to_follow(const struct stream *s)
{
	return s->output->wrote == s ? FRAME_MIN : 0;
}

int stream_put(struct stream *s, const void *data, size_t len)
{
	return put(s, data, len, to_follow(s));
}

/* Room for so many bytes in the piece, which is empty. */
static bool piece_reserve(struct stream *s, size_t size)
{
	if (s->piece_cap < size) {
		free(s->piece);
		s->piece_cap = MAX(size, (size_t)APART_PAGE);
		s->piece = malloc(s->piece_cap);
		if (!s->piece)
			s->piece_cap = 0;
	}
	return s->piece_cap >= size;
}

ssize_t stream_fill(struct stream *s, size_t avail)
{
	if (s->piece_sent == s->piece_len) {
		ssize_t n = piece_reserve(s, avail) ? stream_read(s, s->piece, avail) : -ENOMEM;

		if (n <= 0)
			return n;
		s->piece_len = (size_t)n;
		s->piece_sent = 0;
	}
	return (ssize_t)(s->piece_len - s->piece_sent);
}

/* Moves what is in the piece, and fills it before if it is empty. @least: as put(). */
static ssize_t stream_move_piece(struct stream *s, size_t avail, size_t least)
{
	size_t want;
	ssize_t n = stream_fill(s, avail);
	int e;

	if (n <= 0)
		return n;
	want = MIN(MIN((size_t)n, avail), (size_t)PROTO_DATA_MAX);
	if (s->limit_left > s->output->credit)
		want = (size_t)MIN((uint64_t)want, s->output->credit);
	if (want == 0 || (s->limit_left && conn_full(s->output->conn)))
		return -EAGAIN;
	e = put(s, s->piece + s->piece_sent, want, least);
	if (e < 0)
		return e;
	s->piece_sent += want;
	return (ssize_t)want;
}

/* Sends the rest of the piece. Return: 0 or -errno. */
static int stream_send_piece(struct stream *s)
{
	while (s->piece_sent < s->piece_len) {
		const size_t rest = s->piece_len - s->piece_sent;
		const uint8_t *data = s->piece + s->piece_sent;
		ssize_t n = stream_move_piece(s, rest, FRAME_MIN);

		if (n < 0)
			return (int)n;
		s->drain_left -= MIN(s->drain_left, (size_t)n);
		if (s->merged)
			s->ahead += count_lines(data, (size_t)n);
		else if ((size_t)n == rest && s->piece_len % APART_PAGE)
			s->ahead++;
	}
	return 0;
}

int stream_catch_up(struct output *o)
{
	int e = stream_send_piece(&o->out[0]);

	return e < 0 ? e : stream_send_piece(&o->out[1]);
}

ssize_t stream_move(struct stream *s, size_t avail)
{
	return s->slots ? stream_move_piece(s, avail, to_follow(s)) : stream_sweep(s, avail, NULL);
}

ssize_t stream_sweep(struct stream *s, size_t avail, unsigned *lines)
{
	const uint64_t allowed = MIN(s->limit_left, s->output->credit);
	const size_t want = (size_t)MIN(allowed, (uint64_t)MIN(avail, (size_t)PROTO_DATA_MAX));
	ssize_t n;

	/* Past the limit it is read as well, and dropped. */
	if (s->piece_sent == s->piece_len && s->limit_left) {
		if (want == 0 || conn_full(s->output->conn))
			return -EAGAIN;
		/* A short one is copied behind what is in the newest frame. */
		if (want == avail && (!s->slots || want > APART_PAGE)) {
			if (s->slots)
				s->output->wrote = s;
			return stream_send(s, want, lines);
		}
	}
	n = stream_move_piece(s, avail, MAX(want, (size_t)FRAME_MIN));
	if (n > 0 && lines)
		*lines += count_lines(s->piece + s->piece_sent - n, (size_t)n);
	return n;
}

/* Changes the state, and what the loop watches with it. */
static int stream_set(struct stream *s, enum stream_state state)
{
	s->state = state;
	return loop_watch(s->output->loop, &s->src, state == STREAM_WATCHED ? EPOLLIN : 0);
}

/* Moves all there is. Return: true if there was something, or it has to wait (STREAM_PAUSED). */
static bool stream_empty(struct stream *s)
{
	bool some = false;
	size_t avail = 0;
	ssize_t n;

	while ((n = stream_catch_up(s->output)) < 0 || (avail = stream_avail(s)) > 0) {
		/* Older than that. */
		if (n == 0)
			n = records_take(&s->output->records);
		if (n >= 0)
			n = stream_move(s, avail);
		some = true;
		if (n == -EAGAIN || n == -ENOMEM) {
			(void)stream_set(s, STREAM_PAUSED);
			if (!s->output->owed)
				s->output->owed = s;
			return true;
		}
		if (n <= 0 && n != -EINTR)
			break;
		if (n == (ssize_t)avail)
			break; /* what came since belongs behind what came to the other stream */
	}
	if (s->output->owed == s)
		s->output->owed = NULL;
	return some;
}

static void on_stream_ready(struct loop_source *src, uint32_t events)
{
	struct stream *s = container_of(src, struct stream, src);
	struct stream *other = &s->output->out[s == s->output->out];
	const bool turn = s->output->wrote == other; /* they take turns */

	s->output->wrote = s;
	if (other->state == STREAM_QUIET) {
		/* What is in there was written before what woke us. */
		(void)stream_empty(other);
		if (other->state == STREAM_QUIET)
			(void)stream_set(other, STREAM_WATCHED);
	} else if (s->output->owed == other) {
		(void)stream_empty(other);
		if (other->state == STREAM_PAUSED) {
			(void)stream_set(s, STREAM_PAUSED);
			return;
		}
	}
	if (!stream_empty(s)) {
		/* Nothing in it: the end, if nobody can write any more. */
		if (events & EPOLLHUP)
			loop_close(s->output->loop, src);
		return;
	}
	if (s->state == STREAM_WATCHED && !turn) {
		(void)stream_set(s, STREAM_QUIET);
		loop_arm(s->output->loop, &s->output->tick, STREAM_TICK_US);
		return;
	}
	s->output->loop->calm = s->state == STREAM_WATCHED && conn_holds(s->output->conn);
}

void stream_tick(struct stream *s)
{
	if (s->state != STREAM_QUIET)
		return;
	if (!stream_empty(s))
		(void)stream_set(s, STREAM_WATCHED);
	else if (s->state == STREAM_QUIET)
		loop_arm(s->output->loop, &s->output->tick, STREAM_TICK_US);
}

int stream_watch(struct stream *s)
{
	s->src.ready = on_stream_ready;
	if (apart_is_on(s->output))
		return stream_set(s, STREAM_IDLE); /* it is read from there */
	if (s->which == PROTO_STDERR)
		return stream_set(s, STREAM_WATCHED);
	loop_arm(s->output->loop, &s->output->tick, FIRST_US);
	return stream_set(s, STREAM_QUIET);
}

void stream_resume(struct stream *s)
{
	if (s->state != STREAM_PAUSED || conn_full(s->output->conn) ||
	    (s->limit_left && !s->output->credit))
		return;
	if (s->piece_sent == s->piece_len) {
		(void)stream_set(s, STREAM_WATCHED);
		return;
	}
	/* Nothing may come that would wake us. */
	(void)stream_set(s, STREAM_QUIET);
	loop_arm(s->output->loop, &s->output->tick, 0);
}

void stream_settle(struct stream *s)
{
	(void)stream_set(s, STREAM_IDLE);
	s->drain_left = stream_avail(s);
}

bool stream_drain(struct stream *s)
{
	while (s->drain_left) {
		ssize_t n = stream_sweep(s, s->drain_left, NULL);

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN || n == -ENOMEM)
			return false;
		if (n <= 0)
			s->drain_left = 0; /* user code has read the rest */
		else
			s->drain_left -= (size_t)n;
	}
	return true;
}

void stream_leave(struct stream *s)
{
	apart_leave(s);
	free(s->piece);
	s->piece = NULL;
	s->piece_cap = s->piece_len = s->piece_sent = 0;
}
