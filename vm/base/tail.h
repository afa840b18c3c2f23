/* SPDX-License-Identifier: Apache-2.0 */
/* The last bytes of a stream, to be quoted when something went wrong. */
#ifndef XSBX_VM_BASE_TAIL_H
#define XSBX_VM_BASE_TAIL_H

#include <stdbool.h>
#include <stddef.h>

/* All zeroes is empty and valid. */
#define TAIL_SIZE 4096u
struct tail {
	size_t total; /* bytes ever added */
	char bytes[TAIL_SIZE];
};

void tail_add(struct tail *t, const void *bytes, size_t len);

/**
 * tail_quote() - The end of the stream, fit for one line of text
 * @t: Tail
 * @from: If it has this, the quote begins there, and what is too long is cut at the end; else, or if
 *	  NULL, it is cut at the beginning
 * @out: Terminated result: line ends become " / ", other control bytes are left out
 * @size: Bytes at @out
 *
 * Return: @out.
 */
const char *tail_quote(const struct tail *t, const char *from, char *out, size_t size);

/* Is @word among the last bytes? */
bool tail_contains(const struct tail *t, const char *word);

#endif
