/* SPDX-License-Identifier: Apache-2.0 */
/* A program that works for the daemon in the background. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>

#include "vm/base/util.h"
#include "vm/base/words.h"

static void part_gone(struct tool *t)
{
	if (--t->nopen == 0)
		t->over(t);
}

static void on_bytes(struct reader *r, const void *bytes, size_t len)
{
	struct tool *t = r->data;

	words_add(t->words, bytes, len);
}

static void on_reader_closed(struct reader *r)
{
	part_gone(r->data);
}

static void child_over(struct tool *t)
{
	/* What it wrote before it ended is in the pipe. */
	if (t->reader.open && !t->failed)
		reader_drain(&t->reader);
	reader_close(&t->reader);
	part_gone(t);
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct tool *t = c->data;

	(void)step;
	t->failed = err;
	child_over(t);
}

static void on_exited(struct child *c, int status)
{
	struct tool *t = c->data;

	t->status = status;
	child_over(t);
}

int tool_start(struct tool *t, uv_loop_t *loop, struct spawner *sp, const void *request,
	       size_t size)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int p[2], r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	ours = p[0];
	theirs = p[1];
	t->child = (struct child){.failed = on_failed, .exited = on_exited, .data = t};
	t->reader = (struct reader){.bytes = on_bytes, .closed = on_reader_closed, .data = t};

	const struct spawn_spec spec = {request, size, &theirs, 1};

	r = child_start(sp, &spec, &t->child);
	if (r < 0)
		return r;
	/* Without a reader the program has nobody to tell, and still works. */
	(void)reader_open(&t->reader, loop, steal_fd(&ours));
	t->nopen = t->reader.open ? 2 : 1;
	return 0;
}
