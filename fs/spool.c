/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that only grow: small ones in memory, more in an unnamed file on disk. */
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../vm/fileio.h"

void spool_init(struct spool *sp)
{
	*sp = (struct spool){.fd = -1};
}

void spool_fini(struct spool *sp)
{
	buf_clear(&sp->mem);
	if (sp->fd >= 0)
		close(sp->fd);
	spool_init(sp);
}

/* A file without a name: it is gone with its descriptor, whatever happens. Not every file system can make
 * one; there it loses its name at once. Return: descriptor or -errno. */
static int unnamed_file(int dirfd)
{
	static unsigned counter;
	char name[48];
	int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return -errno;
	snprintf(name, sizeof(name), ".spool-%d-%u", (int)getpid(), counter++);
	fd = openat(dirfd, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	(void)unlinkat(dirfd, name, 0);
	return fd;
}

/* Moves what is in memory into a file. */
static int spill(struct spool *sp, int dirfd)
{
	_cleanup_close_ int fd = unnamed_file(dirfd);
	int r;

	if (fd < 0)
		return fd;
	r = fileio_write(fd, sp->mem.data, sp->mem.len);
	if (r < 0)
		return r;
	buf_clear(&sp->mem);
	sp->fd = steal_fd(&fd);
	return 0;
}

int spool_append(struct spool *sp, int dirfd, const void *data, size_t len)
{
	int r = sp->err;

	if (r < 0)
		return r;
	if (sp->fd < 0 && sp->len + len > SPOOL_MEMORY)
		r = spill(sp, dirfd);
	if (r == 0)
		r = sp->fd >= 0 ? fileio_write_at(sp->fd, data, len, (off_t)sp->len)
				: buf_append(&sp->mem, data, len);
	if (r < 0) {
		sp->err = r;
		return r;
	}
	sp->len += len;
	return 0;
}

int spool_copy(struct spool *dst, const struct spool *src, int dirfd)
{
	off_t from = 0, to = 0;
	int r;

	if (src->fd < 0)
		return spool_append(dst, dirfd, src->mem.data, src->mem.len);

	r = spill(dst, dirfd);
	while (r == 0 && (uint64_t)from < src->len) {
		ssize_t n = copy_file_range(src->fd, &from, dst->fd, &to,
					    (size_t)(src->len - (uint64_t)from), 0);

		if (n < 0)
			r = -errno;
		else if (n == 0)
			r = -EIO;
	}
	if (r < 0) {
		dst->err = r;
		return r;
	}
	dst->len = src->len;
	return 0;
}

ssize_t spool_read(const struct spool *sp, uint64_t offset, void *data, size_t len)
{
	ssize_t n;

	if (offset >= sp->len)
		return 0;
	len = (size_t)MIN((uint64_t)len, sp->len - offset);
	if (sp->fd < 0) {
		memcpy(data, sp->mem.data + offset, len);
		return (ssize_t)len;
	}
	do
		n = pread(sp->fd, data, len, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}
