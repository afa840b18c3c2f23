/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program through the spawner and keeps the first bytes it prints. */
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "vm/base/util.h"

/* The child is gone, the reader or the timer closed. */
static void part_gone(struct capture *c)
{
	if (--c->nopen)
		return;
	c->output[c->len] = '\0';
	c->done(c);
}

static void on_timer_closed(uv_handle_t *handle)
{
	part_gone(handle->data);
}

static void on_reader_closed(struct reader *r)
{
	part_gone(r->data);
}

static void on_bytes(struct reader *r, const void *bytes, size_t len)
{
	struct capture *c = r->data;
	const size_t room = sizeof(c->output) - 1 - c->len;

	len = MIN(len, room);
	memcpy(c->output + c->len, bytes, len);
	c->len += len;
}

static void child_over(struct capture *c)
{
	/* What it wrote before it ended is in the pipe. */
	if (c->reader.open && !c->failed)
		reader_drain(&c->reader);
	reader_close(&c->reader);
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
	part_gone(c);
}

static void on_failed(struct child *child, int err, const char *step)
{
	struct capture *c = child->data;

	(void)step;
	c->failed = err;
	child_over(c);
}

static void on_exited(struct child *child, int status)
{
	struct capture *c = child->data;

	c->status = status;
	child_over(c);
}

static void on_timer(uv_timer_t *timer)
{
	struct capture *c = timer->data;

	c->late = true;
	child_kill(&c->child);
}

int capture_start(struct capture *c, uv_loop_t *loop, struct spawner *sp, const void *request,
		  size_t size, unsigned ms, void (*done)(struct capture *c))
{
	_cleanup_close_ int theirs = -1;
	int p[2], r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	theirs = p[1];

	const struct spawn_spec spec = {request, size, &theirs, 1};

	c->child.data = c->reader.data = c->timer.data = c;
	c->child.failed = on_failed;
	c->child.exited = on_exited;
	c->reader.bytes = on_bytes;
	c->reader.closed = on_reader_closed;
	c->done = done;
	r = child_start(sp, &spec, &c->child);
	if (r < 0) {
		close(p[0]);
		return r;
	}
	c->nopen = 2;
	uv_timer_init(loop, &c->timer);
	uv_timer_start(&c->timer, on_timer, ms, 0);
	if (reader_open(&c->reader, loop, p[0]) == 0)
		c->nopen++;
	return 0;
}

void capture_kill(struct capture *c)
{
	child_kill(&c->child);
}
