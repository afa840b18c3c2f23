/* SPDX-License-Identifier: Apache-2.0 */
/* Output of a run: reads the pipes as they fill, sends frames, honours credit and limits. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/core/conn.h"
#include "agent/core/guest_env.h"
#include "agent/core/log.h"
#include "agent/core/util.h"

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
 */

#define PIPE_SIZE (1 << 20)
#define FRAME_MIN 4096u /* room for small writes that follow while the frame waits */
#define LINE_SIZE 1024u /* what is read without asking how much there is */
#define TICK_US	  1000u
#define FIRST_US  5000u /* after this, a run is not a short one */

int stream_pipe(const struct guest_env *env, int ours, int ret_fds[2])
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(fds[ours], F_SETFL, O_NONBLOCK) < 0 ||
	    /* A pipe belongs to who made it; /dev/stdin and /dev/stdout open it again, as the user. */
	    (env->drop && fchown(fds[!ours], env->uid, env->gid) < 0)) {
		int r = -errno;

		close(fds[0]);
		close(fds[1]);
		return r;
	}
	memcpy(ret_fds, fds, sizeof(fds));
	return 0;
}

int stream_prepare(struct stream *s)
{
	int r;

	if (s->spare[0] >= 0)
		return 0;
	r = stream_pipe(s->run->env, 0, s->spare);
	if (r == 0)
		(void)fcntl(s->spare[1], F_SETPIPE_SZ, PIPE_SIZE); /* a small one works too */
	return r;
}

int stream_open(struct stream *s, uint64_t limit, int *ret_fd)
{
	int r = stream_prepare(s);

	if (r < 0)
		return r;
	s->src.fd = s->spare[0];
	*ret_fd = s->spare[1];
	s->spare[0] = s->spare[1] = -1;
	s->src.events = 0;
	s->limit_left = limit;
	s->dropped = 0;
	s->drain_left = 0;
	s->state = STREAM_IDLE;
	return 0;
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

/* Reads @want bytes past the limit, for nobody. Return: as stream_read(). */
static ssize_t stream_drop(struct stream *s, size_t want)
{
	static char scratch[65536];
	ssize_t n = stream_read(s, scratch, want < sizeof(scratch) ? want : sizeof(scratch));

	if (n > 0)
		s->dropped += (uint64_t)n;
	return n;
}

/* Reads up to @want bytes into the queue of the connection: behind the newest frame if that is of
 * this stream and has room, else into one of its own. */
static ssize_t stream_send(struct stream *s, size_t want)
{
	struct run *r = s->run;
	struct frame *f = conn_last_bulk(r->conn);
	struct frame *fresh = NULL;
	ssize_t n;

	if (!f || f->type != PROTO_OUTPUT || f->id != r->id || f->flags != s->which ||
	    f->out.cap - f->out.len < want) {
		/* A frame of one line, as a rule, or one that what follows may fill. */
		size_t least = want == LINE_SIZE ? LINE_SIZE : FRAME_MIN;
		size_t cap = want < least ? least : want;

		f = fresh = frame_new(PROTO_OUTPUT, r->id, sizeof(uint32_t) + cap);
		if (!f)
			return -ENOMEM;
		f->flags = (uint8_t)s->which;
		put_u32(&f->out, r->sequence);
	}
	n = stream_read(s, f->out.data + f->out.len, want);
	if (n <= 0) {
		free(fresh);
		return n;
	}
	f->out.len += (size_t)n;
	if (fresh) {
		if (r->sequence == 0)
			log_trace("it has written something");
		r->sequence++;
		conn_send(r->conn, fresh);
	} else {
		conn_grown(r->conn, (size_t)n);
	}
	s->limit_left -= (uint64_t)n;
	r->credit -= (uint64_t)n;
	return n;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Moves up to @avail bytes, at most one frame. Return: how many, 0 if there are none, -EAGAIN if
 * that has to wait for credit or room, or another -errno. */
static ssize_t stream_move(struct stream *s, size_t avail)
{
	size_t want;

	if (s->limit_left == 0)
		return stream_drop(s, avail);
	want = (size_t)min_u64(min_u64(avail, PROTO_DATA_MAX),
			       min_u64(s->limit_left, s->run->credit));
	if (want == 0 || conn_full(s->run->conn))
		return -EAGAIN;
	return stream_send(s, want);
}

/* Changes the state, and what the loop watches with it. */
static int stream_set(struct stream *s, enum stream_state state)
{
	s->state = state;
	return loop_watch(s->run->loop, &s->src, state == STREAM_WATCHED ? EPOLLIN : 0);
}

/* Moves all there is. Return: true if there was something, or it has to wait (STREAM_PAUSED). */
static bool stream_empty(struct stream *s)
{
	bool some = false;
	int avail = 0;

	while (ioctl(s->src.fd, FIONREAD, &avail) == 0 && avail > 0) {
		ssize_t n = stream_move(s, (size_t)avail);

		some = true;
		if (n == -EAGAIN || n == -ENOMEM) {
			(void)stream_set(s, STREAM_PAUSED);
			break;
		}
		if (n <= 0 && n != -EINTR)
			break;
		if (n == avail)
			break; /* what came since belongs behind what came to the other stream */
	}
	return some;
}

/* The same for a stream that was just written, as a rule a line: asks only if that was not all. */
static bool stream_take(struct stream *s)
{
	ssize_t n = stream_move(s, LINE_SIZE);

	if (n > 0 && n < (ssize_t)LINE_SIZE)
		return true;
	return stream_empty(s) || n > 0;
}

static void on_stream_ready(struct loop_source *src, uint32_t events)
{
	struct stream *s = container_of(src, struct stream, src);
	struct stream *other = &s->run->out[s == s->run->out];
	const bool turn = s->run->wrote == other; /* they take turns */

	s->run->wrote = s;
	if (other->state == STREAM_QUIET) {
		/* What is in there was written before what woke us. */
		(void)stream_empty(other);
		if (other->state == STREAM_QUIET)
			(void)stream_set(other, STREAM_WATCHED);
	}
	if (!stream_take(s)) {
		/* Nothing in it: the end, if nobody can write any more. */
		if (events & EPOLLHUP)
			loop_close(s->run->loop, src);
		return;
	}
	if (s->state == STREAM_WATCHED && !turn) {
		(void)stream_set(s, STREAM_QUIET);
		loop_arm(s->run->loop, &s->run->tick, TICK_US);
		return;
	}
	s->run->loop->calm = s->state == STREAM_WATCHED && conn_holds(s->run->conn);
}

void stream_tick(struct stream *s)
{
	if (s->state != STREAM_QUIET)
		return;
	if (!stream_empty(s))
		(void)stream_set(s, STREAM_WATCHED);
	else if (s->state == STREAM_QUIET)
		loop_arm(s->run->loop, &s->run->tick, TICK_US);
}

int stream_watch(struct stream *s)
{
	s->src.ready = on_stream_ready;
	if (s->which == PROTO_STDERR)
		return stream_set(s, STREAM_WATCHED);
	loop_arm(s->run->loop, &s->run->tick, FIRST_US);
	return stream_set(s, STREAM_QUIET);
}

void stream_resume(struct stream *s)
{
	if (s->state == STREAM_PAUSED && !conn_full(s->run->conn) &&
	    (s->limit_left == 0 || s->run->credit > 0))
		(void)stream_set(s, STREAM_WATCHED);
}

void stream_settle(struct stream *s)
{
	int avail = 0;

	(void)stream_set(s, STREAM_IDLE);
	if (s->src.fd >= 0 && ioctl(s->src.fd, FIONREAD, &avail) == 0 && avail > 0)
		s->drain_left = (size_t)avail;
}

bool stream_drain(struct stream *s)
{
	while (s->drain_left) {
		ssize_t n = stream_move(s, s->drain_left);

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
