/* SPDX-License-Identifier: Apache-2.0 */
/* Sinks and sources that are files, and sources that are in memory. See sink.h. */
#include "sink.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "util.h"

int source_read(struct source *s, void *buf, size_t len)
{
	const ssize_t n = s->read(s, buf, len);

	return n < 0 ? (int)n : (size_t)n == len ? 0 : -EBADMSG;
}

static int write_file(struct sink *s, const void *data, size_t len)
{
	return fileio_write(container_of(s, struct file_sink, sink)->fd, data, len);
}

static ssize_t read_file(struct source *s, void *buf, size_t len)
{
	const int fd = container_of(s, struct file_source, source)->fd;
	size_t done = 0;

	while (done < len) {
		const ssize_t n = read(fd, (char *)buf + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

struct file_sink file_sink(int fd)
{
	return (struct file_sink){.sink = {write_file}, .fd = fd};
}

struct file_source file_source(int fd)
{
	return (struct file_source){.source = {read_file}, .fd = fd};
}

static ssize_t read_bytes(struct source *s, void *buf, size_t len)
{
	struct byte_source *b = container_of(s, struct byte_source, source);

	len = MIN(len, b->len);
	if (len)
		memcpy(buf, b->at, len);
	b->at += len;
	b->len -= len;
	return (ssize_t)len;
}

struct byte_source byte_source(const void *data, size_t len)
{
	return (struct byte_source){.source = {read_bytes}, .at = data, .len = len};
}
