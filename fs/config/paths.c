/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of the host that a template shows to its sandboxes: the keys `ro`, `rw` and `work`. */
#include "paths.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vm/base/buf.h"
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

static bool has_control(const char *text)
{
	for (; *text; text++) {
		if (iscntrl((unsigned char)*text))
			return true;
	}
	return false;
}

static int check_target(const char *key, const char *target, struct problem *why)
{
	if (!is_plain(target) || has_control(target))
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
	if (strpbrk(source, " \t:") || has_control(source))
		return problem_set(why, PROBLEM_INVALID, "Rename it, or show a directory above it.",
				   "%s: \"%s\" holds a blank, a colon or a control character", key,
				   problem_quote(source).text);
	return 0;
}

/* One PATH[:TARGET], which is taken apart. */
static int add_path(struct buf *out, const char *key, char *word, struct problem *why)
{
	char *target = strchr(word, ':'), source[PATH_MAX];
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
	r = buf_printf(out, "%s%s", out->len ? " " : "", source);
	if (r == 0 && strcmp(source, target) != 0)
		r = buf_printf(out, ":%s", target);
	return r;
}

int paths_set_view(char **field, const char *value, struct problem *ret_why)
{
	char *text;

	if (strcmp(value, "host") != 0 && strcmp(value, "image") != 0)
		return problem_set(ret_why, PROBLEM_INVALID, "Write view = host or view = image.",
				   "view: \"%s\" is neither host nor image",
				   problem_quote(value).text);
	text = strdup(strcmp(value, "image") == 0 ? value : "");
	if (!text)
		return -ENOMEM;
	free(*field);
	*field = text;
	return 0;
}

int paths_set_work(char **field, const char *value, struct problem *ret_why)
{
	char source[PATH_MAX], *text;
	struct stat st;
	int r;

	if (*value && *value != '/')
		return problem_set(ret_why, PROBLEM_INVALID, "Write an absolute path.",
				   "work: \"%s\" does not begin with /", problem_quote(value).text);
	if (*value && (!realpath(value, source) || stat(source, &st) < 0))
		return problem_set(ret_why, PROBLEM_INVALID,
				   "Name a directory that is there when xsbxfs starts.",
				   "work: %s: %s", problem_quote(value).text, strerror(errno));
	if (*value && !S_ISDIR(st.st_mode))
		return problem_set(ret_why, PROBLEM_INVALID, "Name a directory.",
				   "work: %s is not a directory", problem_quote(value).text);
	r = *value ? check_source("work", source, ret_why) : 0;
	if (r < 0)
		return r;
	text = strdup(*value ? source : "");
	if (!text)
		return -ENOMEM;
	free(*field);
	*field = text;
	return 0;
}

int paths_set(char **field, const char *key, const char *value, struct problem *ret_why)
{
	_cleanup_free_ char *copy = strdup(value);
	struct buf out = {0};
	char *save = NULL, *text = NULL;
	int r = copy ? 0 : -ENOMEM;

	for (char *word = r == 0 ? strtok_r(copy, " \t", &save) : NULL; word && r == 0;
	     word = strtok_r(NULL, " \t", &save))
		r = add_path(&out, key, word, ret_why);
	if (r == 0 && out.len > TEXT_MAX)
		r = problem_set(ret_why, PROBLEM_INVALID, "Show a directory above them.",
				"%s: the paths have more than %d characters", key, TEXT_MAX);
	if (r == 0) {
		text = strndup(out.len ? out.data : "", out.len);
		r = text ? 0 : -ENOMEM;
	}
	buf_clear(&out);
	if (r < 0)
		return r;
	free(*field);
	*field = text;
	return 0;
}

static size_t count(const char *text)
{
	size_t n = *text != '\0';

	for (; *text; text++)
		n += *text == ' ';
	return n;
}

int paths_fit(const struct settings *s, struct problem *ret_why)
{
	const size_t n = count(s->ro) + count(s->rw);
	const char *key = *s->ro     ? "ro"
			  : *s->rw   ? "rw"
			  : *s->work ? "work"
			  : *s->view ? "view"
				     : NULL;

	if (key && s->backend != SETTINGS_PROCESS)
		return problem_set(ret_why, PROBLEM_NOT_HERE, "Write backend = process.",
				   "%s: this is for processes, and not for a microvm", key);
	if (n > VM_PATHS_MAX)
		return problem_set(ret_why, PROBLEM_TOO_MANY, "Show directories above them.",
				   "ro, rw: %zu paths are more than %u", n, VM_PATHS_MAX);
	return 0;
}

static int list(struct paths *p, char **text, const char *value, bool write)
{
	char *save = NULL;

	*text = strdup(value);
	if (!*text)
		return -ENOMEM;
	for (char *word = strtok_r(*text, " ", &save); word && p->n < VM_PATHS_MAX;
	     word = strtok_r(NULL, " ", &save)) {
		char *target = strchr(word, ':');

		if (target)
			*target++ = '\0';
		p->path[p->n++] = (struct vm_path){word, target ? target : word, write};
	}
	return 0;
}

int paths_init(struct paths *p, const struct settings *s)
{
	int r;

	*p = (struct paths){0};
	r = list(p, &p->text[0], s->ro, false);
	return r < 0 ? r : list(p, &p->text[1], s->rw, true);
}

void paths_clear(struct paths *p)
{
	free(p->text[0]);
	free(p->text[1]);
	*p = (struct paths){0};
}
