/* SPDX-License-Identifier: Apache-2.0 */
/* What a session was let through to while it learned. See lessons.h. */
#include "lessons.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/request/clock.h"
#include "vm/base/http_path.h"
#include "vm/base/rules.h"
#include "vm/base/util.h"
#include "vm/vm.h"

#define PATH_LEARNT 512 /* bytes of a path, behind which it is cut off at a slash */
#define METHODS_MAX 200 /* bytes of a list of them, behind which it is every method */

/*
 * - `port` is 0 for 80 and 443, which a rule without a port has both.
 * - `methods` and `path` are NULL if it was passed on as a whole; `several`: all paths that begin with `path`.
 */
struct lesson {
	char *host, *methods, *path;
	uint16_t port;
	bool several;
};

static void lesson_clear(struct lesson *l)
{
	free(l->host);
	free(l->methods);
	free(l->path);
}

void lessons_fini(struct lessons *l)
{
	for (size_t i = 0; i < l->n; i++)
		lesson_clear(&l->lesson[i]);
	free(l->lesson);
	*l = (struct lessons){0};
}

static int compare(const struct lesson *l, const char *host, uint16_t port)
{
	const int c = strcmp(l->host, host);

	return c ? c : (int)l->port - (int)port;
}

/* Where it is, or would be. Return: is it there? */
static bool find(const struct lessons *l, const char *host, uint16_t port, size_t *ret_at)
{
	size_t at = 0;

	while (at < l->n && compare(&l->lesson[at], host, port) < 0)
		at++;
	*ret_at = at;
	return at < l->n && compare(&l->lesson[at], host, port) == 0;
}

static struct lesson *add(struct lessons *l, size_t at, const char *host, uint16_t port)
{
	struct lesson *list;
	char *copy;

	if (l->n == LESSONS_MAX)
		return NULL;
	list = reallocarray(l->lesson, l->n + 1, sizeof(*list));
	if (list)
		l->lesson = list;
	copy = list ? strdup(host) : NULL;
	if (!copy)
		return NULL;
	memmove(list + at + 1, list + at, (l->n - at) * sizeof(*list));
	list[at] = (struct lesson){.host = copy, .port = port};
	l->n++;
	return &list[at];
}

/* ---- what one teaches ---- */

/* Return: is there memory for it? */
static bool learn_method(struct lesson *l, const char *method)
{
	char *longer;

	if (rules_have_method(l->methods, method))
		return true;
	if (strlen(l->methods) + 1 + strlen(method) > METHODS_MAX)
		longer = strdup("*");
	else if (asprintf(&longer, "%s,%s", l->methods, method) < 0)
		longer = NULL;
	if (!longer)
		return false;
	free(l->methods);
	l->methods = longer;
	return true;
}

/* Keeps what both have in common, up to a slash. */
static void learn_path(struct lesson *l, const char *path)
{
	size_t same = 0;

	if (!strcmp(l->path, path))
		return;
	while (l->path[same] && l->path[same] == path[same])
		same++;
	while (same > 1 && l->path[same - 1] != '/')
		same--;
	l->path[MAX(same, (size_t)1)] = '\0';
	l->several = true;
}

/* A path as a pattern has it: no * but of its own. Return: owned by the caller, or NULL: it is none, or there is no memory. */
static char *pattern_of(const char *target)
{
	static struct http_path path; /* 16 KiB, in one thread */
	struct buf out = {0};
	char *text;

	if (http_path_read(target, strcspn(target, "?"), &path) < 0)
		return NULL;
	for (const char *p = path.plain; *p; p++)
		(void)buf_append(&out, *p == '*' ? "%2A" : p, *p == '*' ? 3 : 1);
	text = out.failed ? NULL : strdup(buf_str(&out));
	buf_clear(&out);
	return text;
}

/* Of what is written as a rule before it: does a rule begin so? */
static bool is_rule(const char *line)
{
	char why[128];
	struct rules rules;

	if (rules_parse(line, strlen(line), &rules, why) < 0)
		return false;
	rules_fini(&rules);
	return true;
}

static void learn_whole(struct lesson *l)
{
	free(l->methods);
	free(l->path);
	l->methods = l->path = NULL;
}

static void learn_request(struct lesson *l, bool first, const char *method, const char *target)
{
	char *path = pattern_of(target);
	const bool is_long = path && strlen(path) > PATH_LEARNT;

	if (is_long) {
		path[PATH_LEARNT] = '\0';
		strrchr(path, '/')[1] = '\0';
	}

	if (first) {
		l->methods = strdup(method);
		l->path = path ? path : strdup("/");
		l->several = !path || is_long;
		if (!l->methods || !l->path)
			learn_whole(l); /* more than was asked for, for want of memory */
		return;
	}
	if (l->methods && !learn_method(l, method))
		learn_whole(l);
	if (l->path)
		learn_path(l, path ? path : "/");
	l->several = l->several || is_long;
	free(path);
}

void lessons_note(struct lessons *l, const struct sandbox_logged *what)
{
	const uint16_t port = what->port == 80 || what->port == 443 ? 0 : what->port;
	struct lesson *lesson;
	size_t at;
	bool there;

	/* The filter says "?" of a connection that was for nobody, and one that was taken over says what it likes. */
	if (what->refused || !allow_is_canonical(what->host))
		return;
	there = find(l, what->host, port, &at);
	lesson = there ? &l->lesson[at] : add(l, at, what->host, port);
	l->mtime = clock_now();
	if (!lesson)
		l->more++;
	else if (!*what->method)
		learn_whole(lesson);
	else if (!there || lesson->methods)
		learn_request(lesson, !there, what->method, what->path);
}

/* ---- as text ---- */

/* Writes one; what would be no rule as written allows more of that host. */
static void write_rule(const struct lesson *l, char *ret_line, size_t size)
{
	char port[8] = "";

	if (l->port)
		snprintf(port, sizeof(port), ":%u", l->port);
	if (l->methods)
		snprintf(ret_line, size, "allow %s %s%s%s%s", l->methods, l->host, port, l->path,
			 l->several ? "*" : "");
	if (l->methods && !is_rule(ret_line))
		snprintf(ret_line, size, "allow %s %s%s/*", l->methods, l->host, port);
	if (!l->methods || !is_rule(ret_line))
		snprintf(ret_line, size, "allow * %s%s", l->host, port);
}

int lessons_render(const struct lessons *l, struct buf *out)
{
	char line[HTTP_PATH_MAX + 1024];
	int r = 0;

	for (size_t i = 0; i < l->n && r >= 0; i++) {
		write_rule(&l->lesson[i], line, sizeof(line));
		r = buf_printf(out, "%s\n", line);
	}
	if (l->more && r >= 0)
		r = buf_printf(out, "# %u more, to other hosts: there are rules for %d of them\n",
			       l->more, LESSONS_MAX);
	return r;
}

/* "allow METHODS HOST[:PORT][/PATH[*]]" */
static int parse_line(struct lessons *l, char *line)
{
	char *methods = strchr(line, ' '), *place = methods ? strchr(methods + 1, ' ') : NULL,
	     *path, *colon;
	struct lesson *lesson;
	uint16_t port = 0;
	size_t at;

	if (!strcmp(line, "allow * ?")) /* versions before have learnt that, which is no rule */
		return 0;
	if (!place || strncmp(line, "allow ", 6) != 0 || !is_rule(line))
		return -EBADMSG;
	*place++ = '\0';
	path = strchr(place, '/');
	colon = memchr(place, ':', path ? (size_t)(path - place) : strlen(place));
	if (colon &&
	    allow_port(colon + 1, path ? (size_t)(path - colon - 1) : strlen(colon + 1), &port) < 0)
		return -EBADMSG;
	path = path ? strdup(path) : NULL;
	place[strcspn(place, ":/")] = '\0';
	if (find(l, place, port, &at) || !(lesson = add(l, at, place, port))) {
		free(path);
		return -EBADMSG;
	}
	if (!path)
		return 0;
	lesson->path = path;
	lesson->methods = strdup(methods + 1);
	lesson->several = path[strlen(path) - 1] == '*';
	path[strlen(path) - lesson->several] = '\0';
	return lesson->methods ? 0 : -ENOMEM;
}

int lessons_parse(struct lessons *l, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	char *save = NULL;
	int r = copy ? 0 : -ENOMEM;

	for (char *line = copy ? strtok_r(copy, "\n", &save) : NULL; line && r == 0;
	     line = strtok_r(NULL, "\n", &save)) {
		if (*line != '#')
			r = parse_line(l, line);
		else if (sscanf(line, "# %u more", &l->more) != 1)
			r = -EBADMSG;
	}
	if (r < 0)
		lessons_fini(l);
	return r;
}
