/* SPDX-License-Identifier: Apache-2.0 */
/* Where jobs begin and what they execute unless they say so. See entry.h. */
#include "entry.h"

#include <errno.h>
#include <string.h>

#include "value.h"
#include "vm/base/problem.h"
#include "words.h"

/* Does a relative path lead out of where it begins? */
static bool leads_out(const char *path)
{
	int depth = 0;

	while (*path && depth >= 0) {
		const size_t n = strcspn(path, "/");

		if (n == 2 && strncmp(path, "..", 2) == 0)
			depth--;
		else if (n && !(n == 1 && *path == '.'))
			depth++;
		path += n + strspn(path + n, "/");
	}
	return depth < 0;
}

int entry_check_cwd(const char *cwd, struct problem *why)
{
	if (strlen(cwd) > ENTRY_PATH_MAX)
		return problem_set(why, PROBLEM_TOO_LONG, "Write at most 4095 bytes.",
				   "cwd: the path has %zu bytes", strlen(cwd));
	if (*cwd == '/' || !leads_out(cwd))
		return 0;
	return problem_set(why, PROBLEM_INVALID, "Write an absolute path, or one below files/.",
			   "cwd: \"%s\" leads out of files/", problem_quote(cwd).text);
}

int entry_check_argv(const struct buf *words, struct problem *why)
{
	size_t n = 0, longest = 0;

	for (size_t at = 0, len; at < words->len; at += len) {
		len = strlen(words->data + at) + 1;
		longest = MAX(longest, len);
		n++;
	}
	if (longest > ENTRY_WORD_MAX)
		return problem_set(why, PROBLEM_TOO_LONG, "Pass data through stdin or files/.",
				   "argv: a word of %zu bytes is longer than the %u that a program "
				   "can be given",
				   longest - 1, ENTRY_WORD_MAX - 1);
	if (words->len > PROTO_ARGV_MAX || n > ENTRY_WORDS_MAX)
		return problem_set(why, PROBLEM_TOO_LONG, "Pass data through stdin or files/.",
				   "argv: %zu words of %zu bytes are more than %u of %u", n,
				   words->len, ENTRY_WORDS_MAX, PROTO_ARGV_MAX);
	if (words->len && !*words->data)
		return problem_set(why, PROBLEM_INVALID, "Name a program.",
				   "argv: the first word is empty");
	return 0;
}

int entry_set_cwd(struct settings *s, const char *value, struct problem *why)
{
	int r = entry_check_cwd(value, why);

	return r < 0 ? r : value_keep(&s->cwd, value);
}

int entry_set_argv(struct settings *s, const char *value, struct problem *why)
{
	struct buf words = {0};
	size_t taken = 0;
	int r = words_parse(value, strlen(value), &words, &taken, why);

	if (r == 0 && value[taken])
		r = problem_set(why, PROBLEM_INVALID, "Write all of it on one line.",
				"entrypoint: a line ends in it");
	if (r == 0)
		r = entry_check_argv(&words, why);
	buf_clear(&words);
	return r < 0 ? r : value_keep(&s->entrypoint, value);
}

int entry_argv(const struct settings *s, struct buf *out)
{
	struct problem why;
	size_t taken;

	if (!s->entrypoint)
		return 0;
	return words_parse(s->entrypoint, strlen(s->entrypoint), out, &taken, &why) < 0 ? -ENOMEM
											: 0;
}
