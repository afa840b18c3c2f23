/* SPDX-License-Identifier: Apache-2.0 */
/* A program that runs in the background for the daemon, and its output. */
#include "program.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "vm/base/util.h"
#include "vm/base/lines.h"
#include "wire.h"

/* The child is gone, the reader or the timer closed. */
static void part_gone(struct program *p)
{
	if (--p->nopen)
		return;
	if (p->child.ended) /* what its owner does about that comes before the next record */
		child_acknowledge(p->child.spawner, p->child.id);
	p->output[p->len] = '\0';
	p->over(p);
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
	struct program *p = r->data;

	if (p->bytes) {
		p->bytes(p, bytes, len);
		return;
	}
	if (p->lines) {
		lines_add(p->lines, bytes, len);
		return;
	}
	len = MIN(len, sizeof(p->output) - 1 - p->len);
	memcpy(p->output + p->len, bytes, len);
	p->len += len;
}

static void child_over(struct program *p)
{
	if (p->exited)
		p->exited(p);
	/* What it wrote before it ended is in the pipe. */
	if (p->reader.open && !p->failed)
		reader_drain(&p->reader);
	reader_close(&p->reader);
	if (p->limit_ms)
		uv_close((uv_handle_t *)&p->timer, on_timer_closed);
	part_gone(p);
}

static void on_started(struct child *c)
{
	struct program *p = c->data;

	if (p->started)
		p->started(p);
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct program *p = c->data;

	p->failed = err;
	snprintf(p->step, sizeof(p->step), "%s", step);
	child_over(p);
}

static void on_exited(struct child *c, int status)
{
	struct program *p = c->data;

	p->status = status;
	child_over(p);
}

static void on_timer(uv_timer_t *timer)
{
	struct program *p = timer->data;

	p->late = true;
	child_kill(&p->child);
}

void program_prepare(struct program *p)
{
	p->child = (struct child){.lingers = true,
				  .label = p->label,
				  .started = on_started,
				  .failed = on_failed,
				  .exited = on_exited,
				  .data = p};
	p->reader = (struct reader){.bytes = on_bytes, .closed = on_reader_closed, .data = p};
}

void program_listen(struct program *p, uv_loop_t *loop, int output)
{
	p->nopen = 1;
	/* Without a reader the program has nobody to tell, and still works. */
	if (output >= 0 && reader_open(&p->reader, loop, output) == 0)
		p->nopen++;
}

int program_start(struct program *p, uv_loop_t *loop, struct spawner *sp, const void *request,
		  size_t size)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int pair[2], fds[SPAWN_FDS_MAX], near[SPAWN_FDS_MAX], r;
	const size_t nnear = p->nnear ? p->nnear + 1 : 0;
	const struct spawn_spec spec = {request, size, fds, p->nfds + 1, near, nnear};

	assert(spec.nfds <= SPAWN_FDS_MAX && nnear <= SPAWN_FDS_MAX);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	for (size_t i = 0; i < p->nfds; i++)
		fds[i] = p->fds[i];
	fds[p->nfds] = theirs;
	for (size_t i = 0; i < p->nnear; i++)
		near[i] = p->near[i];
	if (nnear)
		near[p->nnear] = ours;
	program_prepare(p);
	r = child_start(sp, &spec, &p->child);
	if (r < 0)
		return r;
	program_listen(p, loop, steal_fd(&ours));
	if (p->limit_ms) {
		p->nopen++;
		p->timer.data = p;
		uv_timer_init(loop, &p->timer);
		uv_timer_start(&p->timer, on_timer, p->limit_ms, 0);
	}
	return 0;
}
