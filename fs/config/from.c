/* SPDX-License-Identifier: Apache-2.0 */
/* `from = SESSION[@CHECKPOINT]`. See from.h. */
#include "from.h"

#include <stdio.h>
#include <string.h>

#include "vm/base/problem.h"
#include "vm/base/util.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **begin, const char **end)
{
	while (*begin < *end && is_blank(**begin))
		(*begin)++;
	while (*begin < *end && is_blank((*end)[-1]))
		(*end)--;
}

/* Is the line from @p to @end one of these? */
static bool read_line(const char *p, const char *end, char ret_value[static FROM_MAX])
{
	static const char key[] = "from";
	const char *equals = memchr(p, '=', (size_t)(end - p)), *stop = equals;

	if (!equals)
		return false;
	trim(&p, &stop);
	if ((size_t)(stop - p) != strlen(key) || memcmp(p, key, strlen(key)) != 0)
		return false;
	p = equals + 1;
	trim(&p, &end);
	snprintf(ret_value, FROM_MAX, "%.*s", (int)MIN(end - p, FROM_MAX), p);
	return true;
}

bool from_find(const char *text, size_t len, char ret_value[static FROM_MAX])
{
	const char *end = text + len;
	bool found = false;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;

		found = read_line(text, stop, ret_value) || found;
		text = newline ? newline + 1 : end;
	}
	return found;
}

static bool take(const char *begin, const char *end, char ret_name[static 65])
{
	const size_t len = (size_t)(end - begin);

	if (len >= 65)
		return false;
	memcpy(ret_name, begin, len);
	ret_name[len] = '\0';
	return plain_name_ok(ret_name);
}

int from_parse(const char *value, struct from *ret_from, struct problem *why)
{
	const char *slash = strchr(value, '/'), *begin = slash ? slash + 1 : value;
	const char *at = strchr(begin, '@'), *end = begin + strlen(begin);
	struct from f = {0};

	if ((!slash || take(value, slash, f.template)) && take(begin, at ? at : end, f.session) &&
	    (!at || take(at + 1, end, f.checkpoint))) {
		*ret_from = f;
		return 0;
	}
	return problem_set(why, PROBLEM_INVALID,
			   "Write from = SESSION, or from = SESSION@CHECKPOINT.",
			   "from: \"%s\" names no session", problem_quote(value).text);
}
