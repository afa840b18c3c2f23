/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input of a run or a job. If a program closes it early, the host is told, and the rest is dropped. */
#include "stdin.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ttydefaults.h>
#include <unistd.h>

#include "agent/output/pipe.h"
#include "agent/core/conn.h"
#include "agent/core/guest_env.h"
#include "agent/core/util.h"

/* Errors are told whatever is watched, but something has to be: with edges, nothing else is heard of. */
#define WATCH_END (EPOLLPRI | EPOLLET)

static void stdin_grant(struct stdin_pipe *f)
{
	struct frame *frame;

	if (f->eof || f->closed || !f->consumed)
		return;
	if (f->consumed < STDIN_WINDOW / 4 && f->first < f->end)
		return;
	frame = frame_new(PROTO_STDIN_CREDIT, f->run, 4);
	if (!frame)
		return; /* tried again when more is consumed */
	put_u32(&frame->out, f->consumed);
	f->granted += f->consumed;
	f->consumed = 0;
	conn_send(f->conn, frame);
}

/* Nobody reads it any more: what there is, and what comes, is dropped. */
static void stdin_closed(struct stdin_pipe *f)
{
	struct frame *frame;

	if (f->closed)
		return;
	f->closed = true;
	f->first = f->end = 0;
	loop_close(f->loop, &f->src);
	if (f->eof)
		return;
	frame = frame_new(PROTO_STDIN_CLOSED, f->run, 0);
	if (frame)
		conn_send(f->conn, frame);
}

/* Writes what there is. The pipe is watched for room while it is full, else for the end of its readers. */
static void stdin_push(struct stdin_pipe *f)
{
	ssize_t n = 0;

	while (f->first < f->end && !f->closed) {
		n = write(f->src.fd, f->data + f->first, f->end - f->first);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		f->first += (size_t)n;
		f->consumed += (uint32_t)n;
	}
	if (n < 0 && errno != EAGAIN)
		stdin_closed(f);
	if (f->first == f->end)
		f->first = f->end = 0;
	if (f->eof && f->first == f->end)
		loop_close(f->loop, &f->src);
	else if (loop_watch(f->loop, &f->src, f->first < f->end ? EPOLLOUT : WATCH_END) < 0)
		stdin_closed(f);
	stdin_grant(f);
}

static void on_stdin_ready(struct loop_source *s, uint32_t events)
{
	struct stdin_pipe *f = container_of(s, struct stdin_pipe, src);

	/* Whoever has a terminal open may come back; nobody takes what is in it until then. */
	if (f->typed ? (events & EPOLLHUP) && f->first < f->end : events & EPOLLERR)
		stdin_closed(f);
	stdin_push(f);
}

void stdin_stop(struct stdin_pipe *f)
{
	if (!f->active)
		return;
	loop_close(f->loop, &f->src);
	f->active = false;
}

/* @fd is written to. */
static int begin(struct stdin_pipe *f, uint32_t run, int fd, bool typed)
{
	int r;

	f->src = (struct loop_source){.fd = fd, .ready = on_stdin_ready};
	f->run = run;
	f->active = true;
	f->typed = typed;
	f->eof = f->closed = false;
	f->first = f->end = 0;
	f->granted = 0;
	f->consumed = STDIN_WINDOW;
	stdin_grant(f);
	r = loop_watch(f->loop, &f->src, WATCH_END);
	if (r < 0)
		stdin_stop(f);
	return r;
}

int stdin_start(struct stdin_pipe *f, uint32_t run, const struct guest_env *env, int *ret_fd)
{
	int fds[2];
	int r = pipe_make(env, 1, fds);

	if (r < 0)
		return r;
	r = begin(f, run, fds[1], false);
	if (r < 0)
		close(fds[0]);
	else
		*ret_fd = fds[0];
	return r;
}

int stdin_type(struct stdin_pipe *f, uint32_t run, int fd)
{
	return begin(f, run, fd, true);
}

int stdin_frame(struct stdin_pipe *f, struct proto_str data, bool eof)
{
	if (!f->active)
		return 0; /* it came after the end of the run */
	if (f->eof || data.len > f->granted)
		return -EPROTO;
	f->granted -= data.len;
	f->eof = eof;
	if (f->closed)
		return 0;
	if (f->end + data.len > sizeof(f->data)) {
		memmove(f->data, f->data + f->first, f->end - f->first);
		f->end -= f->first;
		f->first = 0;
	}
	memcpy(f->data + f->end, data.data, data.len);
	f->end += data.len;
	if (eof && f->typed && f->end < sizeof(f->data))
		f->data[f->end++] = CEOF;
	stdin_push(f);
	return 0;
}
