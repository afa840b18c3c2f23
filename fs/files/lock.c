/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: locks, which the agent holds for the programs of this host. */
#include <errno.h>

#include "internal.h"
#include "fs/session/fs.h"
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
	return filenode_get(&n->s->files->nodes, n->sub);
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
			 .type = ask->type,
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
		rq.lock.token = ++n->s->files->last_token;
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
