/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of a session's `ctl` node. */
#include "ctl.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "vm/base/util.h"
#include "vm/base/problem.h"

static const char verbs_known[] =
	"The verbs are interrupt, kill, reset, close, commit, discard, pause and resume, one a "
	"line.";

static const char *const verb_str[] = {
	[CTL_INTERRUPT] = "interrupt", [CTL_KILL] = "kill",	[CTL_RESET] = "reset",
	[CTL_CLOSE] = "close",	       [CTL_COMMIT] = "commit", [CTL_DISCARD] = "discard",
	[CTL_PAUSE] = "pause",	       [CTL_RESUME] = "resume",
};
static_assert(ARRAY_SIZE(verb_str) == CTL_NVERBS, "a word for each verb");

/* Verbs of later versions: they get an answer of their own, so that nobody hunts for a typing error. */
static const char *const later[] = {"checkpoint", "fork"};

const char *ctl_verb_str(enum ctl_verb verb)
{
	return verb_str[verb];
}

static bool is_word(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* The first word decides, so that `fork NAME` is answered as well as `fork`. */
static bool is_later(const char *text, size_t len)
{
	size_t first = 0;

	while (first < len && text[first] != ' ' && text[first] != '\t')
		first++;
	for (size_t i = 0; i < ARRAY_SIZE(later); i++) {
		if (is_word(text, first, later[i]))
			return true;
	}
	return false;
}

static int parse_verb(const char *text, size_t len, enum ctl_verb *ret_verb, struct problem *why)
{
	for (int v = 0; v < CTL_NVERBS; v++) {
		if (is_word(text, len, verb_str[v])) {
			*ret_verb = (enum ctl_verb)v;
			return 0;
		}
	}
	if (is_later(text, len))
		return problem_set(why, PROBLEM_UNSUPPORTED, verbs_known,
				   "\"%s\" is not available in this version",
				   problem_quote_bytes(text, len).text);
	return problem_set(why, PROBLEM_UNKNOWN_VERB, verbs_known, "there is no verb \"%s\"",
			   problem_quote_bytes(text, len).text);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

int ctl_parse(const char *text, size_t len, enum ctl_verb *ret_verbs, size_t *ret_nverbs,
	      struct problem *ret_why)
{
	enum ctl_verb verbs[CTL_VERBS_MAX];
	const char *end = text + len;
	unsigned line = 0;
	size_t n = 0;

	if (len > CTL_TEXT_MAX)
		return problem_set(ret_why, PROBLEM_TOO_LONG, verbs_known,
				   "%zu bytes are too much for a list of verbs", len);
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *next = newline ? newline + 1 : end;
		const char *stop = newline ? newline : end;
		int r;

		line++;
		while (text < stop && is_blank(*text))
			text++;
		while (text < stop && is_blank(stop[-1]))
			stop--;
		if (text < stop) {
			if (n == CTL_VERBS_MAX)
				return problem_set(ret_why, PROBLEM_TOO_MANY, verbs_known,
						   "more than %d verbs in one write",
						   CTL_VERBS_MAX);
			r = parse_verb(text, (size_t)(stop - text), &verbs[n], ret_why);
			if (r < 0) {
				problem_name_line(ret_why, line);
				return r;
			}
			n++;
		}
		text = next;
	}
	if (n)
		memcpy(ret_verbs, verbs, n * sizeof(*verbs));
	*ret_nverbs = n;
	return 0;
}
