/* SPDX-License-Identifier: Apache-2.0 */
/* The first steps of every request: the mount, and the node of its inode number. */
#include "fs/session/job.h"
#include "fs/session/session.h"
#include "fs/session/touch.h"
#include "fs/tree/dir.h"
#include "fs/tree/table.h"
#include "ops_internal.h"

struct fs *ops_fs(fuse_req_t req)
{
	struct fs *fs = fuse_req_userdata(req);
	struct req_ctx ctx;

	req_ctx(core(req), &ctx);
	fs->caller = ctx.uid;
	fs->who = (struct who){.known = true, .ctx = ctx};
	return fs;
}

/* Of these a request changes the queue of runs, and what they are made of. */
static bool is_of_runs(enum node_kind kind)
{
	return kind >= NODE_IN && kind <= NODE_ERROR;
}

void ops_touch(struct session *s, struct job *j, enum node_kind kind, uint32_t sub)
{
	const struct node n = {.kind = kind};
	struct scratch_file *file;

	if (j)
		touch_job(j);
	if (!s || ops_in_files(&n)) /* there it is the agent that changes something */
		return;
	if (is_of_runs(kind) || (j && kind != NODE_JOB))
		touch_session(s);
	else
		touch_rest(s);
	file = kind == NODE_SCRATCH ? scratch_by_id(s, sub) : NULL;
	if (file)
		touch_scratch(s, file);
}

bool ops_look(fuse_req_t req, fuse_ino_t ino, struct node *ret_n)
{
	int e = node_resolve(ops_fs(req), ino, ret_n);

	if (e < 0)
		reply_err(core(req), e);
	return e == 0;
}

bool ops_resolve(fuse_req_t req, fuse_ino_t ino, struct node *ret_n)
{
	const bool there = ops_look(req, ino, ret_n);

	if (there)
		ops_touch(ret_n->s, ret_n->job, ret_n->kind, ret_n->sub);
	return there;
}

bool ops_in_files(const struct node *n)
{
	return n->kind == NODE_FILE || n->kind == NODE_FILES || n->kind == NODE_CHECKPOINT_FILE ||
	       n->kind == NODE_CHECKPOINT_FILES;
}

bool ops_asks_files(const struct node *n)
{
	if (n->kind == NODE_FILES)
		return n->s->ready || n->s->asleep.saved;
	return n->kind == NODE_FILE || n->kind == NODE_CHECKPOINT_FILE;
}

void ops_reply_node(fuse_req_t req, int err, const struct node *n)
{
	struct reply_entry e = {0};

	if (err == 0)
		err = dir_stat(n, &e.st);
	if (err < 0) {
		reply_err(core(req), err);
		return;
	}
	e.ino = n->ino;
	e.keep = node_defs[n->kind].keep;
	reply_entry(core(req), &e);
}
