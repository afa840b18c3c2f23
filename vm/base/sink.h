/* SPDX-License-Identifier: Apache-2.0 */
/* Where bytes go, and where they come from, for code that need not know. */
#ifndef XSBX_VM_BASE_SINK_H
#define XSBX_VM_BASE_SINK_H

#include <stddef.h>
#include <sys/types.h>

/* Embedded by who takes bytes. */
struct sink {
	/* Takes all of them. Return: 0 or -errno. */
	int (*write)(struct sink *s, const void *data, size_t len);
};

/* Embedded by who gives them. */
struct source {
	/* Return: bytes, fewer than @len only at the end; or -errno. */
	ssize_t (*read)(struct source *s, void *buf, size_t len);
};

/* Reads exactly @len bytes. Return: 0, -EBADMSG if there are fewer, or -errno. */
int source_read(struct source *s, void *buf, size_t len);

/* A file, from where its descriptor stands; which stays the caller's. */
struct file_sink {
	struct sink sink;
	int fd;
};

struct file_source {
	struct source source;
	int fd;
};

struct file_sink file_sink(int fd);
struct file_source file_source(int fd);

/* Memory, which stays the caller's. */
struct byte_source {
	struct source source;
	const char *at;
	size_t len;
};

struct byte_source byte_source(const void *data, size_t len);

#endif
