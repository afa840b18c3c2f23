/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch files: temporary files of editors and copying tools next to `in` or net/allow. */
#include "scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs.h"
#include "quota.h"
#include "session.h"

static void drop(struct scratch *sc, struct scratch_file *f)
{
	TAILQ_REMOVE(&sc->files, f, link);
	sc->n--;
	buf_clear(&f->data);
	free(f);
}

bool scratch_takes(enum node_kind dir)
{
	return dir == NODE_SESSION || dir == NODE_NET;
}

void scratch_touch(struct session *s, enum node_kind dir)
{
	*(dir == NODE_NET ? &s->net_changed : &s->changed) = clock_now();
}

struct scratch_file *scratch_find(const struct session *s, enum node_kind dir, const char *name)
{
	struct scratch_file *f;

	TAILQ_FOREACH(f, &s->scratch.files, link)
		if (!f->unlinked && f->dir == dir && !strcmp(f->name, name))
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

int scratch_create(struct session *s, enum node_kind dir, const char *name, mode_t mode,
		   const struct scratch_file *old, struct scratch_file **ret_f)
{
	struct scratch_file *f;

	if (strlen(name) >= sizeof(f->name))
		return -ENAMETOOLONG;
	if (s->scratch.n - scratch_goes(old) >= SCRATCH_FILES_MAX) {
		session_problemf(s, PROBLEM_TOO_MANY_FILES, "Keep files below files/.",
				 "a session's directory takes at most %u files of other names",
				 SCRATCH_FILES_MAX);
		return -EDQUOT;
	}
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->id = ++s->scratch.last_id;
	f->mode = mode & 0777;
	f->data.limit = SCRATCH_SIZE_MAX;
	f->dir = dir;
	f->mtime = clock_now();
	scratch_touch(s, dir);
	snprintf(f->name, sizeof(f->name), "%s", name);
	TAILQ_INSERT_TAIL(&s->scratch.files, f, link);
	s->scratch.n++;
	*ret_f = f;
	return 0;
}

void scratch_close(struct session *s, struct scratch_file *f)
{
	if (--f->opens == 0 && f->unlinked)
		drop(&s->scratch, f);
}

void scratch_unlink(struct session *s, struct scratch_file *f)
{
	scratch_touch(s, f->dir);
	f->unlinked = true;
	if (!f->opens)
		drop(&s->scratch, f);
}

void scratch_unlink_all(struct session *s)
{
	struct scratch_file *f, *next;

	for (f = TAILQ_FIRST(&s->scratch.files); f; f = next) {
		next = TAILQ_NEXT(f, link);
		if (!f->unlinked)
			scratch_unlink(s, f);
	}
}

int scratch_may_grow(struct session *s, const struct scratch_file *f, uint64_t size)
{
	if (s->dead)
		return -ESTALE;
	if (size <= f->data.limit)
		return quota_take(s, f->data.len, (size_t)size);
	session_problemf(s, PROBLEM_TOO_LONG, "Put it into files/.",
			 "a file beside the nodes may be at most %u bytes long", SCRATCH_SIZE_MAX);
	return -EFBIG;
}

int scratch_resize(struct session *s, struct scratch_file *f, uint64_t size)
{
	int e = scratch_may_grow(s, f, size);

	if (e < 0)
		return e;
	f->mtime = clock_now();
	return buf_truncate(&f->data, (size_t)size);
}
