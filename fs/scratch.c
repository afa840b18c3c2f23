/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch files: what editors and copying tools put beside `in` for a moment. */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs.h"
#include "input.h"
#include "reply.h"
#include "session.h"

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

void scratch_fini(struct scratch *sc)
{
	struct scratch_file *f;

	while ((f = TAILQ_FIRST(&sc->files)))
		drop(sc, f);
}

struct scratch_file *scratch_find(const struct session *s, const char *name)
{
	struct scratch_file *f;

	TAILQ_FOREACH(f, &s->scratch.files, link)
		if (!f->unlinked && !strcmp(f->name, name))
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

int scratch_create(struct session *s, const char *name, mode_t mode, struct scratch_file **ret_f)
{
	struct scratch_file *f;

	if (strlen(name) >= sizeof(f->name))
		return -ENAMETOOLONG;
	if (s->scratch.n >= SCRATCH_FILES_MAX) {
		session_problemf(s, "too-many-files", "Keep files below files/.",
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
	f->mtime = s->changed = fs_now();
	snprintf(f->name, sizeof(f->name), "%s", name);
	TAILQ_INSERT_TAIL(&s->scratch.files, f, link);
	s->scratch.n++;
	*ret_f = f;
	return 0;
}

void scratch_unlink(struct session *s, struct scratch_file *f)
{
	s->changed = fs_now();
	f->unlinked = true;
	if (!f->opens)
		drop(&s->scratch, f);
}

/* The content of @f becomes that of the node @to. */
static int take(struct session *s, struct scratch_file *f, const char *to)
{
	struct buf code = {0};
	int e;

	if (!strcmp(to, "config"))
		return input_config(s, f->data.data, f->data.len);
	if (!strcmp(to, "stdin")) {
		buf_clear(&s->next_stdin);
		s->stdin_mtime = f->mtime;
		return buf_append(&s->next_stdin, f->data.data, f->data.len);
	}
	if (strcmp(to, "in"))
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
static int move_in_away(struct session *s, const char *to)
{
	struct scratch_file *f;
	int e;

	if (s->in_absent)
		return -ENOENT;
	if (node_child(NODE_SESSION, to) != NODE_NONE)
		return -EPERM;
	f = scratch_find(s, to);
	if (f)
		scratch_unlink(s, f);
	e = scratch_create(s, to, 0600, &f);
	if (e == 0)
		e = buf_append(&f->data, s->last_code.data, s->last_code.len);
	if (e == 0)
		s->in_absent = true;
	return e;
}

int scratch_rename(struct session *s, const char *from, const char *to, unsigned flags)
{
	struct scratch_file *f = scratch_find(s, from), *old;
	bool fixed = node_child(NODE_SESSION, to) != NODE_NONE;
	int e;

	if (flags & ~(unsigned)RENAME_NOREPLACE)
		return -EINVAL;
	if ((flags & RENAME_NOREPLACE) &&
	    (scratch_find(s, to) || (fixed && !(s->in_absent && !strcmp(to, "in")))))
		return -EEXIST;
	if (!f && !strcmp(from, "in"))
		return move_in_away(s, to);
	if (!f)
		return node_child(NODE_SESSION, from) == NODE_NONE ? -ENOENT : -EPERM;
	if (strlen(to) >= sizeof(f->name))
		return -ENAMETOOLONG;
	if (fixed) {
		e = take(s, f, to);
		if (e == 0)
			scratch_unlink(s, f);
		return e;
	}
	old = scratch_find(s, to);
	if (old == f)
		return 0;
	if (old)
		scratch_unlink(s, old);
	snprintf(f->name, sizeof(f->name), "%s", to);
	s->changed = fs_now();
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
	struct scratch_file *f = file_of(h);

	(void)fs;
	(void)nonblock;
	if (offset >= f->data.len)
		reply_buf(req, "", 0);
	else
		reply_buf(req, f->data.data + offset, MIN(size, f->data.len - (size_t)offset));
}

static int scratch_write(struct fs *fs, struct handle *h, const void *data, size_t size,
			 uint64_t offset)
{
	struct scratch_file *f = file_of(h);

	(void)fs;
	f->mtime = fs_now();
	return buf_write_at(&f->data, offset, data, size);
}

static int scratch_truncate(struct fs *fs, struct handle *h, uint64_t size)
{
	struct scratch_file *f = file_of(h);

	(void)fs;
	f->mtime = fs_now();
	return size > SCRATCH_SIZE_MAX ? -EFBIG : buf_truncate(&f->data, (size_t)size);
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
