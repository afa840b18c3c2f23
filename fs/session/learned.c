/* SPDX-License-Identifier: Apache-2.0 */
/* What a session's sandboxes have used while they learnt. See learned.h. */
#include "learned.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "fs/config/learn.h"
#include "fs/request/clock.h"
#include "session.h"
#include "vm/base/path.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Of a file that was read, the agent tells the directory, or, at the top of the host, the file itself; what was written to, or made
 * in, is shown itself. What lies in another that is shown is left out; and where there are more
 * than may be, the deepest are taken together. Limits are twice what was seen, but not more than what it had.
 */

#define PROCESSES_LEAST 64u
#define MEMORY_LEAST_MB 128u
#define MISSED_SHOWN	32u

/* ---- what is known ---- */

static int place(const struct learned *l, const char *text, size_t *ret_at)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const int order = strcmp(text, l->text[middle]);

		if (order == 0)
			return 0;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	*ret_at = low;
	return -ENOENT;
}

static void add_path(struct learned *l, enum proto_learned kind, struct proto_str path)
{
	char text[PROTO_PATH_MAX + 2], **more;
	size_t at;

	text[0] = (char)kind;
	memcpy(text + 1, path.data, path.len);
	text[1 + path.len] = '\0';
	if (place(l, text, &at) == 0 || l->n == LEARNED_PATHS ||
	    l->bytes + path.len > LEARNED_BYTES)
		return;
	if (l->n == l->cap) {
		more = realloc((void *)l->text, (l->cap + 64) * sizeof(*more));
		if (!more)
			return;
		l->text = more;
		l->cap += 64;
	}
	memmove((void *)(l->text + at + 1), (void *)(l->text + at), (l->n - at) * sizeof(*l->text));
	l->text[at] = strdup(text);
	if (!l->text[at]) {
		memmove((void *)(l->text + at), (void *)(l->text + at + 1),
			(l->n - at) * sizeof(*l->text));
		return;
	}
	l->n++;
	l->bytes += path.len;
}

void learned_add(struct learned *l, const struct sandbox_learned *what)
{
	l->processes = MAX(l->processes, what->processes);
	l->memory_kib = MAX(l->memory_kib, what->memory_kib);
	l->mtime = clock_now();
	if (what->kind && what->path.len <= PROTO_PATH_MAX)
		add_path(l, what->kind, what->path);
}

void learned_clear(struct learned *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->text[i]);
	free((void *)l->text);
	*l = (struct learned){0};
}

bool learned_is_there(const struct session *s)
{
	return (s->settings.learn && s->settings.spec.backend == VM_PROCESS) || s->learned.n ||
	       s->learned.processes;
}

/* ---- which directories ---- */

/* Paths of one key, as the sandbox sees them; sorted, none within another. */
struct cover {
	char *path[LEARNED_PATHS];
	size_t n;
};

struct covers {
	struct vm_path view[VM_PATHS_MAX];
	size_t nview;
	struct cover ro, rw;
};

/* What of the view it lies in, or NULL: it is the sandbox's own. */
static const struct vm_path *shown_by(const struct covers *c, const char *path)
{
	const struct vm_path *best = NULL;

	for (size_t i = 0; i < c->nview; i++) {
		const struct vm_path *v = &c->view[i];

		if (path_is_within(path, v->target) &&
		    (!best || strlen(v->target) >= strlen(best->target)))
			best = v;
	}
	return best;
}

static void cut(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
}

static int put(struct cover *to, const char *path)
{
	to->path[to->n] = strdup(path);
	if (!to->path[to->n])
		return -ENOMEM;
	to->n++;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static bool is_covered(const struct cover *c, const char *path)
{
	for (size_t i = 0; i < c->n; i++) {
		if (path_is_within(path, c->path[i]))
			return true;
	}
	return false;
}

/* Leaves out what lies in another, or in one of @beside. */
static void tidy(struct cover *c, const struct cover *beside)
{
	struct cover kept = {.n = 0};

	qsort((void *)c->path, c->n, sizeof(c->path[0]), compare);
	for (size_t i = 0; i < c->n; i++) {
		if (is_covered(&kept, c->path[i]) || (beside && is_covered(beside, c->path[i])))
			free(c->path[i]);
		else
			kept.path[kept.n++] = c->path[i];
	}
	memcpy((void *)c->path, (void *)kept.path, kept.n * sizeof(kept.path[0]));
	c->n = kept.n;
}

static unsigned depth_of(const char *path)
{
	unsigned n = 0;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* Takes the deepest together, up to @most. What is in view is as far as it goes. */
static void shorten(struct covers *all, struct cover *c, size_t most)
{
	while (c->n > most) {
		size_t deepest = c->n;
		unsigned depth = 0;

		for (size_t i = 0; i < c->n; i++) {
			const struct vm_path *v = shown_by(all, c->path[i]);

			if (v && strcmp(v->target, c->path[i]) != 0 &&
			    depth_of(c->path[i]) > depth) {
				depth = depth_of(c->path[i]);
				deepest = i;
			}
		}
		if (deepest == c->n)
			return;
		cut(c->path[deepest]);
		tidy(c, NULL);
	}
}

static int take(struct covers *all, const char *text)
{
	if (!shown_by(all, text + 1) ||
	    (text[0] != PROTO_LEARNED_READ && text[0] != PROTO_LEARNED_WROTE))
		return 0;
	return put(text[0] == PROTO_LEARNED_WROTE ? &all->rw : &all->ro, text + 1);
}

/* A directory that was only looked at is there if anything in it is shown. */
static int take_seen(struct covers *all, const char *text)
{
	const char *path = text + 1;
	bool there = text[0] != PROTO_LEARNED_SEEN || !shown_by(all, path) ||
		     is_covered(&all->ro, path) || is_covered(&all->rw, path);

	for (size_t i = 0; i < all->ro.n; i++)
		there = there || path_is_within(all->ro.path[i], path);
	for (size_t i = 0; i < all->rw.n; i++)
		there = there || path_is_within(all->rw.path[i], path);
	return there ? 0 : put(&all->ro, path);
}

static void covers_free(struct covers *all)
{
	for (size_t i = 0; i < all->ro.n; i++)
		free(all->ro.path[i]);
	for (size_t i = 0; i < all->rw.n; i++)
		free(all->rw.path[i]);
	free(all);
}

static int covers_new(const struct session *s, struct covers **ret)
{
	struct covers *all = calloc(1, sizeof(*all));
	int r = all ? 0 : -ENOMEM;

	if (!all)
		return r;
	all->nview = learn_view(&s->t->settings.spec, &s->fs->conf->learn, all->view);
	for (size_t i = 0; i < s->learned.n && r == 0; i++)
		r = take(all, s->learned.text[i]);
	for (size_t i = s->learned.n; i-- > 0 && r == 0;) /* what lies in another comes first */
		r = take_seen(all, s->learned.text[i]);
	if (r < 0) {
		covers_free(all);
		return r;
	}
	tidy(&all->rw, NULL);
	shorten(all, &all->rw, VM_PATHS_MAX / 2);
	tidy(&all->ro, &all->rw);
	shorten(all, &all->ro, VM_PATHS_MAX - MIN(all->rw.n, (size_t)VM_PATHS_MAX - 1));
	*ret = all;
	return 0;
}

/* ---- text ---- */

/* Where it lies on the host, and where it is seen if that is elsewhere. */
static int write_path(const struct covers *all, const char *path, struct buf *out)
{
	const struct vm_path *v = shown_by(all, path);
	const char *rest = path + strlen(v->target);

	if (strcmp(v->source, v->target) == 0)
		return buf_printf(out, " %s", path);
	return buf_printf(out, " %s%s:%s", v->source, rest, path);
}

static bool is_writable(const char *path)
{
	for (const char *p = path; *p; p++) {
		if ((unsigned char)*p <= ' ' || *p == ':' || *p == 0x7f)
			return false;
	}
	return true;
}

static int write_cover(const struct covers *all, const char *key, const struct cover *c,
		       struct buf *out)
{
	const size_t before = out->len;
	size_t n = 0;
	int r = buf_printf(out, "%s =", key);

	for (size_t i = 0; i < c->n && r == 0; i++) {
		if (!is_writable(c->path[i]))
			continue;
		r = write_path(all, c->path[i], out);
		n++;
	}
	if (r == 0 && !n)
		return buf_truncate(out, before);
	return r < 0 ? r : buf_append(out, "\n", 1);
}

static int write_missed(const struct session *s, struct buf *out)
{
	unsigned n = 0;
	int r = 0;

	for (size_t i = 0; i < s->learned.n && r == 0 && n < MISSED_SHOWN; i++) {
		const char *text = s->learned.text[i];

		if (text[0] != PROTO_LEARNED_MISSED || !is_writable(text + 1))
			continue;
		r = buf_printf(out, "%s%s", n++ ? " " : "# tried, and not there: ", text + 1);
	}
	return r < 0 || !n ? r : buf_append(out, "\n", 1);
}

static unsigned up(uint64_t value, unsigned step)
{
	return (unsigned)MIN((value + step - 1) / step * step, (uint64_t)UINT32_MAX / 2);
}

static int write_limits(const struct session *s, struct buf *out)
{
	const unsigned processes = up(s->learned.processes * 2ull, 32);
	uint64_t wall_us = 0, kib = s->learned.memory_kib;
	const struct settings *st = &s->settings;
	unsigned timeout, memory;
	const struct run *r;

	LIST_FOREACH(r, &s->kept_runs, kept) {
		wall_us = MAX(wall_us, r->result.wall_us);
		kib = MAX(kib, r->result.maxrss_kib);
	}
	timeout = up(wall_us * 2 / 1000000 + 1, 10);
	memory = up(kib * 2 / 1024 + 32, 32);
	memory = MAX(memory, MEMORY_LEAST_MB);
	return buf_printf(out, "processes = %u\nmemory_mb = %u\ntimeout_s = %u\n",
			  MIN(MAX(processes, PROCESSES_LEAST), st->spec.limits.processes),
			  MIN(memory, st->spec.memory_mb),
			  st->timeout_s ? MIN(timeout, st->timeout_s) : timeout);
}

int learned_write(const struct session *s, struct buf *out)
{
	struct covers *all;
	int r = covers_new(s, &all);

	if (r < 0)
		return r;
	r = buf_printf(out,
		       "# What %s has used while it learnt. To be pasted into xsbxfs.conf.\n"
		       "[template %s]\nbackend = process\nlanguage = %s\n",
		       s->path, s->name, s->settings.spec.language);
	if (r == 0 && *s->settings.spec.packages)
		r = buf_printf(out, "packages = %s\n", s->settings.spec.packages);
	if (r == 0)
		r = write_cover(all, "ro", &all->ro, out);
	if (r == 0)
		r = write_cover(all, "rw", &all->rw, out);
	if (r == 0)
		r = write_limits(s, out);
	if (r == 0)
		r = write_missed(s, out);
	covers_free(all);
	return r;
}
