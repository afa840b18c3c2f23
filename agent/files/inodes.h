/* SPDX-License-Identifier: Apache-2.0 */
/* A table of files, by which they are known again: a number for each. */
#ifndef XSBX_AGENT_FILES_INODES_H
#define XSBX_AGENT_FILES_INODES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct inode {
	dev_t dev;
	ino_t ino;
	uint64_t value; /* 0: the place is free */
};

/* Zeroed it is empty. */
struct inodes {
	struct inode *table; /* a hash table */
	size_t n, cap;
};

/* Return: what the file has in it, or 0. */
uint64_t inodes_get(const struct inodes *is, dev_t dev, ino_t ino);

/* @value: not 0; replaces what it had. Return: 0 or -ENOMEM. */
int inodes_set(struct inodes *is, dev_t dev, ino_t ino, uint64_t value);

/* Empties it, and gives its memory back. */
void inodes_clear(struct inodes *is);

#endif
