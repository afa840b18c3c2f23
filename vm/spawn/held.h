/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of the daemon's that the spawner keeps as well, so that their end is not the
 * daemon's. */
#ifndef XSBX_VM_SPAWN_HELD_H
#define XSBX_VM_SPAWN_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum held_kind {
	HELD_CONNECTION, /* of the mount to the kernel: /dev/fuse */
	HELD_ENDS,	 /* the daemon's of what it shares with the child of this id */
	HELD_NKINDS,
};

/* Zeroed at first. Never what a child has: one could not see its end. And no file, such as that of
 * long outputs: each child closes what is here, which waits for a disk that does not answer. */
struct held {
	struct held_fd {
		enum held_kind kind;
		uint32_t id; /* among those of its kind */
		int fd;
	} * item;
	size_t n, cap;
};

/**
 * held_add() - Keep a descriptor
 * @h: Table
 * @kind: What it is
 * @id: Whose; there may be several of one id
 * @fd: Descriptor, owned by the table, or closed on failure
 *
 * Return: 0, -EBADF for -1, -EMFILE if there are too many, or -ENOMEM.
 */
int held_add(struct held *h, enum held_kind kind, uint32_t id, int fd);

/* Return: the first of this kind, or -1. */
int held_find(const struct held *h, enum held_kind kind);

/* Closes those of this kind that are not needed. */
void held_sift(struct held *h, enum held_kind kind, bool (*needed)(const void *data, uint32_t id),
	       const void *data);

/* Closes those of this kind and id. */
void held_drop(struct held *h, enum held_kind kind, uint32_t id);

/* In a child, which may hang for long before its exec: closes all. */
void held_leave(const struct held *h);

#endif
