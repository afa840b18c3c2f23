/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes that are done when all of it is done. */
#include "fileio.h"

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

int fileio_read(int fd, void *buf, size_t len)
{
	while (len) {
		const ssize_t n = read(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		buf = (char *)buf + n;
		len -= (size_t)n;
	}
	return 0;
}

int fileio_read_at(int fd, void *buf, size_t len, off_t at)
{
	while (len) {
		const ssize_t n = pread(fd, buf, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		buf = (char *)buf + n;
		len -= (size_t)n;
		at += n;
	}
	return 0;
}

int fileio_write(int fd, const void *buf, size_t len)
{
	while (len) {
		const ssize_t n = write(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buf = (const char *)buf + n;
		len -= (size_t)n;
	}
	return 0;
}

int fileio_write_at(int fd, const void *buf, size_t len, off_t at)
{
	while (len) {
		const ssize_t n = pwrite(fd, buf, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buf = (const char *)buf + n;
		len -= (size_t)n;
		at += n;
	}
	return 0;
}
