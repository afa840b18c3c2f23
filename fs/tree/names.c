/* SPDX-License-Identifier: Apache-2.0 */
/* Making, removing and renaming names of the fixed tree. See names.h. */
#include "names.h"

#include <errno.h>
#include <string.h>

#include "dir.h"
#include "fs/mount.h"
#include "fs/session/scratch.h"
#include "fs/session/session.h"

int names_mkdir(struct fs *fs, const struct node *dir, const char *name, const struct req_ctx *ctx,
		struct node *ret_n)
{
	struct session *s;
	struct node old;
	int e;

	if (dir_lookup(fs, dir, name, &old) == 0)
		return -EEXIST;
	if (dir->kind != NODE_TEMPLATE)
		return -EPERM;
	e = session_create(fs, dir->template_index, name, ctx->uid, ctx->gid, &s);
	if (e < 0)
		return e;
	return node_resolve(fs, node_of_session(s, NODE_SESSION, 0), ret_n);
}

int names_rmdir(struct fs *fs, const struct node *dir, const char *name)
{
	struct node n;
	int e = dir_lookup(fs, dir, name, &n);

	if (e < 0)
		return e;
	if (!S_ISDIR(node_defs[n.kind].mode))
		return -ENOTDIR;
	switch ((int)n.kind) {
	case NODE_SESSION: session_destroy(n.s); return 0;
	case NODE_RUN: return session_remove_run(n.s, n.sub);
	case NODE_FILES:
	case NODE_NET:
	case NODE_RUNS: n.s->dir_epoch++; return 0;
	default: return -EPERM;
	}
}

int names_unlink(struct fs *fs, const struct node *dir, const char *name)
{
	struct scratch_file *f;
	struct node n;
	int e = dir_lookup(fs, dir, name, &n);

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
	} else if (n.kind == NODE_IN) {
		n.s->in_absent = true;
	}
	return 0;
}

int names_create(struct fs *fs, const struct node *dir, const char *name, mode_t mode,
		 struct node *ret_n)
{
	struct scratch_file *f;
	int e;

	if (!scratch_takes(dir->kind))
		return -EPERM;
	if (dir->kind == NODE_SESSION && !strcmp(name, "in")) {
		e = session_can_submit(dir->s);
		if (e < 0)
			return e;
		dir->s->in_absent = false;
		return node_resolve(fs, node_of_session(dir->s, NODE_IN, 0), ret_n);
	}
	if (node_child(dir->kind, name) != NODE_NONE)
		return -EPERM; /* exit_code, before there is one */
	e = scratch_create(dir->s, dir->kind, name, mode, &f);
	if (e < 0)
		return e;
	return node_resolve(fs, node_of_session(dir->s, NODE_SCRATCH, f->id), ret_n);
}

int names_rename(const struct node *dir, const char *name, const struct node *newdir,
		 const char *newname, unsigned flags)
{
	if (!scratch_takes(dir->kind) || !scratch_takes(newdir->kind))
		return dir->kind == newdir->kind ? -EPERM : -EXDEV;
	if (dir->s != newdir->s)
		return -EXDEV;
	return scratch_rename(dir->s, dir->kind, name, newdir->kind, newname, flags);
}
