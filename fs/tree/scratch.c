/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch files: what editors and copying tools put beside `in` or net/allow for a moment. */
#include "scratch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "settings_node.h"
#include "fs/mount.h"
#include "fs/session/quota.h"
#include "input.h"
#include "fs/session/session.h"
#include "text.h"

void scratch_init(struct scratch *sc)
{
	*sc = (struct scratch){0};
	TAILQ_INIT(&sc->files);
}

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

/* A file came to a directory, or went from it. */
static void touch(struct session *s, enum node_kind dir)
{
	*(dir == NODE_NET ? &s->net_changed : &s->changed) = fs_now();
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

/* Does it go with its name? */
static bool goes(const struct scratch_file *f)
{
	return f && !f->opens;
}

/* @old: of that name, to be unlinked then, or NULL. */
static int create_over(struct session *s, enum node_kind dir, const char *name, mode_t mode,
		       const struct scratch_file *old, struct scratch_file **ret_f)
{
	struct scratch_file *f;

	if (strlen(name) >= sizeof(f->name))
		return -ENAMETOOLONG;
	if (s->scratch.n - goes(old) >= SCRATCH_FILES_MAX) {
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
	f->mtime = fs_now();
	touch(s, dir);
	snprintf(f->name, sizeof(f->name), "%s", name);
	TAILQ_INSERT_TAIL(&s->scratch.files, f, link);
	s->scratch.n++;
	*ret_f = f;
	return 0;
}

int scratch_create(struct session *s, enum node_kind dir, const char *name, mode_t mode,
		   struct scratch_file **ret_f)
{
	return create_over(s, dir, name, mode, NULL, ret_f);
}

void scratch_unlink(struct session *s, struct scratch_file *f)
{
	touch(s, f->dir);
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

/* The content of @f becomes that of the node @to. */
static int take(struct session *s, struct scratch_file *f, enum node_kind to)
{
	struct buf code = {0};
	int e;

	if (to == NODE_CONFIG)
		return config_replace(s, f->data.data, f->data.len);
	if (to == NODE_NET_ALLOW)
		return config_allow(s, f->data.data, f->data.len);
	if (to == NODE_STDIN) {
		buf_clear(&s->next_stdin);
		s->stdin_taken++;
		s->stdin_mtime = f->mtime;
		return buf_append(&s->next_stdin, f->data.data, f->data.len);
	}
	if (to != NODE_IN)
		return -EPERM;
	if (!f->data.len) {
		s->in_absent = false;
		return 0; /* as with `> in`: no program, no run */
	}
	e = input_check(s, f->data.data, f->data.len, 0);
	if (e == 0)
		e = buf_append(&code, f->data.data, f->data.len);
	if (e == 0)
		e = session_submit(s, &code, &f->mtime);
	buf_clear(&code);
	return e;
}

/* Editors that keep a backup move `in` away before they write it anew. */
static int move_in_away(struct session *s, enum node_kind to_dir, const char *to)
{
	struct scratch_file *old = scratch_find(s, to_dir, to), *f = NULL;
	int e;

	if (s->in_absent)
		return -ENOENT;
	if (node_child(to_dir, to) != NODE_NONE)
		return -EPERM;
	e = quota_take(s->fs, s, goes(old) ? old->data.len : 0, s->last_code.len);
	if (e == 0)
		e = create_over(s, to_dir, to, 0600, old, &f);
	if (e < 0)
		return e;
	assert(f);
	if (buf_append(&f->data, s->last_code.data, s->last_code.len) < 0) {
		scratch_unlink(s, f);
		return -ENOMEM;
	}
	if (old)
		scratch_unlink(s, old);
	s->in_absent = true;
	return 0;
}

int scratch_rename(struct session *s, enum node_kind from_dir, const char *from,
		   enum node_kind to_dir, const char *to, unsigned flags)
{
	struct scratch_file *f = scratch_find(s, from_dir, from), *old;
	enum node_kind node = node_child(to_dir, to), moved = node_child(from_dir, from);
	bool in_is_free = node == NODE_IN && s->in_absent;
	int e;

	if (flags & ~(unsigned)RENAME_NOREPLACE)
		return -EINVAL;
	old = scratch_find(s, to_dir, to);
	if ((flags & RENAME_NOREPLACE) && (old || (node != NODE_NONE && !in_is_free)))
		return -EEXIST;
	if (!f && moved == NODE_IN)
		return move_in_away(s, to_dir, to);
	if (!f)
		return moved == NODE_NONE ? -ENOENT : -EPERM;
	if (strlen(to) >= sizeof(f->name))
		return -ENAMETOOLONG;
	if (node != NODE_NONE) {
		e = take(s, f, node);
		if (e == 0)
			scratch_unlink(s, f);
		return e;
	}
	if (old == f)
		return 0;
	if (old)
		scratch_unlink(s, old);
	snprintf(f->name, sizeof(f->name), "%s", to);
	touch(s, f->dir);
	f->dir = to_dir;
	touch(s, f->dir);
	return 0;
}

/* ---- open handles ---- */

static int scratch_open(struct fs *fs, struct handle *h, const struct node *n)
{
	struct scratch_file *f = scratch_by_id(n->s, n->sub);

	(void)fs;
	if (!f)
		return -ESTALE;
	f->opens++;
	h->remote = f->id;
	if (h->flags & O_TRUNC) {
		buf_clear(&f->data);
		f->mtime = fs_now();
	}
	return 0;
}

/* An open handle keeps its file. */
static struct scratch_file *file_of(struct handle *h)
{
	return scratch_by_id(h->s, (uint32_t)h->remote);
}

static void scratch_read(struct fs *fs, struct handle *h, struct req *req, size_t size,
			 uint64_t offset, bool nonblock)
{
	(void)fs;
	(void)nonblock;
	text_reply(req, &file_of(h)->data, size, offset);
}

uint64_t scratch_bytes(const struct session *s)
{
	const struct scratch_file *f;
	uint64_t n = 0;

	TAILQ_FOREACH(f, &s->scratch.files, link)
		n += f->data.len;
	return n;
}

static int scratch_write(struct fs *fs, struct handle *h, const void *data, size_t size,
			 uint64_t offset)
{
	struct scratch_file *f = file_of(h);
	const uint64_t to = MIN(offset, (uint64_t)f->data.limit) + size;
	int e;

	if (h->s->dead)
		return -ESTALE;
	e = to > f->data.limit ? -EFBIG : quota_take(fs, h->s, f->data.len, (size_t)to);
	if (e < 0)
		return e;
	f->mtime = fs_now();
	return buf_write_at(&f->data, offset, data, size);
}

int scratch_resize(struct session *s, struct scratch_file *f, uint64_t size)
{
	int e;

	if (s->dead)
		return -ESTALE;
	e = size > f->data.limit ? -EFBIG : quota_take(s->fs, s, f->data.len, (size_t)size);
	if (e < 0)
		return e;
	f->mtime = fs_now();
	return buf_truncate(&f->data, (size_t)size);
}

static int scratch_truncate(struct fs *fs, struct handle *h, uint64_t size)
{
	(void)fs;
	return scratch_resize(h->s, file_of(h), size);
}

static void scratch_release(struct fs *fs, struct handle *h)
{
	struct scratch_file *f = file_of(h);

	(void)fs;
	if (--f->opens == 0 && f->unlinked)
		drop(&h->s->scratch, f);
}

const struct handle_ops scratch_ops = {
	.open = scratch_open,
	.read = scratch_read,
	.write = scratch_write,
	.truncate = scratch_truncate,
	.release = scratch_release,
};
