/* SPDX-License-Identifier: Apache-2.0 */
/* The packages that a session requests: parsed, checked against lists of names, and made canonical. */
#include "packages.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/buf.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 * -------------------
 * A package is written in its installer's syntax: NAME==VERSION for Python, NAME@VERSION for
 * JavaScript. The version is exact, because the packages are part of a layer's identity, and
 * "the newest" would mean something else tomorrow. Dependencies of packages are resolved by the
 * installer.
 *
 * Python's registry treats My.Package, my_package and my-package as the same name (PEP 503); here, and
 * in the lists, all are written the last way. The words are sorted, so that the same packages in
 * another order use the same layer.
 *
 * The lists protect against names that imitate others. They don't say anything about what a package
 * does: that is what the sandbox is for.
 */

#define LIST_MAX      (16u << 20)
#define NAME_MOST     214u

#define NAME_CHARS    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
#define VERSION_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.!+_-"

static const struct kind {
	const char *language, *separator, *example;
} kinds[] = {
	[PACKAGES_PYTHON] = {"python", "==", "pandas==2.3.3"},
	[PACKAGES_NPM] = {"javascript", "@", "lodash@4.17.21"},
};

/* ---- names ---- */

/* As the registry writes it, in place. */
static void normalize(enum packages_kind kind, char *name)
{
	char *to = name;

	if (kind != PACKAGES_PYTHON)
		return;
	for (const char *p = name; *p; p++) {
		const char c = strchr("._-", *p) ? '-' : (char)tolower((unsigned char)*p);

		if (c != '-' || to == name || to[-1] != '-')
			*to++ = c;
	}
	*to = '\0';
}

static bool part_ok(const char *name, size_t len)
{
	return len > 0 && isalnum((unsigned char)name[0]) && strspn(name, NAME_CHARS) >= len;
}

static bool name_ok(enum packages_kind kind, const char *name)
{
	const size_t len = strlen(name);
	const char *slash;

	if (!len || len > NAME_MOST)
		return false;
	if (kind == PACKAGES_PYTHON)
		return part_ok(name, len) && isalnum((unsigned char)name[len - 1]);
	if (name[0] != '@')
		return part_ok(name, len);
	slash = strchr(name, '/');
	return slash && part_ok(name + 1, (size_t)(slash - name - 1)) &&
	       part_ok(slash + 1, strlen(slash + 1));
}

/* Extras: [socks] or [a,b]. */
static bool extras_ok(const char *text)
{
	size_t len = strlen(text);

	return len > 2 && text[len - 1] == ']' && isalnum((unsigned char)text[1]) &&
	       strspn(text + 1, NAME_CHARS ",") == len - 2;
}

static bool version_ok(const char *version)
{
	const size_t len = strlen(version);

	return len > 0 && isdigit((unsigned char)version[*version == 'v' && len > 1]) &&
	       strspn(version, VERSION_CHARS) == len;
}

/* ---- lists ---- */

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint64_t letters_of(const char *name)
{
	uint64_t bits = 0;

	for (; *name; name++)
		bits |= 1ull << (*name & 63);
	return bits;
}

int packages_load(struct packages_list *l, enum packages_kind kind, const char *path)
{
	struct buf text = {.limit = LIST_MAX};
	size_t lines = 1;
	char *rest, *line;
	int r = buf_load(&text, path);

	*l = (struct packages_list){0};
	if (r < 0 || !buf_str(&text)) {
		buf_clear(&text);
		return r < 0 ? r : -ENOMEM;
	}
	l->text = text.data;
	for (const char *p = l->text; *p; p++)
		lines += *p == '\n';
	l->name = calloc(lines, sizeof(*l->name));
	if (!l->name)
		return -ENOMEM;
	rest = l->text;
	while ((line = strsep(&rest, "\n"))) {
		line += strspn(line, " \t");
		line[strcspn(line, " \t\r")] = '\0';
		if (!*line || *line == '#')
			continue;
		normalize(kind, line);
		l->name[l->n++] = line;
	}
	qsort(l->name, l->n, sizeof(*l->name), compare);
	l->letters = calloc(l->n + 1, sizeof(*l->letters));
	if (!l->letters)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		l->letters[i] = letters_of(l->name[i]);
	return 0;
}

void packages_clear(struct packages_list *l)
{
	free(l->text);
	free(l->name);
	free(l->letters);
	*l = (struct packages_list){0};
}

static bool listed(const struct packages_list *l, const char *name)
{
	return l->any || (l->n && bsearch(&name, l->name, l->n, sizeof(*l->name), compare));
}

/* How many letters have to be changed, added, left out or swapped; more than @most counts as most + 1. */
static unsigned distance(const char *a, const char *b, unsigned most)
{
	unsigned row[3][NAME_MOST + 2];
	const size_t la = strlen(a), lb = strlen(b);

	if (la > NAME_MOST || lb > NAME_MOST || (la > lb ? la - lb : lb - la) > most)
		return most + 1;
	for (size_t j = 0; j <= lb; j++)
		row[0][j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned *now = row[i % 3], *last = row[(i - 1) % 3], *older = row[(i + 1) % 3];
		unsigned least = now[0] = (unsigned)i;

		for (size_t j = 1; j <= lb; j++) {
			now[j] = MIN(MIN(last[j], now[j - 1]) + 1,
				     last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = MIN(now[j], older[j - 2] + 1);
			least = MIN(least, now[j]);
		}
		if (least > most)
			return most + 1;
	}
	return row[la % 3][lb];
}

/* The name of the list that looks most like @name, or NULL if none does. A change alters two letters at
 * most, which spares most names the closer look: this is done while everybody else waits. */
static const char *closest(const struct packages_list *l, const char *name)
{
	unsigned most = strlen(name) > 4 ? 2 : 1;
	const uint64_t letters = letters_of(name);
	const char *best = NULL;

	for (size_t i = 0; i < l->n; i++) {
		unsigned d;

		if ((unsigned)__builtin_popcountll(letters ^ l->letters[i]) > 2 * most)
			continue;
		d = distance(name, l->name[i], most);
		if (d > most || (best && d == most))
			continue;
		best = l->name[i];
		most = d;
	}
	return best;
}

/* ---- the packages ---- */

static int refuse_unlisted(struct problem *why, enum packages_kind kind,
			   const struct packages_list *l, const char *name)
{
	const char *like = closest(l, name);
	const char *of = kind == PACKAGES_PYTHON ? "python" : "npm";
	char fix[512];

	snprintf(fix, sizeof(fix),
		 "%s%.200s%sFor other names, who mounted this writes %s_list = any under "
		 "[packages] in "
		 "xsbxfs.conf, or the path of a file with those that may be had, one a line, "
		 "and mounts again.",
		 like ? "Did you mean " : "", like ? like : "",
		 like ? "? Then write that in packages. " : "", of);
	return problem_set(
		why, PROBLEM_NOT_LISTED, fix,
		"packages: \"%s\" is not in the list of names that may be installed here",
		problem_quote(name).text);
}

/* Takes a word apart, checks its parts, and writes it anew. @open: it may have no version. */
static int settle_word(const char *word, enum packages_kind kind, const struct packages_list *l,
		       bool open, char out[PACKAGES_WORD_MAX + 1], struct problem *why)
{
	const struct kind *k = &kinds[kind];
	char name[PACKAGES_WORD_MAX + 1], extras[PACKAGES_WORD_MAX + 1] = "", fix[256];
	const char *at = strstr(word + 1, k->separator), *version;
	char *bracket;

	snprintf(fix, sizeof(fix), "Write NAME%sVERSION with the exact version, e.g. %s.",
		 k->separator, k->example);
	if (strlen(word) > PACKAGES_WORD_MAX)
		return problem_set(why, PROBLEM_INVALID, fix, "packages: \"%s\" is too long",
				   problem_quote(word).text);
	if (!at && open)
		at = version = word + strlen(word);
	else if (at)
		version = at + strlen(k->separator);
	else
		return problem_set(why, PROBLEM_INVALID, fix,
				   "packages: \"%s\" has no exact version",
				   problem_quote(word).text);
	snprintf(name, sizeof(name), "%.*s", (int)(at - word), word);
	bracket = kind == PACKAGES_PYTHON ? strchr(name, '[') : NULL;
	if (bracket) {
		snprintf(extras, sizeof(extras), "%s", bracket);
		*bracket = '\0';
	}
	if (!name_ok(kind, name) || (bracket && !extras_ok(extras)))
		return problem_set(why, PROBLEM_INVALID, fix,
				   "packages: \"%s\" does not begin with a package's name",
				   problem_quote(word).text);
	if (*at && !version_ok(version))
		return problem_set(why, PROBLEM_INVALID, fix,
				   "packages: \"%s\" is no exact version of %s",
				   problem_quote(version).text, problem_quote(name).text);
	normalize(kind, name);
	if (!listed(l, name))
		return refuse_unlisted(why, kind, l, name);
	/* Nothing has grown. */
	snprintf(out, PACKAGES_WORD_MAX + 1, "%s%s", name, extras);
	if (*at)
		strncat(out, k->separator, PACKAGES_WORD_MAX - strlen(out));
	strncat(out, version, PACKAGES_WORD_MAX - strlen(out));
	return 0;
}

static bool same_name(const char *a, const char *b)
{
	const size_t len = 1 + strcspn(a + 1, "=@[");

	return len == 1 + strcspn(b + 1, "=@[") && strncmp(a, b, len) == 0;
}

struct words {
	char text[PACKAGES_MAX][PACKAGES_WORD_MAX + 1];
	char *sorted[PACKAGES_MAX];
	size_t n;
};

static int settle_all(char *text, enum packages_kind kind, const struct packages_list *l, bool open,
		      struct words *w, struct problem *why)
{
	char *save = NULL;

	for (char *word = strtok_r(text, " \t,", &save); word;
	     word = strtok_r(NULL, " \t,", &save)) {
		int r;

		if (w->n == PACKAGES_MAX)
			return problem_set(why, PROBLEM_TOO_MANY, "Name fewer.",
					   "packages: there are more than %d", PACKAGES_MAX);
		r = settle_word(word, kind, l, open, w->text[w->n], why);
		if (r < 0)
			return r;
		w->sorted[w->n] = w->text[w->n];
		w->n++;
	}
	qsort(w->sorted, w->n, sizeof(w->sorted[0]), compare);
	return 0;
}

static int join(const struct words *w, struct buf *out, struct problem *why)
{
	int r = 0;

	for (size_t i = 0; i < w->n && r >= 0; i++) {
		const char *word = w->sorted[i], *last = i ? w->sorted[i - 1] : NULL;

		if (last && strcmp(last, word) == 0)
			continue;
		if (last && same_name(last, word))
			return problem_set(why, PROBLEM_CONFLICT, "Name each package once.",
					   "packages: \"%s\" and \"%s\" are one package",
					   problem_quote(last).text, problem_quote(word).text);
		r = buf_printf(out, "%s%s", i ? " " : "", word);
	}
	return r;
}

int packages_settle(char **words, const char *language, const struct packages_rules *rules,
		    bool open, struct problem *ret_why)
{
	_cleanup_free_ struct words *w = NULL;
	_cleanup_free_ char *copy = NULL;
	struct buf out = {.limit = PACKAGES_TEXT_MAX};
	enum packages_kind kind = 0;
	char *settled = NULL;
	int r;

	if (!**words)
		return 0;
	while (kind < PACKAGES_NKINDS && strcmp(kinds[kind].language, language) != 0)
		kind++;
	if (kind == PACKAGES_NKINDS)
		return problem_set(ret_why, PROBLEM_INVALID,
				   "Leave it empty, or use a template of python or javascript.",
				   "packages: there are none for the language %s", language);
	w = calloc(1, sizeof(*w));
	copy = strdup(*words);
	if (!w || !copy)
		return -ENOMEM;
	r = settle_all(copy, kind, &rules->list[kind], open, w, ret_why);
	if (r == 0)
		r = join(w, &out, ret_why);
	if (r == -EFBIG)
		r = problem_set(ret_why, PROBLEM_TOO_MANY, "Name fewer.",
				"packages: they take more than %d bytes", PACKAGES_TEXT_MAX);
	if (r >= 0) {
		settled = strndup(out.len ? out.data : "", out.len);
		r = settled ? 0 : -ENOMEM;
	}
	if (settled) {
		free(*words);
		*words = settled;
	}
	buf_clear(&out);
	return r;
}
