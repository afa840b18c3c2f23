/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a session, read from text: all of it, or nothing. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "vm/base/util.h"
#include "env.h"
#include "vm/base/problem.h"
#include "settings.h"

/* Cuts blanks, and the CR of a CRLF, off both ends of a line. */
static char *trim(char *text)
{
	size_t len;

	text += strspn(text, " \t\r");
	len = strlen(text);
	while (len > 0 && strchr(" \t\r", text[len - 1]))
		len--;
	text[len] = '\0';
	return text;
}

static int parse_line(struct settings *s, char *line, const struct settings_limits *limits,
		      struct problem *why)
{
	char *value;

	line = trim(line);
	if (*line == '\0' || *line == '#')
		return 0;
	value = strchr(line, '=');
	if (!value && strncmp(line, "unset", 5) == 0 && isblank((unsigned char)line[5]))
		return env_unset(s, trim(line + 5), why);
	if (!value)
		return problem_set(
			why, PROBLEM_INVALID,
			"Write one \"key = value\" a line, or a comment with # in front.",
			"\"%s\" has no \"=\"", problem_quote(line).text);
	*value = '\0';
	return settings_set(s, trim(line), trim(value + 1), limits, why);
}

/* A list that the text does not mention stays; but not if the text turns the network off. */
static int settle_allow(struct settings *s, char **inherited, const struct settings_limits *limits,
			struct problem *why)
{
	if (!s->allow)
		s->allow = s->network ? steal_ptr(*inherited) : strdup("");
	return s->allow ? settings_agree(s, limits, why) : -ENOMEM;
}

int settings_parse(struct settings *s, const char *text, size_t len,
		   const struct settings_limits *limits, struct problem *ret_why)
{
	static const char bom[] = "\xef\xbb\xbf";
	struct settings changed;
	char *copy, *line, *rest, *inherited = NULL;
	unsigned n = 0;
	int r;

	if (len > SETTINGS_TEXT_MAX)
		return problem_set(ret_why, PROBLEM_TOO_LONG,
				   "Write at most 131072 bytes of settings.",
				   "the settings have %zu bytes", len);
	if (len > 0 && memchr(text, '\0', len))
		return problem_set(ret_why, PROBLEM_INVALID, "Write plain text.",
				   "the settings hold a NUL byte");
	if (len >= 3 && memcmp(text, bom, 3) == 0) {
		text += 3;
		len -= 3;
	}
	copy = strndup(len ? text : "", len);
	if (!copy)
		return -ENOMEM;
	r = settings_copy(&changed, s);
	if (r < 0)
		goto out;

	inherited = steal_ptr(changed.allow);
	rest = copy;
	while (r >= 0 && (line = strsep(&rest, "\n"))) {
		n++;
		r = parse_line(&changed, line, limits, ret_why);
	}
	if (r == -EINVAL)
		problem_name_line(ret_why, n);
	if (r >= 0)
		r = settle_allow(&changed, &inherited, limits, ret_why);
	if (r < 0) {
		settings_clear(&changed);
		goto out;
	}
	settings_clear(s);
	*s = changed;
out:
	free(inherited);
	free(copy);
	return r;
}
