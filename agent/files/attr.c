/* SPDX-License-Identifier: Apache-2.0 */
/* The file server's requests on attributes. */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/base/util.h"

/* The descriptor to ask about a file: that of the handle if there is one, else of the node. */
static int either_fd(struct files *f, uint64_t node, uint64_t handle)
{
	const struct handle *h = handle ? handle_find(&f->table, handle) : NULL;
	struct node *n;
	int r;

	if (h)
		return h->fd;
	r = node_use(&f->table, node, &n);
	return r < 0 ? r : n->fd;
}

int files_getattr(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t node = get_u64(in);
	uint64_t handle = get_u64(in);
	struct proto_attr a;
	int fd, r;

	if (!get_end(in))
		return files_malformed(in);
	fd = either_fd(f, node, handle);
	if (fd < 0)
		return fd;
	r = files_attr(f, fd, &a);
	if (r < 0)
		return r;
	proto_attr_pack(out, &a);
	return 0;
}

int files_origin(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t node = get_u64(in);
	char text[PROTO_ORIGIN_MAX + 1];
	struct stat st;
	struct node *n;
	size_t len;
	int r;

	if (!get_end(in))
		return files_malformed(in);
	r = node_use(&f->table, node, &n);
	if (r == 0 && fstat(n->fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return r;
	len = origin_of(&f->origin, &st, text);
	put_str(out, (struct proto_str){text, (uint32_t)len});
	return 0;
}

static int set_size(const struct files *f, const struct node *n, uint64_t handle, uint64_t size)
{
	const struct handle *h = handle ? handle_find(&f->table, handle) : NULL;
	_cleanup_close_ int fd = -1;

	if (size > INT64_MAX)
		return -EFBIG;
	if (h && !h->dir && ftruncate(h->fd, (off_t)size) == 0)
		return 0;
	fd = files_reopen(f, n, O_WRONLY);
	if (fd < 0)
		return fd;
	return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

static int set_times(const struct files *f, const struct node *n, const struct proto_setattr *s)
{
	struct timespec ts[2] = {{s->atime, s->atime_ns}, {s->mtime, s->mtime_ns}};

	if (s->atime_ns > 999999999 || s->mtime_ns > 999999999)
		return -EINVAL;
	if (!(s->valid & PROTO_SET_ATIME))
		ts[0].tv_nsec = UTIME_OMIT;
	if (!(s->valid & PROTO_SET_MTIME))
		ts[1].tv_nsec = UTIME_OMIT;
	if (s->valid & PROTO_SET_ATIME_NOW)
		ts[0].tv_nsec = UTIME_NOW;
	if (s->valid & PROTO_SET_MTIME_NOW)
		ts[1].tv_nsec = UTIME_NOW;
	return utimensat(f->proc_fd, files_fd_name(n->fd).text, ts, 0) < 0 ? -errno : 0;
}

int files_setattr(struct files *f, struct proto_in *in, struct proto_out *out)
{
	const uint32_t times =
		PROTO_SET_ATIME | PROTO_SET_MTIME | PROTO_SET_ATIME_NOW | PROTO_SET_MTIME_NOW;
	struct origin_held held = {0};
	struct proto_setattr s;
	struct proto_attr a;
	struct stat st;
	struct node *n;
	int r;

	if (proto_setattr_unpack(in, &s) < 0)
		return files_malformed(in);
	r = node_use(&f->table, s.node, &n);
	if (r == 0 && fstat(n->fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return r;
	if (!(s.valid & PROTO_SET_SIZE))
		held = origin_hold(&f->origin, &st);
	if ((s.valid & PROTO_SET_MODE) &&
	    fchmodat(f->proc_fd, files_fd_name(n->fd).text, s.mode & FILES_MODE_MASK, 0) < 0)
		return -errno;
	if (s.valid & PROTO_SET_SIZE)
		r = set_size(f, n, s.handle, s.size);
	if (r == 0 && (s.valid & times))
		r = set_times(f, n, &s);
	if (r == 0 && fstat(n->fd, &st) == 0)
		origin_keep(&f->origin, held, &st);
	if (r == 0)
		r = files_attr(f, n->fd, &a);
	if (r < 0)
		return r;
	proto_attr_pack(out, &a);
	return 0;
}
