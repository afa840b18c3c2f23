/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input of a run. If a program closes it early, the rest is dropped, which is not an error. */
#include "stdin.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/output/pipe.h"
#include "agent/core/conn.h"
#include "agent/core/guest_env.h"
#include "agent/core/util.h"

static void stdin_grant(struct stdin_pipe *f)
{
	struct frame *frame;

	if (f->eof || !f->consumed)
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

/* Writes what there is. The pipe is watched only while it is full. */
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
		f->closed = true;
	if (f->closed) {
		f->consumed += (uint32_t)(f->end - f->first);
		f->first = f->end;
	}
	if (f->first == f->end)
		f->first = f->end = 0;
	if (f->closed || (f->eof && f->first == f->end))
		loop_close(f->loop, &f->src);
	else if (loop_watch(f->loop, &f->src, f->first < f->end ? EPOLLOUT : 0) < 0)
		f->closed = true;
	stdin_grant(f);
}

static void on_stdin_ready(struct loop_source *s, uint32_t events)
{
	(void)events;
	stdin_push(container_of(s, struct stdin_pipe, src));
}

int stdin_start(struct stdin_pipe *f, uint32_t run, const struct guest_env *env, int *ret_fd)
{
	int fds[2];
	int r = pipe_make(env, 1, fds);

	if (r < 0)
		return r;
	f->src = (struct loop_source){.fd = fds[1], .ready = on_stdin_ready};
	f->run = run;
	f->active = true;
	f->eof = f->closed = false;
	f->first = f->end = 0;
	f->granted = 0;
	f->consumed = STDIN_WINDOW;
	stdin_grant(f);
	*ret_fd = fds[0];
	return 0;
}

int stdin_frame(struct stdin_pipe *f, struct proto_str data, bool eof)
{
	if (!f->active)
		return 0; /* it came after the end of the run */
	if (f->eof || data.len > f->granted)
		return -EPROTO;
	f->granted -= data.len;
	f->eof = eof;
	if (f->end + data.len > sizeof(f->data)) {
		memmove(f->data, f->data + f->first, f->end - f->first);
		f->end -= f->first;
		f->first = 0;
	}
	memcpy(f->data + f->end, data.data, data.len);
	f->end += data.len;
	stdin_push(f);
	return 0;
}

void stdin_stop(struct stdin_pipe *f)
{
	if (!f->active)
		return;
	loop_close(f->loop, &f->src);
	f->active = false;
}
