/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch files: temporary files of editors and copying tools next to `in`, also of a job, or net/allow. */
#include "scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs.h"
#include "quota.h"
#include "session.h"
#include "touch.h"

static void drop(struct session *s, struct scratch_file *f)
{
	struct scratch *sc = &s->scratch;

	touch_scratch_gone(s, f);
	TAILQ_REMOVE(&sc->files, f, link);
	sc->n--;
	buf_clear(&f->data);
	free(f);
}

bool scratch_takes(enum node_kind dir)
{
	return dir == NODE_SESSION || dir == NODE_NET || dir == NODE_JOB;
}

/* A file was added to a directory, or removed from it; a job's has the time of its run. */
static void touch(struct session *s, uint64_t dir)
{
	keeping_changed(s);
	switch ((int)ino_kind(dir)) {
	case NODE_NET: s->net_changed = clock_now(); break;
	case NODE_SESSION: s->changed = clock_now(); break;
	default: break;
	}
}

struct scratch_file *scratch_find(const struct node *dir, const char *name)
{
	struct scratch_file *f;

	TAILQ_FOREACH(f, &dir->s->scratch.files, link)
		if (!f->unlinked && f->dir == dir->ino && !strcmp(f->name, name))
			return f;
	return NULL;
}

struct scratch_file *scratch_by_id(const struct session *s, uint32_t id)
{
	struct scratch_file *f;

	TAILQ_FOREACH(f, &s->scratch.files, link)
		if (f->id == id)
			return f;
	return NULL;
}

bool scratch_goes(const struct scratch_file *f)
{
	return f && !f->opens;
}

int scratch_create(const struct node *dir, const char *name, mode_t mode,
		   const struct scratch_file *old, struct scratch_file **ret_f)
{
	struct session *s = dir->s;
	struct scratch_file *f;

	if (strlen(name) >= sizeof(f->name))
		return -ENAMETOOLONG;
	if (s->scratch.n - scratch_goes(old) >= SCRATCH_FILES_MAX) {
		front_problemf(dir->front, PROBLEM_TOO_MANY_FILES, "Keep files below files/.",
			       "a session's directories take at most %u files of other names",
			       SCRATCH_FILES_MAX);
		return -EDQUOT;
	}
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->id = ++s->scratch.last_id;
	f->mode = mode & 0777;
	f->data.limit = SCRATCH_SIZE_MAX;
	f->dir = dir->ino;
	f->front = dir->front;
	f->mtime = clock_now();
	touch(s, f->dir);
	snprintf(f->name, sizeof(f->name), "%s", name);
	TAILQ_INSERT_TAIL(&s->scratch.files, f, link);
	s->scratch.n++;
	touch_scratch(s, f);
	touch_session(s);
	*ret_f = f;
	return 0;
}

void scratch_close(struct session *s, struct scratch_file *f)
{
	if (--f->opens == 0 && f->unlinked)
		drop(s, f);
}

void scratch_unlink(struct session *s, struct scratch_file *f)
{
	touch(s, f->dir);
	touch_scratch(s, f);
	f->unlinked = true;
	f->front = &s->front;
	if (!f->opens)
		drop(s, f);
}

int scratch_rename(struct scratch_file *f, const struct node *to_dir, const char *to)
{
	if (strlen(to) >= sizeof(f->name))
		return -ENAMETOOLONG;
	snprintf(f->name, sizeof(f->name), "%s", to);
	touch(to_dir->s, f->dir);
	touch(to_dir->s, to_dir->ino);
	touch_scratch(to_dir->s, f);
	f->dir = to_dir->ino;
	f->front = to_dir->front;
	return 0;
}

void scratch_unlink_all(struct session *s, uint64_t dir)
{
	struct scratch_file *f, *next;

	for (f = TAILQ_FIRST(&s->scratch.files); f; f = next) {
		next = TAILQ_NEXT(f, link);
		if (!f->unlinked && (!dir || f->dir == dir))
			scratch_unlink(s, f);
	}
}

int scratch_may_grow(struct session *s, const struct scratch_file *f, uint64_t size)
{
	if (s->dead)
		return -ESTALE;
	if (size <= f->data.limit)
		return quota_take(s, f->data.len, (size_t)size);
	front_problemf(f->front, PROBLEM_TOO_LONG, "Put it into files/.",
		       "a file beside the nodes may be at most %u bytes long", SCRATCH_SIZE_MAX);
	return -EFBIG;
}

int scratch_resize(struct session *s, struct scratch_file *f, uint64_t size)
{
	int e = scratch_may_grow(s, f, size);

	if (e < 0)
		return e;
	f->mtime = clock_now();
	touch_scratch(s, f);
	return buf_truncate(&f->data, (size_t)size);
}
