/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the `ctl` nodes of sessions and jobs. See ctl.h. */
#include "ctl.h"

#include <assert.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/util.h"
#include "vm/base/problem.h"

#define CTL_ALL (CTL_SESSION | CTL_JOB | CTL_RUN)

static const struct {
	const char *word;
	unsigned owners; /* enum ctl_owner */
} verbs[] = {
	[CTL_INTERRUPT] = {"interrupt", CTL_ALL},
	[CTL_KILL] = {"kill", CTL_ALL},
	[CTL_RESET] = {"reset", CTL_SESSION},
	[CTL_CLOSE] = {"close", CTL_SESSION},
	[CTL_COMMIT] = {"commit", CTL_SESSION},
	[CTL_DISCARD] = {"discard", CTL_SESSION},
	[CTL_PAUSE] = {"pause", CTL_SESSION},
	[CTL_RESUME] = {"resume", CTL_SESSION},
	[CTL_START] = {"start", CTL_JOB | CTL_RUN},
	[CTL_SIGNAL] = {"signal", CTL_JOB | CTL_RUN},
	[CTL_EOF] = {"eof", CTL_ALL},
	[CTL_SLEEP] = {"sleep", CTL_SESSION},
	[CTL_WAKE] = {"wake", CTL_SESSION},
	[CTL_CHECKPOINT] = {"checkpoint", CTL_SESSION},
	[CTL_RESTORE] = {"restore", CTL_SESSION},
	[CTL_REPLAY] = {"replay", CTL_SESSION},
};
static_assert(ARRAY_SIZE(verbs) == CTL_NVERBS, "a word for each verb");

static const char *verbs_known(enum ctl_owner owner)
{
	switch (owner) {
	case CTL_JOB:
		return "The verbs are start, interrupt, kill, signal NAME and eof, one a line.";
	case CTL_RUN: return "The verbs are interrupt, kill and eof, one a line.";
	case CTL_SESSION: break;
	}
	return "The verbs are interrupt, kill, reset, close, commit, discard, pause, resume, "
	       "sleep, wake, checkpoint NAME, restore NAME, replay N and eof, one a line.";
}

const char *ctl_verb_str(enum ctl_verb verb)
{
	return verbs[verb].word;
}

static bool is_word(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(text, word, len) == 0;
}

static size_t first_word(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && text[n] != ' ' && text[n] != '\t')
		n++;
	return n;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Takes the first word off a text, with the blanks around it. Return: its length; @ret_word is where it begins. */
static size_t next_word(const char **text, size_t *len, const char **ret_word)
{
	size_t n;

	while (*len && is_blank(**text)) {
		(*text)++;
		(*len)--;
	}
	n = first_word(*text, *len);
	*ret_word = *text;
	*text += n;
	*len -= n;
	while (*len && is_blank(**text)) {
		(*text)++;
		(*len)--;
	}
	return n;
}

/* "TERM", "SIGTERM", "term" or "15". Return: the signal, or 0. */
static int signal_number(const char *text, size_t len)
{
	char name[16], *end;
	long n;

	if (len == 0 || len >= sizeof(name))
		return 0;
	memcpy(name, text, len);
	name[len] = '\0';
	n = strtol(name, &end, 10);
	if (!*end)
		return n > 0 && n < NSIG ? (int)n : 0;
	for (int sig = 1; sig < NSIG; sig++) {
		const char *abbrev = sigabbrev_np(sig);

		if (abbrev &&
		    strcasecmp(name + (strncasecmp(name, "SIG", 3) == 0 ? 3 : 0), abbrev) == 0)
			return sig;
	}
	return 0;
}

static int parse_signal(const char *text, size_t len, struct ctl_order *ret_order,
			struct problem *why)
{
	while (len && (*text == ' ' || *text == '\t')) {
		text++;
		len--;
	}
	ret_order->verb = CTL_SIGNAL;
	ret_order->sig = signal_number(text, len);
	if (ret_order->sig)
		return 0;
	return problem_set(why, PROBLEM_INVALID, "signal TERM, or another name of signal(7).",
			   "\"%s\" is no signal", problem_quote_bytes(text, len).text);
}

/* "NAME", and of a checkpoint "NAME when idle". */
static int parse_name(enum ctl_verb verb, const char *text, size_t len, struct ctl_order *ret_order,
		      struct problem *why)
{
	const char *word;
	size_t n = next_word(&text, &len, &word);

	*ret_order = (struct ctl_order){.verb = verb};
	if (n == 0 || n >= sizeof(ret_order->name))
		return problem_set(why, PROBLEM_INVALID, verbs_known(CTL_SESSION),
				   n ? "%s: the name of a checkpoint has at most 64 bytes"
				     : "%s: of which checkpoint?",
				   verbs[verb].word);
	memcpy(ret_order->name, word, n);
	if (len == 0)
		return 0;
	n = next_word(&text, &len, &word);
	ret_order->when_idle =
		verb == CTL_CHECKPOINT && is_word(word, n, "when") && is_word(text, len, "idle");
	if (ret_order->when_idle)
		return 0;
	return problem_set(why, PROBLEM_INVALID,
			   verb == CTL_CHECKPOINT ? "checkpoint NAME, or checkpoint NAME when idle"
						  : "restore NAME",
			   "%s: there are words behind the name", verbs[verb].word);
}

/* "N" */
static int parse_run(const char *text, size_t len, struct ctl_order *ret_order, struct problem *why)
{
	uint64_t n = 0;

	while (len && is_blank(*text)) {
		text++;
		len--;
	}
	*ret_order = (struct ctl_order){.verb = CTL_REPLAY};
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9' || n > UINT32_MAX / 10)
			n = UINT64_MAX;
		else
			n = n * 10 + (uint64_t)(text[i] - '0');
	}
	if (len && n && n <= UINT32_MAX) {
		ret_order->run = (uint32_t)n;
		return 0;
	}
	return problem_set(why, PROBLEM_INVALID, "replay N, the number of a run, as in ls runs.",
			   "replay: \"%s\" is no number of a run",
			   problem_quote_bytes(text, len).text);
}

static int parse_verb(const char *text, size_t len, enum ctl_owner owner,
		      struct ctl_order *ret_order, struct problem *why)
{
	const size_t first = first_word(text, len);

	if (owner != CTL_SESSION && is_word(text, first, verbs[CTL_SIGNAL].word))
		return parse_signal(text + first, len - first, ret_order, why);
	for (enum ctl_verb v = CTL_CHECKPOINT; owner == CTL_SESSION && v <= CTL_RESTORE; v++)
		if (is_word(text, first, verbs[v].word))
			return parse_name(v, text + first, len - first, ret_order, why);
	if (owner == CTL_SESSION && is_word(text, first, verbs[CTL_REPLAY].word))
		return parse_run(text + first, len - first, ret_order, why);
	for (int v = 0; v < CTL_NVERBS; v++) {
		if ((verbs[v].owners & owner) && is_word(text, len, verbs[v].word)) {
			*ret_order = (struct ctl_order){.verb = (enum ctl_verb)v};
			return 0;
		}
	}
	if (owner == CTL_SESSION && is_word(text, first, "fork"))
		return problem_set(why, PROBLEM_UNKNOWN_VERB,
				   "mkdir another session, and write from = NAME of this one into "
				   "its config. interrupt, kill and so on are verbs.",
				   "there is no verb \"%s\"", problem_quote_bytes(text, len).text);
	return problem_set(why, PROBLEM_UNKNOWN_VERB, verbs_known(owner), "there is no verb \"%s\"",
			   problem_quote_bytes(text, len).text);
}

int ctl_parse(const char *text, size_t len, enum ctl_owner owner, struct ctl_order *ret_orders,
	      size_t *ret_norders, struct problem *ret_why)
{
	struct ctl_order orders[CTL_VERBS_MAX];
	const char *end = text + len;
	unsigned line = 0;
	size_t n = 0;

	if (len > CTL_TEXT_MAX)
		return problem_set(ret_why, PROBLEM_TOO_LONG, verbs_known(owner),
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
				return problem_set(ret_why, PROBLEM_TOO_MANY, verbs_known(owner),
						   "more than %d verbs in one write",
						   CTL_VERBS_MAX);
			r = parse_verb(text, (size_t)(stop - text), owner, &orders[n], ret_why);
			if (r < 0) {
				problem_name_line(ret_why, line);
				return r;
			}
			n++;
		}
		text = next;
	}
	if (n)
		memcpy(ret_orders, orders, n * sizeof(*orders));
	*ret_norders = n;
	return 0;
}
