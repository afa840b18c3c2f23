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
#include "question_node.h"
#include "table.h"

int names_mkdir(const struct node *dir, const char *name, const struct req_ctx *ctx,
		struct node *ret_n)
{
	struct checkpoint *cp;
	struct session *s;
	struct node old;
	struct job *j;
	int e;

	if (dir_lookup(dir, name, &old) == 0)
		return -EEXIST;
	if (node_child(dir->kind, name) != NODE_NONE) {
		if (dir->s)
			session_problemf(dir->s, PROBLEM_BAD_NAME, "Take another name.",
					 "\"%s\" is kept for a file of the session's", name);
		return -EEXIST;
	}
	if (dir->kind == NODE_JOBS || dir->kind == NODE_RUNS) {
		e = job_create(dir->s, name, dir->kind == NODE_RUNS, &j);
		if (e < 0)
			return e;
		return node_resolve(dir->fs, ino_of_session(dir->s, NODE_JOB, j->number), ret_n);
	}
	if (dir->kind == NODE_CHECKPOINTS) {
		e = session_checkpoint(dir->s, name, dir->s->settings.when == SAVE_IDLE, &cp);
		if (e < 0)
			return e;
		return node_resolve(dir->fs, ino_of_session(dir->s, NODE_CHECKPOINT, cp->number),
				    ret_n);
	}
	if (dir->kind != NODE_TEMPLATE)
		return -EPERM;
	e = session_create(dir->fs, dir->template_index, name, ctx->uid, ctx->gid, &s);
	if (e < 0)
		return e;
	return node_resolve(dir->fs, ino_of_session(s, NODE_SESSION, 0), ret_n);
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
	case NODE_SESSION: return session_remove(n.s);
	case NODE_RUN: return session_remove_run(n.s, n.sub);
	case NODE_JOB: job_remove(n.job); return 0;
	case NODE_CHECKPOINT: session_remove_checkpoint(n.s, n.checkpoint); return 0;
	case NODE_CHECKPOINT_FILES: return n.checkpoint->leaving ? 0 : -EROFS;
	case NODE_QUESTION: question_forget(n.s, n.question, n.fs->caller); return 0;
	case NODE_NET_PENDING:
	case NODE_NET_ALLOWED:
	case NODE_NET_DENIED:
	case NODE_CHECKPOINTS:
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
	} else if (n.kind == NODE_CHECKPOINT_STATUS) {
		/* rm -r of it, or of all above it, goes on below files/, where nothing can be removed. It ends with
		 * what removes all of it: then, and only then, it is as if that could. */
		n.checkpoint->leaving = true;
	} else if (n.kind == NODE_IN || n.kind == NODE_JOB_IN) {
		n.front->in_absent = true;
	}
	return 0;
}

static bool is_in(enum node_kind kind)
{
	return kind == NODE_IN || kind == NODE_JOB_IN;
}

int names_create(const struct node *dir, const char *name, mode_t mode, struct node *ret_n)
{
	const enum node_kind node = node_child(dir->kind, name);
	struct scratch_file *f;
	int e;

	if (!scratch_takes(dir->kind))
		return -EPERM;
	if (is_in(node)) {
		e = input_can_submit(dir->front);
		if (e < 0)
			return e;
		dir->front->in_absent = false;
		return node_resolve(dir->fs, node_sibling(dir, node, dir->sub), ret_n);
	}
	if (node != NODE_NONE)
		return -EPERM; /* exit_code, before there is one */
	e = scratch_create(dir, name, mode, NULL, &f);
	if (e < 0)
		return e;
	return node_resolve(dir->fs, ino_of_session(dir->s, NODE_SCRATCH, f->id), ret_n);
}

/* ---- rename ---- */

static int take_stdin(const struct node *dir, const struct scratch_file *f)
{
	struct front *front = dir->front;

	if (dir->job && front->latest)
		return -EBUSY; /* what it reads is what is written to it now */
	buf_clear(&front->next_stdin);
	trail_changed(&front->stdin_trail);
	front->stdin_taken++;
	front->stdin_mtime = f->mtime;
	return buf_append(&front->next_stdin, f->data.data, f->data.len);
}

static int take_code(const struct node *dir, const struct scratch_file *f)
{
	struct buf code = {0};
	int e;

	if (!f->data.len) { /* as with `> in`: no program, no run */
		e = dir->job ? input_can_submit(dir->front) : 0;
		if (e == 0)
			dir->front->in_absent = false;
		return e;
	}
	e = input_check(dir->front, f->data.data, f->data.len, 0);
	if (e == 0)
		e = buf_append(&code, f->data.data, f->data.len);
	if (e == 0)
		e = dir->job ? job_start(dir->job, &code, &f->mtime)
			     : session_submit(dir->s, &code, &f->mtime);
	buf_clear(&code);
	return e;
}

/* Writes the content of @f to the node @to of @dir. */
static int take(const struct node *dir, const struct scratch_file *f, enum node_kind to)
{
	switch ((int)to) {
	case NODE_CONFIG: return config_replace(dir->s, f->data.data, f->data.len);
	case NODE_JOB_CONFIG: return job_config_apply(dir->job, false, f->data.data, f->data.len);
	case NODE_NET_ALLOW:
	case NODE_NET_RULES:
	case NODE_NET_SECRETS: return config_list(dir->s, to, f->data.data, f->data.len);
	case NODE_STDIN:
	case NODE_JOB_STDIN: return take_stdin(dir, f);
	case NODE_IN:
	case NODE_JOB_IN: return take_code(dir, f);
	default: return -EPERM;
	}
}

/* Editors that keep a backup move `in` away before they write it anew. */
static int move_in_away(const struct node *dir, const struct node *to_dir, const char *to)
{
	struct scratch_file *old = scratch_find(to_dir, to), *f = NULL;
	const struct buf *code = &dir->front->last_code;
	struct session *s = dir->s;
	int e;

	if (dir->front->in_absent)
		return -ENOENT;
	if (node_child(to_dir->kind, to) != NODE_NONE)
		return -EPERM;
	e = front_check_last_code(dir->front);
	if (e == 0)
		e = quota_take(s, scratch_goes(old) ? old->data.len : 0, code->len);
	if (e == 0)
		e = scratch_create(to_dir, to, 0600, old, &f);
	if (e < 0)
		return e;
	assert(f);
	if (buf_append(&f->data, code->data, code->len) < 0) {
		scratch_unlink(s, f);
		return -ENOMEM;
	}
	if (old)
		scratch_unlink(s, old);
	dir->front->in_absent = true;
	return 0;
}

static int rename_scratch(const struct node *dir, const char *from, const struct node *to_dir,
			  const char *to, unsigned flags)
{
	struct scratch_file *f = scratch_find(dir, from), *old = scratch_find(to_dir, to);
	enum node_kind node = node_child(to_dir->kind, to), moved = node_child(dir->kind, from);
	const bool in_is_free = is_in(node) && to_dir->front->in_absent;
	int e;

	if (flags & ~(unsigned)RENAME_NOREPLACE)
		return -EINVAL;
	if ((flags & RENAME_NOREPLACE) && (old || (node != NODE_NONE && !in_is_free)))
		return -EEXIST;
	if (!f && is_in(moved))
		return move_in_away(dir, to_dir, to);
	if (!f)
		return moved == NODE_NONE ? -ENOENT : -EPERM;
	if (node != NODE_NONE) {
		e = take(to_dir, f, node);
		if (e == 0)
			scratch_unlink(dir->s, f);
		return e;
	}
	if (old == f)
		return 0;
	e = scratch_rename(f, to_dir, to);
	if (e == 0 && old)
		scratch_unlink(dir->s, old);
	return e;
}

int names_rename(const struct node *dir, const char *name, const struct node *newdir,
		 const char *newname, unsigned flags)
{
	if (question_moves(dir->kind) && dir->s)
		return question_rename(dir, name, newdir, newname, flags);
	if (!scratch_takes(dir->kind) || !scratch_takes(newdir->kind))
		return dir->kind == newdir->kind ? -EPERM : -EXDEV;
	if (dir->s != newdir->s)
		return -EXDEV;
	return rename_scratch(dir, name, newdir, newname, flags);
}
