/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a command, quoted as a shell would. See words.h. */
#include "words.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "vm/base/problem.h"

struct reader {
	const char *at, *end;
	struct buf *out;
	struct problem *why;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* One more character of the word. */
static int add(struct reader *r, char c)
{
	return buf_append(r->out, &c, 1);
}

static int unterminated(struct reader *r, char quote)
{
	return problem_set(r->why, PROBLEM_INVALID, "Quote as in a shell: 'a b' \"c d\" e\\ f.",
			   "a %c has no end", quote);
}

/* What a shell would not take as it is. */
static bool is_special(char c, bool first)
{
	return strchr("$`*?[|&;<>()", c) || (first && strchr("~#", c));
}

static int read_single(struct reader *r)
{
	const char *close = memchr(r->at, '\'', (size_t)(r->end - r->at));
	int e;

	if (!close)
		return unterminated(r, '\'');
	e = buf_append(r->out, r->at, (size_t)(close - r->at));
	r->at = close + 1;
	return e;
}

static int read_double(struct reader *r)
{
	int e = 0;

	while (e == 0 && r->at < r->end) {
		char c = *r->at++;

		if (c == '"')
			return 0;
		if (c == '\\' && r->at < r->end && strchr("$`\"\\\n", *r->at)) {
			c = *r->at++;
			if (c == '\n')
				continue;
		}
		e = add(r, c);
	}
	return e < 0 ? e : unterminated(r, '"');
}

/* Behind a backslash. */
static int read_escaped(struct reader *r)
{
	char c;

	if (r->at == r->end)
		return unterminated(r, '\\');
	c = *r->at++;
	return c == '\n' ? 0 : add(r, c);
}

static int read_plain(struct reader *r, char c, bool first)
{
	if (!is_special(c, first))
		return add(r, c);
	return problem_set(r->why, PROBLEM_INVALID,
			   "Put it in quotes; or write a script to `in`, which a shell executes.",
			   "%c has no meaning here, where no shell is", c);
}

/* Reads a word that begins here. */
static int read_word(struct reader *r)
{
	bool first = true;
	int e = 0;

	while (e == 0 && r->at < r->end && !is_blank(*r->at) && *r->at != '\n') {
		const char c = *r->at++;

		if (c == '\'')
			e = read_single(r);
		else if (c == '"')
			e = read_double(r);
		else if (c == '\\')
			e = read_escaped(r);
		else
			e = read_plain(r, c, first);
		first = false;
	}
	return e < 0 ? e : add(r, '\0');
}

int words_parse(const char *text, size_t len, struct buf *out, size_t *ret_len,
		struct problem *ret_why)
{
	struct reader r = {text, text + len, out, ret_why};
	int e = 0;

	while (e == 0) {
		while (r.at < r.end && is_blank(*r.at))
			r.at++;
		if (r.at == r.end || *r.at == '\n')
			break;
		if (*r.at == '\\' && r.at + 1 < r.end && r.at[1] == '\n')
			r.at += 2; /* the line goes on, no word begins */
		else
			e = read_word(&r);
	}
	*ret_len = (size_t)(r.at - text);
	return e;
}

/* Characters of words that need no quotes. */
static const char plain[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:,=+@%^{}!";

int words_quote(const char *word, struct buf *out)
{
	int e = buf_append(out, "'", 1);

	while (e == 0 && *word) {
		const size_t n = strcspn(word, "'");

		e = buf_append(out, word, n);
		word += n;
		if (e == 0 && *word) {
			e = buf_append(out, "'\\''", 4);
			word++;
		}
	}
	return e < 0 ? e : buf_append(out, "'", 1);
}

static int print_word(const char *word, struct buf *out)
{
	if (*word && word[strspn(word, plain)] == '\0')
		return buf_append(out, word, strlen(word));
	return words_quote(word, out);
}

int words_print(const char *words, size_t len, struct buf *out)
{
	int e = 0;

	for (size_t at = 0; e == 0 && at < len; at += strlen(words + at) + 1) {
		if (at)
			e = buf_append(out, " ", 1);
		if (e == 0)
			e = print_word(words + at, out);
	}
	return e;
}
