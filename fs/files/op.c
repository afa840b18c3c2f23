/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: a pending request, and messages to the agent that have no answer. */
#include <errno.h>
#include <stdlib.h>

#include "fs/request/reply.h"
#include "fs/session/session.h"
#include "internal.h"

void files_op_list(struct file_op *op, struct file_ops *list)
{
	if (op->list)
		TAILQ_REMOVE(op->list, op, link);
	op->list = list;
	if (list)
		TAILQ_INSERT_TAIL(list, op, link);
}

void files_op_free(struct file_op *op)
{
	struct session *s = op->s;

	files_op_list(op, NULL);
	free(op->name);
	free(op->newname);
	free(op);
	session_unref(s);
}

struct req *files_op_req(struct file_op *op)
{
	struct req *req = op->req;

	op->req = NULL;
	if (req)
		req_on_interrupt(req, NULL, NULL);
	return req;
}

struct filenode_move files_move_of(const struct file_op *op)
{
	return (struct filenode_move){op->index, op->newparent, op->name, op->newname};
}

/* ---- what needs no answer ---- */

static void tell_forget(struct session *s, uint64_t remote, uint64_t lookups)
{
	const struct vm_file rq = {.op = VM_FORGET, .node = remote, .lookups = lookups};

	if (s->sandbox)
		(void)sandbox_file(s->sandbox, &rq, NULL, NULL);
}

void files_tell_release(struct session *s, uint64_t handle)
{
	const struct vm_file rq = {.op = VM_RELEASE, .handle = handle};

	if (s->sandbox)
		(void)sandbox_file(s->sandbox, &rq, NULL, NULL);
}

void files_node_gone(void *data, const struct filenode *fn)
{
	struct session *s = data;

	if (fn->epoch == s->epoch)
		tell_forget(s, fn->remote, fn->told);
}

/* The caller is gone: what the agent gave it must be given back. */
void files_undo(struct file_op *op, const struct vm_file_reply *reply)
{
	switch ((int)op->rq.op) {
	case VM_CREATE: files_tell_release(op->s, reply->handle); /* fall through */
	case VM_LOOKUP:
	case VM_MKDIR:
	case VM_SYMLINK:
	case VM_LINK: tell_forget(op->s, reply->node, 1); break;
	case VM_OPEN:
	case VM_OPENDIR: files_tell_release(op->s, reply->handle); break;
	default: break; /* a lock was taken back when its caller gave up */
	}
}

/* ---- locks ---- */

static void cancel(const struct file_op *op, bool undo)
{
	const struct vm_file rq = {.op = VM_CANCEL_LOCK,
				   .lock = {.token = op->rq.lock.token, .undo = undo}};

	if (op->s->sandbox)
		(void)sandbox_file(op->s->sandbox, &rq, NULL, NULL);
}

bool files_waits_for_lock(const struct file_op *op)
{
	return op->rq.op == VM_LOCK && op->rq.lock.wait;
}

void files_cancel_lock(const struct file_op *op)
{
	if (files_waits_for_lock(op))
		cancel(op, false);
}

void files_undo_lock(const struct file_op *op)
{
	if (op->rq.op == VM_LOCK && op->rq.lock.token)
		cancel(op, true);
}

int files_lock_error(const struct file_op *op, int err)
{
	/* What close(2) would return; the sandbox is gone, or will be. */
	if (op->rq.op == VM_DROP_LOCKS)
		return 0;
	/* The kernel takes EINTR for a signal's, and starts the call anew, which needs a signal. */
	if (op->rq.op == VM_LOCK && err == -EINTR && op->renew)
		return -EAGAIN;
	if (op->rq.op == VM_LOCK && err == -EINTR && !op->give_up)
		return -EIO;
	return err;
}
