/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, in words. */
#include "problem.h"

#include <errno.h>
#include <string.h>

void problem_setv(struct problem *p, const char *code, const char *fix, const char *cause,
		  va_list ap)
{
	*p = (struct problem){.code = ""};
	snprintf(p->code, sizeof(p->code), "%s", code);
	snprintf(p->fix, sizeof(p->fix), "%s", fix);
	vsnprintf(p->cause, sizeof(p->cause), cause, ap);
}

int problem_set(struct problem *p, const char *code, const char *fix, const char *cause, ...)
{
	va_list ap;

	va_start(ap, cause);
	problem_setv(p, code, fix, cause, ap);
	va_end(ap);
	return -EINVAL;
}

void problem_add(struct problem *p, const char *fmt, ...)
{
	const size_t len = strlen(p->cause);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->cause + len, sizeof(p->cause) - len, fmt, ap);
	va_end(ap);
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
