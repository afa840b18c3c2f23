/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of words: separated by blanks and newlines; # starts a comment that ends with the line. */
#include "words.h"

#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool words_next(struct words *words, struct word *ret_word)
{
	size_t i = 0, begin;

	while (i < words->len && (is_blank(words->text[i]) || words->text[i] == '#')) {
		if (words->text[i] == '#')
			while (i < words->len && words->text[i] != '\n')
				i++;
		else
			i++;
	}
	begin = i;
	while (i < words->len && !is_blank(words->text[i]) && words->text[i] != '#')
		i++;
	*ret_word = (struct word){.text = words->text + begin, .len = i - begin};
	words->text += i;
	words->len -= i;
	return ret_word->len > 0;
}

size_t words_count(const struct words *words)
{
	struct words rest = *words;
	struct word word;
	size_t n = 0;

	while (words_next(&rest, &word))
		n++;
	return n;
}

bool word_is(const struct word *word, const char *text)
{
	return word->len == strlen(text) && !memcmp(word->text, text, word->len);
}
