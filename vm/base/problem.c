/* SPDX-License-Identifier: Apache-2.0 */
/* Problems: error codes with explanations. */
#include "problem.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME(group, enumerator, name, ...) [PROBLEM_##enumerator] = (name),

static const char *const names[] = {[PROBLEM_NONE] = "", PROBLEM_CODES(NAME)};
static_assert(ARRAY_SIZE(names) == PROBLEM_NCODES, "a name for each code");

const char *problem_code_str(enum problem_code code)
{
	return names[code];
}

enum problem_code problem_code_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return (enum problem_code)i;
	return PROBLEM_FAILED;
}

void problem_setv(struct problem *p, enum problem_code code, const char *fix, const char *cause,
		  va_list ap)
{
	struct problem new = {.code = code};

	snprintf(new.fix, sizeof(new.fix), "%s", fix);
	vsnprintf(new.cause, sizeof(new.cause), cause, ap);
	*p = new;
}

int problem_set(struct problem *p, enum problem_code code, const char *fix, const char *cause, ...)
{
	va_list ap;

	va_start(ap, cause);
	problem_setv(p, code, fix, cause, ap);
	va_end(ap);
	return -EINVAL;
}

void problem_wrap(struct problem *p, enum problem_code code, const char *fix, const char *cause,
		  ...)
{
	const bool logged = p->logged;
	va_list ap;

	va_start(ap, cause);
	problem_setv(p, code, fix, cause, ap);
	va_end(ap);
	p->logged = logged;
}

void problem_add(struct problem *p, const char *fmt, ...)
{
	const size_t len = strlen(p->cause);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->cause + len, sizeof(p->cause) - len, fmt, ap);
	va_end(ap);
}

void problem_also(struct problem *p, const struct problem *more)
{
	if (p->code)
		problem_add(p, "; %s", more->cause);
	else
		*p = *more;
}

void problem_add_fix(struct problem *p, const char *fmt, ...)
{
	const size_t len = strlen(p->fix), room = sizeof(p->fix) - len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(p->fix + len, room, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room)
		p->fix[len] = '\0';
}

void problem_advise(struct problem *p, const char *fmt, ...)
{
	char sentence[sizeof(p->fix)];
	size_t len = strlen(p->fix);
	const char *end;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	while (len && p->fix[len - 1] == ' ')
		len--;
	end = !len ? "" : strchr(".!?", p->fix[len - 1]) ? " " : ". ";
	if (strlen(sentence) == sizeof(sentence) - 1 ||
	    len + strlen(end) + strlen(sentence) >= sizeof(p->fix))
		return;
	p->fix[len] = '\0';
	problem_add_fix(p, "%s%s", end, sentence);
}

/* Where there is no memory for the words, that is said. */
static struct problem no_words = {.code = PROBLEM_NO_MEMORY,
				  .cause = "there was no memory to keep what it was"};

void problem_keep(struct problem_kept *k, const struct problem *p)
{
	struct problem *copy = NULL;

	if (p && p->code) {
		copy = malloc(sizeof(*copy));
		if (copy)
			*copy = *p;
		else
			copy = &no_words;
	}
	if (k->there != &no_words)
		free(k->there);
	k->there = copy;
}

const struct problem *problem_kept(const struct problem_kept *k)
{
	static const struct problem none;

	return k->there ? k->there : &none;
}

void problem_name_line(struct problem *p, unsigned line)
{
	char cause[sizeof(p->cause)];

	memcpy(cause, p->cause, sizeof(cause));
	snprintf(p->cause, sizeof(p->cause), "line %u: %.*s", line, (int)sizeof(p->cause) - 32,
		 cause);
}

struct problem_quoted problem_quote_bytes(const char *text, size_t len)
{
	struct problem_quoted q;
	size_t n = MIN(len, sizeof(q.text) - sizeof("..."));

	for (size_t i = 0; i < n; i++)
		q.text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	snprintf(q.text + n, sizeof(q.text) - n, "%s", n < len ? "..." : "");
	return q;
}
