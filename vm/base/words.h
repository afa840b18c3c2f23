/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says for people: told line by line, and the last of it kept. */
#ifndef XSBX_VM_BASE_WORDS_H
#define XSBX_VM_BASE_WORDS_H

#include <stddef.h>

#include "tail.h"

#define WORDS_LINE 160u

/*
 * Embedded by its owner, who sets `line` and `data`, and zeroes the rest for each new speaker.
 *
 * - `line` is called once for each line, also for an empty one, from words_add() or words_end().
 * - Its text is terminated, may be altered, and is only valid during the call. What is not printable ASCII is
 *   left out of it, and so is what there is no room for.
 */
struct words {
	struct tail said;
	char text[WORDS_LINE];
	size_t len; /* of the line that is not at its end yet */
	void (*line)(struct words *w, char *text);
	void *data;
};

void words_add(struct words *w, const void *bytes, size_t len);

/* Nothing follows: what is left without a line's end is a line, too. */
void words_end(struct words *w);

#endif
