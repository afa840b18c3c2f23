/* SPDX-License-Identifier: Apache-2.0 */
/* Open scratch files. */
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>

#include "fs/session/fs.h"
#include "fs/session/session.h"

static int scratch_open(struct handle *h)
{
	struct scratch_file *f = scratch_by_id(h->s, (uint32_t)h->ino);

	if (!f)
		return -ESTALE;
	f->opens++;
	if (h->flags & O_TRUNC) {
		buf_clear(&f->data);
		f->mtime = clock_now();
	}
	return 0;
}

/* An open handle keeps its file. */
static struct scratch_file *file_of(struct handle *h)
{
	return scratch_by_id(h->s, (uint32_t)h->ino);
}

static void scratch_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
			 bool nonblock)
{
	(void)nonblock;
	text_reply(req, &file_of(h)->data, size, offset);
}

static int scratch_write(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	struct scratch_file *f = file_of(h);
	int e = scratch_may_grow(h->s, f, MIN(offset, (uint64_t)f->data.limit) + size);

	if (e < 0)
		return e;
	f->mtime = clock_now();
	return buf_write_at(&f->data, offset, data, size);
}

static int scratch_truncate(struct handle *h, uint64_t size)
{
	return scratch_resize(h->s, file_of(h), size);
}

static void scratch_release(struct handle *h)
{
	scratch_close(h->s, file_of(h));
}

const struct handle_ops scratch_ops = {
	.open = scratch_open,
	.read = scratch_read,
	.write = scratch_write,
	.truncate = scratch_truncate,
	.release = scratch_release,
};
