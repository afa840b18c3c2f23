/* SPDX-License-Identifier: Apache-2.0 */
/* Records: reads what a driver writes for its interpreter's own streams, in the order of both. */
#include "records.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/core/conn.h"
#include "agent/core/log.h"
#include "agent/core/util.h"
#include "pipe.h"
#include "stream.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The pipe is read as a stream of bytes, because credit may end in the middle of a record. User code can write to
 * it as well, so anything may be in it; what makes no sense closes it, and the driver then does without.
 *
 * Whatever is in it is older than what is in the pipes of the two streams (driver.h says why), so its order
 * does not depend on when it is read. Hence it can be left alone for a tick after each reading, whatever
 * else is written, and a program that goes from one stream to the other wakes nobody with each line.
 *
 * That holds for what was seen in the other pipes before the records were taken. Who reads those asks first how
 * much is in them, takes the records, and then exactly that much. What was read and could not be sent is older.
 */

#define READ_SIZE 16384u

void records_init(struct records *r, struct output *output, records_put *put,
		  records_catch_up *catch_up)
{
	*r = (struct records){.output = output,
			      .put = put,
			      .catch_up = catch_up,
			      .src = {.fd = -1},
			      .spare = {-1, -1}};
}

int records_prepare(struct records *r)
{
	int e;

	if (r->spare[0] >= 0)
		return 0;
	e = pipe_make(r->output->env, 0, r->spare);
	if (e < 0)
		return e;
	if (fcntl(r->spare[1], F_SETFL, O_NONBLOCK) == 0 &&
	    fcntl(r->spare[1], F_SETSIG, DRIVER_MARK_RECORDS) == 0)
		return 0;
	e = -errno;
	close_fd(&r->spare[0]);
	close_fd(&r->spare[1]);
	return e;
}

int records_open(struct records *r)
{
	int fd, e = records_prepare(r);

	if (e < 0)
		return e;
	fd = r->spare[1];
	r->src.fd = r->spare[0];
	r->src.events = 0;
	r->spare[0] = r->spare[1] = -1;
	r->state = STREAM_IDLE;
	r->have = 0;
	r->left = 0;
	r->drain_left = 0;
	return fd;
}

/* Takes the next part of a head. Return: how much of @data that is, or -EBADMSG. */
static ssize_t take_head(struct records *r, const uint8_t *data, size_t len)
{
	size_t n = MIN(len, sizeof(r->head) - r->have);

	memcpy((uint8_t *)&r->head + r->have, data, n);
	r->have += n;
	if (r->have < sizeof(r->head))
		return (ssize_t)n;
	if ((r->head.stream != PROTO_STDOUT && r->head.stream != PROTO_STDERR) || r->head.zero ||
	    r->head.len == 0)
		return -EBADMSG;
	r->left = r->head.len;
	return (ssize_t)n;
}

static int records_parse(struct records *r, const uint8_t *data, size_t len)
{
	while (len) {
		ssize_t n;

		if (r->left) {
			n = (ssize_t)MIN(len, r->left);
			if (r->put(&r->output->out[r->head.stream == PROTO_STDERR], data,
				   (size_t)n) < 0)
				return -ENOMEM;
			r->left -= (size_t)n;
			if (!r->left)
				r->have = 0;
		} else {
			n = take_head(r, data, len);
			if (n < 0)
				return (int)n;
		}
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* How much may be read now: none of it may be put back. Without credit or room that is no more than the head of the
 * next record, and its bytes if they are past their stream's limit. */
static size_t records_room(const struct records *r)
{
	const struct output *output = r->output;

	if (output->out[0].limit_left == 0 && output->out[1].limit_left == 0)
		return READ_SIZE; /* it will be dropped */
	if (output->credit && !conn_full(output->conn))
		return (size_t)MIN(output->credit, READ_SIZE);
	if (r->left == 0)
		return sizeof(r->head) - r->have;
	return output->out[r->head.stream == PROTO_STDERR].limit_left ? 0 : MIN(r->left, READ_SIZE);
}

/* Moves up to @avail bytes. Return: how many have to wait. */
static size_t records_move(struct records *r, size_t avail)
{
	static uint8_t data[READ_SIZE];

	while (avail) {
		size_t want = MIN(avail, records_room(r));
		ssize_t n;
		int e;

		if (want == 0)
			return avail;
		n = read(r->src.fd, data, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0; /* user code has read the rest */
		avail -= (size_t)n;
		e = records_parse(r, data, (size_t)n);
		if (e == -ENOMEM) {
			loop_stop(r->output->loop, e); /* a hole in the output is worse */
			return 0;
		}
		if (e < 0) {
			log_line("user code has written to the pipe for records");
			loop_close(r->output->loop, &r->src);
			return 0;
		}
	}
	return 0;
}

static void records_set(struct records *r, enum stream_state state)
{
	r->state = state;
	(void)loop_watch(r->output->loop, &r->src, state == STREAM_WATCHED ? EPOLLIN : 0);
}

static size_t records_avail(const struct records *r)
{
	int n = 0;

	return r->src.fd >= 0 && ioctl(r->src.fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

int records_take(struct records *r)
{
	size_t n = records_avail(r);

	if (n == 0)
		return 0;
	if (r->catch_up(r->output) == 0 && records_move(r, n) == 0)
		return 1;
	records_set(r, STREAM_PAUSED);
	return -EAGAIN;
}

static void records_rest(struct records *r)
{
	records_set(r, STREAM_QUIET);
	loop_arm(r->output->loop, &r->output->tick, STREAM_TICK_US);
}

static void on_records_ready(struct loop_source *src, uint32_t events)
{
	struct records *r = container_of(src, struct records, src);
	int n = records_take(r);

	if (n == 0 && (events & EPOLLHUP))
		loop_close(r->output->loop, src);
	else if (n > 0)
		records_rest(r);
}

void records_watch(struct records *r)
{
	r->src.ready = on_records_ready;
	records_set(r, STREAM_QUIET); /* until the first tick, as standard output */
}

void records_tick(struct records *r)
{
	int n;

	if (r->src.fd < 0 || r->state != STREAM_QUIET)
		return;
	n = records_take(r);
	if (n > 0)
		records_rest(r);
	else if (n == 0)
		records_set(r, STREAM_WATCHED);
}

bool records_resume(struct records *r)
{
	if (r->src.fd < 0 || r->state != STREAM_PAUSED)
		return true;
	if (records_room(r) == 0)
		return false;
	records_set(r, STREAM_WATCHED);
	return true;
}

void records_settle(struct records *r)
{
	records_set(r, STREAM_IDLE);
	r->drain_left = records_avail(r);
}

bool records_drain(struct records *r)
{
	if (r->src.fd >= 0)
		r->drain_left = records_move(r, r->drain_left);
	return r->src.fd < 0 || r->drain_left == 0;
}

void records_fini(struct records *r)
{
	loop_close(r->output->loop, &r->src);
	close_fd(&r->spare[0]);
	close_fd(&r->spare[1]);
}
