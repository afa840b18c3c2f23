/* SPDX-License-Identifier: Apache-2.0 */
/* Host paths that are visible in a template's sandboxes: the keys `ro`, `rw` and `work`. */
#include "paths.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "value.h"
#include "vm/base/path.h"
#include "vm/base/problem.h"

#define TEXT_MAX 4096 /* of all paths of a key: they travel in one message */

/* What the sandbox has of its own, and needs where it is. In the last one there is room. */
static const char *const own[] = {"/proc", "/dev", "/run/xsbx", "/home/user", "/tmp"};
/* What would show the host itself, its processes and services, and not files of it. */
static const char *const host[] = {"/proc", "/sys", "/dev", "/run"};

/* Absolute, without empty parts, "." and "..", and not the root. */
static bool is_plain(const char *path)
{
	if (*path != '/' || strlen(path) >= PATH_MAX)
		return false;
	while (*path == '/') {
		const size_t len = strcspn(++path, "/");

		if (len == 0 || (len <= 2 && strspn(path, ".") >= len))
			return false;
		path += len;
	}
	return true;
}

static int check_target(const char *key, const char *target, struct problem *why)
{
	if (!is_plain(target) || value_has_control(target))
		return problem_set(why, PROBLEM_INVALID,
				   "Write an absolute path without \".\", \"..\" or a slash at "
				   "the end.",
				   "%s: nothing can be shown at \"%s\"", key,
				   problem_quote(target).text);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		const bool room = i == ARRAY_SIZE(own) - 1;

		if ((!room && path_is_within(target, own[i])) || path_is_within(own[i], target))
			return problem_set(why, PROBLEM_INVALID,
					   "Write PATH:TARGET with another target.",
					   "%s: nothing can be shown at %s, because a sandbox "
					   "has %s of its own",
					   key, problem_quote(target).text, own[i]);
	}
	return 0;
}

static int check_source(const char *key, const char *source, struct problem *why)
{
	bool is_host = strcmp(source, "/") == 0;

	for (size_t i = 0; i < ARRAY_SIZE(host); i++)
		is_host = is_host || path_is_within(source, host[i]);
	if (is_host)
		return problem_set(why, PROBLEM_INVALID, "Name directories with files.",
				   "%s: %s is more than files of the host", key,
				   problem_quote(source).text);
	if (strpbrk(source, " \t:") || value_has_control(source))
		return problem_set(why, PROBLEM_INVALID, "Rename it, or show a directory above it.",
				   "%s: \"%s\" holds a blank, a colon or a control character", key,
				   problem_quote(source).text);
	return 0;
}

/* One PATH[:TARGET], which is taken apart, as the next of @list's. */
static int add_path(struct sandbox_spec *list, bool write, char *word, struct problem *why)
{
	const char *key = write ? "rw" : "ro";
	char *target = strchr(word, ':'), source[PATH_MAX];
	struct vm_path *grown;
	int r;

	if (target)
		*target++ = '\0';
	else
		target = word;
	if (*word != '/')
		return problem_set(
			why, PROBLEM_INVALID, "Write absolute paths with blanks between them.",
			"%s: \"%s\" does not begin with /", key, problem_quote(word).text);
	if (!realpath(word, source))
		return problem_set(why, PROBLEM_INVALID,
				   "Name a file or directory that is there when xsbxfs starts.",
				   "%s: %s: %s", key, problem_quote(word).text, strerror(errno));
	r = check_source(key, source, why);
	if (r == 0)
		r = check_target(key, target, why);
	if (r < 0)
		return r;
	grown = reallocarray((void *)list->paths, list->npaths + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->paths = grown;
	grown[list->npaths] = (struct vm_path){strdup(source), strdup(target), write};
	return grown[list->npaths].source && grown[list->npaths++].target ? 0 : -ENOMEM;
}

/* Moves @list's paths into the place of those of @s that are of their kind. `ro` comes first. */
static int move_in(struct sandbox_spec *s, struct sandbox_spec *list, bool write)
{
	struct vm_path *all = calloc(s->npaths + list->npaths + 1, sizeof(*all));
	size_t n = 0;

	if (!all)
		return -ENOMEM;
	for (int kind = false; kind <= true; kind++) {
		const struct sandbox_spec *from = kind == write ? list : s;

		for (size_t i = 0; i < from->npaths; i++)
			if (from->paths[i].write == kind)
				all[n++] = from->paths[i];
	}
	for (size_t i = 0; i < s->npaths; i++) {
		if (s->paths[i].write == write) {
			free((char *)s->paths[i].source);
			free((char *)s->paths[i].target);
		}
	}
	free((void *)s->paths);
	s->paths = all;
	s->npaths = n;
	list->npaths = 0;
	return 0;
}

int paths_set(struct sandbox_spec *s, bool write, const char *value, struct problem *why)
{
	const char *key = write ? "rw" : "ro";
	_cleanup_free_ char *copy = strdup(value);
	struct sandbox_spec list = {.name = NULL};
	struct buf text = {0};
	char *save = NULL;
	int r = copy ? 0 : -ENOMEM;

	for (char *word = r == 0 ? strtok_r(copy, " \t", &save) : NULL; word && r == 0;
	     word = strtok_r(NULL, " \t", &save))
		r = add_path(&list, write, word, why);
	if (r == 0)
		r = paths_print(&list, write, &text);
	if (r == 0 && text.len > TEXT_MAX)
		r = problem_set(why, PROBLEM_INVALID, "Show a directory above them.",
				"%s: the paths have more than %d characters", key, TEXT_MAX);
	if (r == 0)
		r = move_in(s, &list, write);
	buf_clear(&text);
	spec_free(&list);
	return r;
}

int paths_set_work(struct sandbox_spec *s, const char *value, struct problem *why)
{
	char source[PATH_MAX];
	struct stat st;
	int r;

	if (*value && *value != '/')
		return problem_set(why, PROBLEM_INVALID, "Write an absolute path.",
				   "work: \"%s\" does not begin with /", problem_quote(value).text);
	if (*value && (!realpath(value, source) || stat(source, &st) < 0))
		return problem_set(why, PROBLEM_INVALID,
				   "Name a directory that is there when xsbxfs starts.",
				   "work: %s: %s", problem_quote(value).text, strerror(errno));
	if (*value && !S_ISDIR(st.st_mode))
		return problem_set(why, PROBLEM_INVALID, "Name a directory.",
				   "work: %s is not a directory", problem_quote(value).text);
	if (*value) {
		r = check_source("work", source, why);
		return r < 0 ? r : value_keep(&s->work, source);
	}
	free((char *)s->work);
	s->work = NULL;
	return 0;
}

int paths_print(const struct sandbox_spec *s, bool write, struct buf *out)
{
	const char *blank = "";
	int r = 0;

	for (size_t i = 0; i < s->npaths && r == 0; i++) {
		const struct vm_path *p = &s->paths[i];
		const bool elsewhere = strcmp(p->source, p->target) != 0;

		if (p->write != write)
			continue;
		r = buf_printf(out, "%s%s%s%s", blank, p->source, elsewhere ? ":" : "",
			       elsewhere ? p->target : "");
		blank = " ";
	}
	return r;
}

int paths_fit(const struct sandbox_spec *s, struct problem *why)
{
	const char *key = s->npaths ? s->paths[0].write ? "rw" : "ro" : s->work ? "work" : NULL;

	if (key && s->backend != VM_PROCESS)
		return problem_set(why, PROBLEM_NOT_HERE, "Write backend = process.",
				   "%s: this is for processes, and not for a microvm", key);
	if (s->npaths > VM_PATHS_MAX)
		return problem_set(why, PROBLEM_TOO_MANY, "Show directories above them.",
				   "ro, rw: %zu paths are more than %u", s->npaths, VM_PATHS_MAX);
	return 0;
}
