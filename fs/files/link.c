/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: symbolic links, and their sizes as shown. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "filelink.h"
#include "internal.h"
#include "fs/request/reply.h"
#include "fs/session/session.h"

/*
 * A link's size is that of its target, and some programs make room for no more than that. What is shown
 * need not be what the guest has (filelink.h), so wherever an answer describes a link, its target is
 * asked for too.
 */

/* Where the link lies that @op is about. */
static uint32_t link_depth(const struct file_op *op, bool *ret_exact)
{
	const struct filenodes *nodes = &op->s->files->nodes;

	switch ((int)op->rq.op) {
	case VM_GETATTR:
	case VM_SETATTR:
	case VM_READLINK: return filenode_depth(nodes, op->index, ret_exact);
	case VM_LINK: return filenode_depth_in(nodes, op->newparent, ret_exact);
	default: return filenode_depth_in(nodes, op->index, ret_exact);
	}
}

void files_answer_readlink(struct file_op *op, const struct vm_file_reply *reply)
{
	const struct filenode *fn = filenode_get(&op->s->files->nodes, op->index);
	char target[PATH_MAX];
	uint32_t depth, up;
	bool exact = false;
	int e = -EINVAL;

	depth = link_depth(op, &exact);
	if (fn && fn->class == FILENODE_LINK)
		e = filelink_show(reply->data, reply->size, depth, exact, target, sizeof(target),
				  &up);
	if (e < 0) {
		reply_err(files_op_req(op), e);
		return;
	}
	filenode_count_on(&op->s->files->nodes, op->index, up);
	reply_readlink(files_op_req(op), target);
}

static void set_size(struct file_op *op, const char *target, size_t len)
{
	char shown[PATH_MAX];
	uint32_t depth, up;
	bool exact = false;

	depth = link_depth(op, &exact);
	if (filelink_show(target, len, depth, exact, shown, sizeof(shown), &up) == 0)
		op->linked.attr.size = strlen(shown);
}

static bool describes_a_link(const struct file_op *op, const struct vm_file_reply *reply)
{
	switch ((int)op->rq.op) {
	case VM_LOOKUP:
	case VM_SYMLINK:
	case VM_LINK:
	case VM_GETATTR:
	case VM_SETATTR: return S_ISLNK(reply->attr.mode);
	default: return false;
	}
}

bool files_measure_link(struct file_op *op, const struct vm_file_reply *reply, vm_file_fn fn)
{
	const bool named = op->rq.op == VM_LOOKUP || op->rq.op == VM_SYMLINK;
	const struct vm_file rq = {.op = VM_READLINK, .node = named ? reply->node : op->rq.node};

	if (!op->req || !describes_a_link(op, reply))
		return false;
	op->linked = *reply;
	op->measuring = true;
	return sandbox_file(op->s->sandbox, &rq, fn, op) == 0;
}

const struct vm_file_reply *files_link_measured(struct file_op *op, int err,
						const struct vm_file_reply *reply)
{
	/* A target that cannot be read now leaves the size that the guest said. */
	if (err == 0)
		set_size(op, reply->data, reply->size);
	return &op->linked;
}
