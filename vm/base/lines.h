/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a program: split into lines, and the last bytes kept. */
#ifndef XSBX_VM_BASE_LINES_H
#define XSBX_VM_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define LINES_MAX 160u

/* The last bytes of a stream, to be quoted in errors. All zeroes is empty and valid. */
#define TAIL_SIZE 4096u
struct tail {
	size_t total; /* bytes ever added */
	char bytes[TAIL_SIZE];
};

void tail_add(struct tail *t, const void *bytes, size_t len);

/* The bytes that were kept, in their order. Return: how many. */
size_t tail_copy(const struct tail *t, char out[TAIL_SIZE + 1]);

/**
 * tail_quote() - The end of the stream, fit for one line of text
 * @t: Tail
 * @from: If the tail contains this, the quote starts there and is truncated at its end; else, or if
 *	  NULL, it is truncated at its beginning
 * @out: Terminated result: newlines become " / ", other control bytes are dropped
 * @size: Size of @out
 *
 * Return: @out.
 */
const char *tail_quote(const struct tail *t, const char *from, char *out, size_t size);

/* Do the last bytes contain @word? */
bool tail_contains(const struct tail *t, const char *word);

/*
 * Embedded by its owner, who sets `line` (or leaves it NULL) and `data`, and zeroes the rest for
 * each new program.
 *
 * - `line` is called once for each line, even an empty one, from lines_add() or lines_end().
 * - Its text is terminated, may be modified, and is only valid during the call. Anything but
 *   printable ASCII is dropped, and so is what does not fit.
 */
struct lines {
	struct tail said;
	char text[LINES_MAX];
	size_t len; /* of the incomplete line */
	void (*line)(struct lines *w, char *text);
	void *data;
};

void lines_add(struct lines *w, const void *bytes, size_t len);

/* End of the stream: an incomplete line counts as a line, too. */
void lines_end(struct lines *w);

#endif
