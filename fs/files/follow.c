/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: directories that the kernel knows from before the session fell asleep, or woke up. */
#include <errno.h>
#include <sys/stat.h>

#include "internal.h"
#include "fs/session/session.h"

/*
 * Theory of operation
 * -------------------
 * A process may stand in a directory, or have it open for *at() calls, when the session falls asleep or wakes up. cp(1) of a
 * file into a directory does: what it makes there first wakes the session. The kernel looks such a directory up no more, it
 * has the node. But that is a name in a directory (filenode.h): it is looked up by its names here, from `files/` on, before
 * the first request about it, in the sandbox or in what was saved, and is the same one if its inode number is. Then it is that of
 * the session as it is now.
 *
 * One sandbox' numbers are another one's as well, unless its files came out of those (struct session, `line`). Where a session
 * goes back to a checkpoint, its directories are looked up in that alone, which has no numbers of what was made later: at the
 * latest, all of them, when it wakes. None of them are that were of another sandbox that began from nothing (`life`). What was
 * made behind a checkpoint, and once more by the same name behind going back to it, may have one number, and is one then.
 *
 * One that is not there any more, or is another one now, is ESTALE. So are files and links, whose path the kernel walks once
 * more then, and handles, but for those of files that are open when the session wakes (reopen.c).
 */

/* The uppermost on the way to @index that is of another sandbox: *@ret_fn, NULL if there is none. Return: 0; -ESTALE: deeper
 * than what is saved can be. */
static int first_stale(const struct session *s, const struct filenodes *nodes, uint32_t index,
		       struct filenode **ret_fn)
{
	struct filenode *fn = filenode_get(nodes, index);
	uint32_t depth = 0;

	*ret_fn = NULL;
	for (; fn; fn = filenode_get(nodes, fn->parent), depth++)
		*ret_fn = fn->epoch != s->epoch ? fn : *ret_fn;
	return *ret_fn && depth > PACK_LEVELS_MAX ? -ESTALE : 0;
}

static int next_stale(const struct file_op *op, struct filenode **ret_fn)
{
	const int e = first_stale(op->s, op->nodes, op->index, ret_fn);

	return e < 0 || *ret_fn ? e : first_stale(op->s, op->nodes, op->newparent, ret_fn);
}

/* Return: the number that the agent, or the pack, has for the node @index; @root for `files/`. */
static uint64_t remote_of(const struct filenodes *nodes, uint32_t index, uint64_t root)
{
	const struct filenode *fn = index ? filenode_get(nodes, index) : NULL;

	return fn ? fn->remote : root;
}

static bool is_there(const struct file_op *op, uint32_t index)
{
	return !index || filenode_get(op->nodes, index);
}

/* ---- in the sandbox ---- */

/* What the sandbox has there by that name. Return: 0 or -errno. */
static int take_found(struct file_op *op, int err, const struct vm_file_reply *reply)
{
	struct session *s = op->s;
	struct filenode *fn = filenode_get(op->nodes, op->followed);
	const bool granted = err == 0 && op->epoch == s->epoch && s->sandbox,
		   found = granted && op->req && fn && S_ISDIR(reply->attr.mode) &&
			   filenode_is(fn, reply->attr.ino);

	if (found && fn->epoch != s->epoch)
		filenode_follow(op->nodes, fn, s->epoch, reply->node, reply->attr.ino);
	else if (granted) /* or another one was faster */
		sandbox_file_undo(s->sandbox, VM_LOOKUP, reply);
	if (found)
		return 0;
	return err == -EINTR || err == -ENOMEM || err == -EIO ? err : -ESTALE;
}

static void on_found(void *data, int err, const struct vm_file_reply *reply)
{
	struct file_op *op = data;

	err = take_found(op, err, reply);
	if (op->asking) { /* known without the sandbox: files_follow() goes on */
		op->asking = false;
		op->found = err;
	} else if (err < 0) {
		files_op_fail(op, err);
	} else {
		op->go_on(op);
	}
}

/* Return: 0: it is followed; 1: it will be; -errno. */
static int follow(struct file_op *op, const struct filenode *fn)
{
	const struct vm_file rq = {.op = VM_LOOKUP,
				   .node = remote_of(op->nodes, fn->parent, VM_FILES_ROOT),
				   .name = fn->name};
	struct session *s = op->s;
	int e;

	if (fn->class != FILENODE_DIR || fn->epoch < s->line)
		return -ESTALE;
	e = files_own_data(op);
	if (e < 0)
		return e;
	op->followed = fn->index;
	op->asking = true;
	op->epoch = s->epoch;
	files_op_list(op, &s->files->sent);
	e = sandbox_file(s->sandbox, &rq, on_found, op);
	if (e == 0)
		e = op->asking ? 1 : op->found;
	op->asking = false;
	return e;
}

int files_follow(struct file_op *op, void (*go_on)(struct file_op *op))
{
	struct filenode *fn = NULL;
	int e;

	if (!is_there(op, op->index) || !is_there(op, op->newparent))
		return -ESTALE;
	op->go_on = go_on;
	while ((e = next_stale(op, &fn)) == 0 && fn) {
		e = follow(op, fn);
		if (e)
			return e;
	}
	if (e < 0)
		return e;
	op->rq.node = remote_of(op->nodes, op->index, VM_FILES_ROOT);
	op->rq.newparent = remote_of(op->nodes, op->newparent, VM_FILES_ROOT);
	return 0;
}

/* ---- in what was saved ---- */

static int follow_saved(const struct session *s, struct filenodes *nodes, struct filenode *fn,
			const struct pack *pack)
{
	const uint64_t dir = remote_of(nodes, fn->parent, PACK_ROOT);
	struct pack_attr a;
	uint32_t entry;

	if (fn->epoch < session_saved_since(s, s->epoch))
		return -ESTALE;
	if (fn->class != FILENODE_DIR || pack_lookup(pack, (uint32_t)dir, fn->name, &entry) < 0)
		return -ESTALE;
	pack_attr(pack, entry, &a);
	if (!S_ISDIR(a.mode) || !filenode_is(fn, a.number))
		return -ESTALE;
	filenode_follow(nodes, fn, s->epoch, entry, a.number);
	return 0;
}

/* The node @index, with all that are above it. */
static int follow_down(const struct session *s, struct filenodes *nodes, uint32_t index,
		       const struct pack *pack)
{
	struct filenode *fn;
	int e;

	do {
		e = first_stale(s, nodes, index, &fn);
		if (e == 0 && fn)
			e = follow_saved(s, nodes, fn, pack);
	} while (e == 0 && fn);
	return e;
}

int files_follow_saved(struct file_op *op, const struct pack *pack)
{
	int e = follow_down(op->s, op->nodes, op->index, pack);

	if (e == 0)
		e = follow_down(op->s, op->nodes, op->newparent, pack);
	if (e == 0)
		op->epoch = op->s->epoch;
	return e;
}

void files_follow_all(struct session *s, const struct pack *pack)
{
	struct filenodes *nodes = &s->files->nodes;

	for (uint32_t i = 1; i < nodes->cap; i++)
		(void)follow_down(s, nodes, i, pack);
}
