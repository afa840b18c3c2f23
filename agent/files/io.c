/* SPDX-License-Identifier: Apache-2.0 */
/* The file server's requests on open files and directories. */
#include "ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "vm/base/util.h"

/* The handle `id`, which must be an open file. */
static int find_file(const struct files *f, uint64_t id, const struct handle **ret_handle)
{
	const struct handle *h = handle_find(&f->table, id);

	if (!h)
		return -EBADF;
	if (h->dir)
		return -EISDIR;
	*ret_handle = h;
	return 0;
}

int files_read(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t handle = get_u64(in);
	uint64_t offset = get_u64(in);
	uint32_t size = get_u32(in);
	const struct handle *h;
	ssize_t n;
	int r;

	if (!get_end(in) || size > out->cap - out->len)
		return files_malformed(in);
	r = find_file(f, handle, &h);
	if (r < 0)
		return r;
	if (offset > INT64_MAX)
		return -EINVAL;
	n = pread(h->fd, out->data + out->len, size, (off_t)offset);
	if (n < 0)
		return -errno;
	out->len += (size_t)n;
	return 0;
}

int files_touch(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t node = get_u64(in);
	_cleanup_close_ int fd = -1;
	struct node *n;
	char byte;
	int r;

	(void)out;
	if (!get_end(in))
		return files_malformed(in);
	r = node_use(&f->table, node, &n);
	if (r < 0)
		return r;
	if (n->is.type != S_IFREG)
		return -EINVAL;
	fd = files_reopen(f, n, O_RDONLY);
	if (fd < 0)
		return fd;
	return pread(fd, &byte, 1, 0) < 0 ? -errno : 0;
}

int files_write(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t handle = get_u64(in);
	uint64_t offset = get_u64(in);
	struct proto_str data = get_rest(in);
	const struct handle *h;
	ssize_t n;
	int r;

	if (!get_end(in) || data.len > PROTO_DATA_MAX)
		return files_malformed(in);
	r = find_file(f, handle, &h);
	if (r < 0)
		return r;
	if (offset > INT64_MAX)
		return -EFBIG;
	n = pwrite(h->fd, data.data, data.len, (off_t)offset);
	if (n < 0)
		return -errno;
	put_u32(out, (uint32_t)n);
	return 0;
}

int files_release(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t handle = get_u64(in);

	(void)out;
	if (!get_end(in))
		return files_malformed(in);
	locks_release(&f->locks, handle);
	handle_free(&f->table, handle);
	return 0;
}

int files_fsync(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t handle = get_u64(in);
	const struct handle *h;

	(void)out;
	if (!get_end(in))
		return files_malformed(in);
	h = handle_find(&f->table, handle);
	if (!h)
		return -EBADF;
	return fsync(h->fd) < 0 ? -errno : 0;
}

int files_fallocate(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t handle = get_u64(in);
	uint32_t mode = get_u32(in);
	uint64_t offset = get_u64(in);
	uint64_t length = get_u64(in);
	const struct handle *h;
	int r;

	(void)out;
	if (!get_end(in))
		return files_malformed(in);
	r = find_file(f, handle, &h);
	if (r < 0)
		return r;
	if (offset > INT64_MAX || length > INT64_MAX)
		return -EFBIG;
	if (mode & ~(uint32_t)(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP;
	r = fallocate(h->fd, (int)mode, (off_t)offset, (off_t)length);
	return r < 0 ? -errno : 0;
}

int files_seek(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t handle = get_u64(in);
	uint64_t offset = get_u64(in);
	uint32_t whence = get_u32(in);
	const struct handle *h;
	off_t at;
	int r;

	if (!get_end(in))
		return files_malformed(in);
	r = find_file(f, handle, &h);
	if (r < 0)
		return r;
	if (offset > INT64_MAX || (whence != SEEK_DATA && whence != SEEK_HOLE))
		return -EINVAL;
	at = lseek(h->fd, (off_t)offset, (int)whence);
	if (at < 0)
		return -errno;
	put_u64(out, (uint64_t)at);
	return 0;
}

/* Fills the buffer of a directory. Return: 1, 0 at the end, or -errno. */
static int dir_fill(const struct handle *h)
{
	struct dir_buf *b = h->dir;
	ssize_t n = getdents64(h->fd, b->data, sizeof(b->data));

	if (n < 0)
		return -errno;
	b->first = 0;
	b->end = (size_t)n;
	return n > 0;
}

/* What an entry takes where the host hands it on, as struct fuse_dirent: more than here. */
static size_t dir_room(const char *name)
{
	return (24 + strlen(name) + 7) & ~(size_t)7;
}

/* Packs the buffered entry, and takes what it needs from @room. Return: false if it has no room. "." and
 * ".." are skipped: the host knows them, and the parent of the working directory is none of its business. */
static bool dir_put(const struct files *f, int dir, const struct dirent64 *d, size_t *room,
		    struct proto_out *out)
{
	struct proto_dirent e = {.ino = number_of(&f->numbers, d->d_ino),
				 .next = (uint64_t)d->d_off,
				 .type = (uint32_t)DTTOIF(d->d_type),
				 .name = proto_cstr(d->d_name)};
	struct stat st;

	if (!proto_name_ok(e.name))
		return true;
	if (d->d_type == DT_UNKNOWN) { /* some file systems below an overlay do not say */
		if (fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return true; /* gone */
		e.type = st.st_mode & S_IFMT;
	}
	if (dir_room(d->d_name) > *room || !proto_dirent_pack(out, &e))
		return false;
	*room -= dir_room(d->d_name);
	return true;
}

int files_readdir(struct files *f, struct proto_in *in, struct proto_out *out)
{
	uint64_t handle = get_u64(in);
	uint64_t offset = get_u64(in);
	uint32_t size = get_u32(in);
	const struct handle *h;
	struct dir_buf *b;
	size_t room = size;
	int r = 1;

	if (!get_end(in) || size > out->cap - out->len)
		return files_malformed(in);
	h = handle_find(&f->table, handle);
	if (!h || !h->dir)
		return h ? -ENOTDIR : -EBADF;
	b = h->dir;
	/* Going on where the last request ended must not seek: in a tmpfs an offset is a count of
	 * entries, and would skip some if earlier ones were removed since. */
	if (offset != b->next || offset == 0) {
		if (offset > INT64_MAX || lseek(h->fd, (off_t)offset, SEEK_SET) < 0)
			return -EINVAL;
		b->first = b->end = 0;
		b->next = offset;
	}
	out->cap = out->len + size;
	for (;;) {
		const struct dirent64 *d = (const void *)(b->data + b->first);

		if (b->first == b->end) {
			r = dir_fill(h);
			if (r <= 0)
				return r;
			continue;
		}
		/* An answer without entries would say "the end". */
		if (!dir_put(f, h->fd, d, &room, out))
			return out->len > sizeof(uint32_t) ? 0 : -EINVAL;
		b->next = (uint64_t)d->d_off;
		b->first += d->d_reclen;
	}
}

int files_statfs(struct files *f, struct proto_in *in, struct proto_out *out)
{
	struct statfs st;

	if (!get_end(in))
		return files_malformed(in);
	if (fstatfs(f->root_fd, &st) < 0)
		return -errno;
	put_u64(out, (uint64_t)st.f_bsize);
	put_u64(out, st.f_blocks);
	put_u64(out, st.f_bavail);
	put_u64(out, st.f_files);
	put_u64(out, st.f_ffree);
	return 0;
}
