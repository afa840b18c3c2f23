/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says for people: told line by line, and the last of it kept. */
#ifndef XSBX_VM_BASE_LINES_H
#define XSBX_VM_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define LINES_MAX 160u

/* The last bytes of a stream, to be quoted when something went wrong. All zeroes is empty and valid. */
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

/*
 * Embedded by its owner, who sets `line`, or leaves it NULL, and `data`, and zeroes the rest for each new speaker.
 *
 * - `line` is called once for each line, also for an empty one, from lines_add() or lines_end().
 * - Its text is terminated, may be altered, and is only valid during the call. What is not printable ASCII is
 *   left out of it, and so is what there is no room for.
 */
struct lines {
	struct tail said;
	char text[LINES_MAX];
	size_t len; /* of the line that is not at its end yet */
	void (*line)(struct lines *w, char *text);
	void *data;
};

void lines_add(struct lines *w, const void *bytes, size_t len);

/* Nothing follows: what is left without a line's end is a line, too. */
void lines_end(struct lines *w);

#endif
