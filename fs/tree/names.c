/* SPDX-License-Identifier: Apache-2.0 */
/* Creating, removing and renaming names of the fixed tree. See names.h. */
#include "names.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "dir.h"
#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/quota.h"
#include "fs/session/scratch.h"
#include "fs/session/session.h"
#include "nodes.h"
#include "table.h"

int names_mkdir(const struct node *dir, const char *name, const struct req_ctx *ctx,
		struct node *ret_n)
{
	struct session *s;
	struct node old;
	struct job *j;
	int e;

	if (dir_lookup(dir, name, &old) == 0 || node_child(dir->kind, name) != NODE_NONE)
		return -EEXIST;
	if (dir->kind == NODE_JOBS || dir->kind == NODE_RUNS) {
		e = job_create(dir->s, name, dir->kind == NODE_RUNS, &j);
		if (e < 0)
			return e;
		return node_resolve(dir->fs, node_of_session(dir->s, NODE_JOB, j->number), ret_n);
	}
	if (dir->kind != NODE_TEMPLATE)
		return -EPERM;
	e = session_create(dir->fs, dir->template_index, name, ctx->uid, ctx->gid, &s);
	if (e < 0)
		return e;
	return node_resolve(dir->fs, node_of_session(s, NODE_SESSION, 0), ret_n);
}

int names_rmdir(const struct node *dir, const char *name)
{
	struct node n;
	int e = dir_lookup(dir, name, &n);

	if (e < 0)
		return e;
	if (!S_ISDIR(node_defs[n.kind].mode))
		return -ENOTDIR;
	switch ((int)n.kind) {
	case NODE_SESSION: session_destroy(n.s); return 0;
	case NODE_RUN: return session_remove_run(n.s, n.sub);
	case NODE_JOB: job_remove(n.job); return 0;
	case NODE_FILES:
	case NODE_JOBS:
	case NODE_NET:
	case NODE_RUNS: n.s->dir_epoch++; return 0;
	default: return -EPERM;
	}
}

int names_unlink(const struct node *dir, const char *name)
{
	struct scratch_file *f;
	struct node n;
	int e = dir_lookup(dir, name, &n);

	if (e < 0)
		return e;
	if (S_ISDIR(node_defs[n.kind].mode))
		return -EISDIR;
	if (!n.s)
		return -EPERM;
	if (n.kind == NODE_SCRATCH) {
		f = scratch_by_id(n.s, n.sub);
		if (f)
			scratch_unlink(n.s, f);
	} else if (n.kind == NODE_IN || n.kind == NODE_JOB_IN) {
		n.front->in_absent = true;
	}
	return 0;
}

int names_create(const struct node *dir, const char *name, mode_t mode, struct node *ret_n)
{
	struct scratch_file *f;
	int e;

	if (dir->kind == NODE_JOB && !strcmp(name, "in")) {
		e = job_can_start(dir->job, true);
		if (e < 0)
			return e;
		dir->front->in_absent = false;
		return node_resolve(dir->fs, node_sibling(dir, NODE_JOB_IN, dir->sub), ret_n);
	}
	if (!scratch_takes(dir->kind))
		return -EPERM;
	if (dir->kind == NODE_SESSION && !strcmp(name, "in")) {
		e = session_can_submit(dir->s);
		if (e < 0)
			return e;
		dir->s->front.in_absent = false;
		return node_resolve(dir->fs, node_of_session(dir->s, NODE_IN, 0), ret_n);
	}
	if (node_child(dir->kind, name) != NODE_NONE)
		return -EPERM; /* exit_code, before there is one */
	e = scratch_create(dir->s, dir->kind, name, mode, NULL, &f);
	if (e < 0)
		return e;
	return node_resolve(dir->fs, node_of_session(dir->s, NODE_SCRATCH, f->id), ret_n);
}

/* ---- rename ---- */

/* Writes the content of @f to the node @to. */
static int take(struct session *s, struct scratch_file *f, enum node_kind to)
{
	struct buf code = {0};
	int e;

	if (to == NODE_CONFIG)
		return config_replace(s, f->data.data, f->data.len);
	if (to == NODE_NET_ALLOW)
		return config_allow(s, f->data.data, f->data.len);
	if (to == NODE_STDIN) {
		buf_clear(&s->front.next_stdin);
		s->front.stdin_taken++;
		s->front.stdin_mtime = f->mtime;
		return buf_append(&s->front.next_stdin, f->data.data, f->data.len);
	}
	if (to != NODE_IN)
		return -EPERM;
	if (!f->data.len) {
		s->front.in_absent = false;
		return 0; /* as with `> in`: no program, no run */
	}
	e = input_check(&s->front, f->data.data, f->data.len, 0);
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

	if (s->front.in_absent)
		return -ENOENT;
	if (node_child(to_dir, to) != NODE_NONE)
		return -EPERM;
	e = quota_take(s, scratch_goes(old) ? old->data.len : 0, s->front.last_code.len);
	if (e == 0)
		e = scratch_create(s, to_dir, to, 0600, old, &f);
	if (e < 0)
		return e;
	assert(f);
	if (buf_append(&f->data, s->front.last_code.data, s->front.last_code.len) < 0) {
		scratch_unlink(s, f);
		return -ENOMEM;
	}
	if (old)
		scratch_unlink(s, old);
	s->front.in_absent = true;
	return 0;
}

static int rename_scratch(struct session *s, enum node_kind from_dir, const char *from,
			  enum node_kind to_dir, const char *to, unsigned flags)
{
	struct scratch_file *f = scratch_find(s, from_dir, from), *old;
	enum node_kind node = node_child(to_dir, to), moved = node_child(from_dir, from);
	bool in_is_free = node == NODE_IN && s->front.in_absent;
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
	scratch_touch(s, f->dir);
	f->dir = to_dir;
	scratch_touch(s, f->dir);
	return 0;
}

int names_rename(const struct node *dir, const char *name, const struct node *newdir,
		 const char *newname, unsigned flags)
{
	if (!scratch_takes(dir->kind) || !scratch_takes(newdir->kind))
		return dir->kind == newdir->kind ? -EPERM : -EXDEV;
	if (dir->s != newdir->s)
		return -EXDEV;
	return rename_scratch(dir->s, dir->kind, name, newdir->kind, newname, flags);
}
