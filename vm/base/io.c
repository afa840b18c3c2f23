/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes that are done when all of it is done. */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
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

/* @at: NULL for where the descriptor stands. */
static int read_all(int fd, char *buf, size_t len, off_t *at)
{
	while (len) {
		const ssize_t n = at ? pread(fd, buf, len, *at) : read(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		buf += n;
		len -= (size_t)n;
		if (at)
			*at += n;
	}
	return 0;
}

static int write_all(int fd, const char *buf, size_t len, off_t *at)
{
	while (len) {
		const ssize_t n = at ? pwrite(fd, buf, len, *at) : write(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buf += n;
		len -= (size_t)n;
		if (at)
			*at += n;
	}
	return 0;
}

int fileio_read(int fd, void *buf, size_t len)
{
	return read_all(fd, buf, len, NULL);
}

int fileio_read_at(int fd, void *buf, size_t len, off_t at)
{
	return read_all(fd, buf, len, &at);
}

int fileio_write(int fd, const void *buf, size_t len)
{
	return write_all(fd, buf, len, NULL);
}

int fileio_write_at(int fd, const void *buf, size_t len, off_t at)
{
	return write_all(fd, buf, len, &at);
}
