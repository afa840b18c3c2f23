/* SPDX-License-Identifier: Apache-2.0 */
/* A holder of locks: what he has in the kernel, by an open file of his own, and the same in the book. */
#ifndef XSBX_AGENT_FILES_HOLDER_H
#define XSBX_AGENT_FILES_HOLDER_H

#include <fcntl.h>
#include <stdint.h>

#include "lockbook.h"

#define HOLDER_TO_THE_END ((uint64_t)INT64_MAX)

/* A range as fcntl(2) wants it. */
struct flock holder_range(enum proto_lock_type type, uint64_t start, uint64_t end);

/* In the kernel only, without waiting. Return: 0, -EAGAIN (of a range), -EWOULDBLOCK, or another -errno. */
int holder_set_range(int fd, enum proto_lock_type type, uint64_t start, uint64_t end);
int holder_set_whole(int fd, enum proto_lock_type type);

/**
 * holder_try() - Lock, unlock or convert without waiting, and keep the book
 * @book: Book
 * @h: Who is to have it
 * @ask: What is wanted
 * @spare: From lockbook_reserve(); used up on success
 *
 * Return: 0, -EAGAIN, or another -errno.
 */
int holder_try(struct lockbook *book, struct lock_holder *h, const struct lock_ask *ask,
	       struct lock_spare *spare);

/* The kernel is to have what the book says of the range that was asked for. */
void holder_settle(const struct lock_holder *h, const struct lock_ask *ask);

/* Forgets a holder that has nothing. */
void holder_tidy(struct lockbook *book, struct lock_holder *h);

#endif
