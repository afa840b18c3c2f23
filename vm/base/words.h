/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of words: separated by blanks and newlines; # starts a comment that ends with the line. */
#ifndef XSBX_VM_BASE_WORDS_H
#define XSBX_VM_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* What is left of a text, which need not be terminated. */
struct words {
	const char *text;
	size_t len;
};

struct word {
	const char *text;
	size_t len;
};

/* The next word, taken off @words. Return: is there one? */
bool words_next(struct words *words, struct word *ret_word);

size_t words_count(const struct words *words);

bool word_is(const struct word *word, const char *text);

#endif
