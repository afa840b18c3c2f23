/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: locks, which the agent holds for the programs of this host. */
#include <errno.h>

#include "files_internal.h"
#include "fs.h"
#include "reply.h"
#include "session.h"

/*
 * Theory of operation
 * -------------------
 * The agent holds a lock of the sandbox's kernel for each owner on this host; see its locks.h. An
 * owner's ranges end with the first descriptor of the file that it closes, which FLUSH tells, and the
 * rest with the handle. FLUSH only asks the agent if a lock was ever asked for on that node.
 *
 * A wait may last for ever. Interrupted, it is cancelled at the agent, which says whether it was granted
 * at that moment after all.
 */

static struct filenode *node_of(const struct node *n)
{
	return filenode_get(&n->s->files.nodes, n->sub);
}

void files_lock(const struct node *n, struct handle *h, struct req *req, const struct lock_ask *ask,
		enum vm_file_op op, bool wait)
{
	struct filenode *fn = node_of(n);
	struct vm_file rq = {
		.op = op,
		.lock = {.owner = ask->owner,
			 .start = ask->start,
			 .end = ask->end,
			 .type = (enum vm_lock_type)ask->type,
			 .whole = ask->whole,
			 .wait = wait && ask->type != PROTO_UNLOCK,
			 .pid = ask->pid},
	};

	if (ask->end > INT64_MAX || ask->start > ask->end) {
		reply_err(req, -EINVAL);
		return;
	}
	if (fn && op == VM_LOCK && ask->type != PROTO_UNLOCK)
		fn->locked = true;
	if (rq.lock.wait)
		rq.lock.token = ++n->s->files.last_token;
	files_request(n, h, req, &rq, NULL, 0);
}

void files_flush(const struct node *n, struct handle *h, struct req *req, uint64_t owner)
{
	const struct filenode *fn = node_of(n);
	struct vm_file rq = {.op = VM_DROP_LOCKS, .lock = {.owner = owner}};

	if (fn && fn->locked && h->epoch == n->s->epoch && n->s->ready)
		files_request(n, h, req, &rq, NULL, 0);
	else
		reply_err(req, 0);
}

/* Ends the wait of a request that the agent has. */
void files_cancel_lock(struct file_op *op)
{
	const struct vm_file rq = {.op = VM_CANCEL_LOCK, .lock = {.token = op->rq.lock.token}};

	if (op->rq.op == VM_LOCK && op->rq.lock.wait && op->s->sandbox)
		(void)sandbox_file(op->s->sandbox, &rq, NULL, NULL);
}

void files_renew(struct files *f)
{
	struct file_op *op;

	TAILQ_FOREACH(op, &f->sent, link) {
		if (op->rq.op != VM_LOCK || !op->rq.lock.wait || !op->req || op->give_up)
			continue;
		op->renew = true;
		files_cancel_lock(op);
	}
}

int files_lock_error(const struct file_op *op, int err)
{
	/* What close(2) would return; the sandbox is gone, or will be. */
	if (op->rq.op == VM_DROP_LOCKS)
		return 0;
	/* The kernel takes EINTR for a signal's, and starts the call anew, which needs a signal. */
	if (op->rq.op == VM_LOCK && err == -EINTR && !op->give_up)
		return op->renew ? -EAGAIN : -EIO;
	return err;
}

static void on_undone(void *data, int err, const struct vm_file_reply *reply)
{
	(void)data;
	(void)err;
	(void)reply;
}

/* It was granted to somebody who is gone. */
void files_undo_lock(struct file_op *op)
{
	struct vm_file rq = op->rq;

	if (rq.lock.type == VM_UNLOCK || !op->s->sandbox)
		return;
	rq.lock.type = VM_UNLOCK;
	rq.lock.wait = false;
	(void)sandbox_file(op->s->sandbox, &rq, on_undone, NULL);
}
