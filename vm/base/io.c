/* SPDX-License-Identifier: Apache-2.0 */
/* Complete reads and writes. */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

int fileio_open(int dir, const char *name)
{
	_cleanup_close_ int fd =
		openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return errno == ELOOP || errno == ENXIO ? -EBADMSG : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? steal_fd(&fd) : -EBADMSG;
}

DIR *fileio_list(int dir, const char *name)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d)
		(void)steal_fd(&fd);
	return d;
}

struct fileio_identity fileio_identity(const struct stat *st)
{
	return (struct fileio_identity){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime = st->st_mtim,
		.ctime = st->st_ctim,
	};
}

bool fileio_same(const struct fileio_identity *a, const struct fileio_identity *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       time_compare(&a->mtime, &b->mtime) == 0 && time_compare(&a->ctime, &b->ctime) == 0;
}

bool fileio_is_at(int fd, int dir, const char *name)
{
	struct stat opened, named;

	return fstat(fd, &opened) == 0 && fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

int fileio_lock(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	return fileio_is_at(fd, AT_FDCWD, path) ? steal_fd(&fd) : -EAGAIN;
}

/* @at: NULL for where the descriptor stands. */
static ssize_t once(int fd, char *buf, size_t len, const off_t *at, bool writes)
{
	if (writes)
		return at ? pwrite(fd, buf, len, *at) : write(fd, buf, len);
	return at ? pread(fd, buf, len, *at) : read(fd, buf, len);
}

static int all(int fd, char *buf, size_t len, off_t *at, bool writes)
{
	while (len) {
		const ssize_t n = once(fd, buf, len, at, writes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : writes ? -EIO : -EBADMSG;
		buf += n;
		len -= (size_t)n;
		if (at)
			*at += n;
	}
	return 0;
}

int fileio_read(int fd, void *buf, size_t len)
{
	return all(fd, buf, len, NULL, false);
}

int fileio_read_at(int fd, void *buf, size_t len, off_t at)
{
	return all(fd, buf, len, &at, false);
}

int fileio_write(int fd, const void *buf, size_t len)
{
	return all(fd, (char *)buf, len, NULL, true);
}

int fileio_write_at(int fd, const void *buf, size_t len, off_t at)
{
	return all(fd, (char *)buf, len, &at, true);
}
