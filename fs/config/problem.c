/* SPDX-License-Identifier: Apache-2.0 */
/* Saying no to what a user wrote. */
#include "problem.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

struct problem_quoted problem_quote_bytes(const char *text, size_t len)
{
	struct problem_quoted q;
	size_t n = MIN(len, sizeof(q.text) - sizeof("..."));

	for (size_t i = 0; i < n; i++)
		q.text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	snprintf(q.text + n, sizeof(q.text) - n, "%s", n < len ? "..." : "");
	return q;
}

int problem_refuse(struct vm_problem *why, const char *code, const char *fix, const char *cause,
		   ...)
{
	va_list ap;

	snprintf(why->code, sizeof(why->code), "%s", code);
	snprintf(why->fix, sizeof(why->fix), "%s", fix);
	va_start(ap, cause);
	vsnprintf(why->cause, sizeof(why->cause), cause, ap);
	va_end(ap);
	return -EINVAL;
}

void problem_name_line(struct vm_problem *why, unsigned line)
{
	char cause[sizeof(why->cause)];

	memcpy(cause, why->cause, sizeof(cause));
	snprintf(why->cause, sizeof(why->cause), "line %u: %.*s", line,
		 (int)sizeof(why->cause) - 32, cause);
}
