/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that records speak of by number. */
#ifndef XSBX_VM_BASE_FDBAG_H
#define XSBX_VM_BASE_FDBAG_H

#include <stdbool.h>
#include <stddef.h>

#define FDBAG_MAX 65536u

/*
 * Zeroed at first. Whoever writes records puts in what the other process is to have, and writes the
 * number; whoever reads them takes it out. Each can be taken once: a number that comes twice is
 * nothing, the second time.
 */
struct fdbag {
	int *fd; /* -1: taken */
	size_t n, cap;
	bool failed; /* something found no room */
	bool owned;  /* by the bag; else they are lent to it */
	/* Or NULL. Where descriptors have numbers of their own, as by lent_put(): the bag only asks
	 * for them. 0: it has failed. */
	unsigned (*number)(int fd);
};

/* Lends it a descriptor. Return: its number, from 1; 0 for -1, or if there is no room, see `failed`. */
unsigned fdbag_put(struct fdbag *b, int fd);

/* Return: a descriptor, which is the caller's then, or -1. */
int fdbag_take(struct fdbag *b, unsigned number);

/* Puts one in by its number, for fdbag_take(): @bag is a struct fdbag, and owns it. Return: 0;
 * -EBADMSG, -ENOMEM: it was closed. */
int fdbag_set(void *bag, unsigned number, int fd);

/* Closes what is its own. */
void fdbag_clear(struct fdbag *b);

#endif
