/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the kernel that were not answered at once, as they came: for a daemon that takes the mount over. */
#ifndef XSBX_FS_FUSE_UNANSWERED_H
#define XSBX_FS_FUSE_UNANSWERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define UNANSWERED_BUCKETS 256u
#define UNANSWERED_SPARE   4u

/* One of them. */
struct unanswered_request {
	TAILQ_ENTRY(unanswered_request) link; /* in the order in which they came */
	LIST_ENTRY(unanswered_request) near;  /* of the same bucket */
	uint64_t unique;
	size_t len;
	char *data; /* which begins with a struct fuse_in_header */
};

/*
 * Short ones are copied. Of a long one the buffer is kept, in which it was received, and who receives gets another: there are
 * some to spare.
 */
struct unanswered {
	TAILQ_HEAD(unanswered_list, unanswered_request) list;
	LIST_HEAD(, unanswered_request) bucket[UNANSWERED_BUCKETS];
	size_t n;
	size_t size; /* of a buffer */
	char *spare[UNANSWERED_SPARE];
	unsigned nspare;
	bool lost; /* there was no memory for one: whoever waits for its answer must not be left alone */
};

/* @size: of the buffers that requests are received in. */
void unanswered_init(struct unanswered *u, size_t size);
void unanswered_fini(struct unanswered *u);

/* A request that is not answered yet, of @len bytes in *@buffer, which is replaced if it is kept. Return: 0; -ENOMEM: there is
 * no buffer any more to receive in. */
int unanswered_add(struct unanswered *u, uint64_t unique, char **buffer, size_t len);

/* It was answered, if it is one of them. */
void unanswered_drop(struct unanswered *u, uint64_t unique);

#endif
