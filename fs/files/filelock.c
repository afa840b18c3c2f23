/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: locks, which the agent holds, or of what was saved the daemon. See files.h. */
#include <errno.h>

#include "internal.h"
#include "fs/request/nodelock.h"
#include "fs/request/reply.h"
#include "fs/session/fs.h"
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
 *
 * What was saved is the daemon's own: so are locks there, until the session wakes (reopen.c).
 */

/* Is it a handle of what was saved, and that is what there is? */
static bool is_of_saved(const struct node *n, const struct handle *h)
{
	const struct session *s = n->s;

	return h->packed && (files_is_saved(n) || (h->epoch == s->epoch && !s->files->reopening));
}

static void lock_saved(struct handle *h, struct req *req, const struct vm_file *rq)
{
	const struct vm_lock *l = &rq->lock;
	struct lock_ask ask = {.owner = l->owner,
			       .start = l->start,
			       .end = l->end,
			       .type = l->type,
			       .whole = l->whole,
			       .pid = l->pid};

	nodelock_serve(&h->fs->locks, h, req, &ask, rq->op == VM_TEST_LOCK, l->wait);
}

void files_lock_saved(struct file_op *op)
{
	struct handle *h = handle_get(&op->s->fs->handles, op->fh);

	if (h && h->packed && h->epoch == op->s->epoch)
		lock_saved(h, files_op_req(op), &op->rq);
	else if (op->req)
		reply_err(files_op_req(op), -ESTALE);
	files_op_free(op);
}

void files_lock(const struct node *n, struct handle *h, struct req *req, const struct lock_ask *ask,
		enum vm_file_op op, bool wait)
{
	struct vm_file rq = {
		.op = op,
		.lock = {.owner = ask->owner,
			 .start = ask->start,
			 .end = ask->end,
			 .type = ask->type,
			 .whole = ask->whole,
			 .wait = wait && ask->type != PROTO_UNLOCK,
			 .pid = ask->pid},
	};

	if (is_of_saved(n, h)) {
		lock_saved(h, req, &rq);
		return;
	}
	if (ask->end > INT64_MAX || ask->start > ask->end) {
		reply_err(req, -EINVAL);
		return;
	}
	if (op == VM_LOCK && ask->type != PROTO_UNLOCK) {
		filenode_lock(&n->s->files->nodes, n->sub);
		rq.lock.token = ++n->s->files->last_token;
		files_touch(n->s->files);
	}
	files_request(n, h, req, &rq, NULL, 0);
}

void files_flush(const struct node *n, struct handle *h, struct req *req, uint64_t owner)
{
	const struct filenode *fn =
		files_is_saved(n) ? NULL : filenode_get(&n->s->files->nodes, n->sub);
	struct vm_file rq = {.op = VM_DROP_LOCKS, .lock = {.owner = owner}};
	const bool had = h->packed && nodelock_flush(&h->fs->locks, h, owner),
		   wakes = had && n->s->files->reopening;

	if (fn && h->epoch == n->s->epoch &&
	    (wakes || (filenode_may_be_locked(&n->s->files->nodes, fn) && n->s->ready)))
		files_request(n, h, req, &rq, NULL, 0);
	else
		reply_err(req, 0);
}
