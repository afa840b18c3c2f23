/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: locks, which the agent holds for the programs of this host. */
#include <errno.h>

#include "internal.h"
#include "fs/mount.h"
#include "fs/request/reply.h"
#include "fs/session/session.h"

/*
 * Theory of operation
 * -------------------
 * The agent holds a lock of the sandbox's kernel for each owner on this host; see its locks.h. An
 * owner's ranges end with the first descriptor of the file that it closes, which FLUSH tells, and the
 * rest with the handle. FLUSH only asks the agent if a lock was ever asked for on that node.
 *
 * A wait may last for ever. Interrupted, it is cancelled at the agent, which says whether it was granted
 * at that moment after all. What comes later than the caller is willing to wait is taken back there: only the
 * agent knows what the owner had before, and it is told before anything that the caller asks next.
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
	if (op == VM_LOCK && ask->type != PROTO_UNLOCK)
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

void files_lock_renew(struct files *f, uint64_t give_up)
{
	struct file_op *op;

	TAILQ_FOREACH(op, &f->sent, link) {
		if (!files_waits_for_lock(op) || !op->req || op->give_up)
			continue;
		op->renew = true;
		op->give_up = give_up; /* an agent that does not answer is not asked again */
		fs_alarm(f->s->fs, give_up);
		files_cancel_lock(op);
	}
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
