/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: the sandbox's working directory, through the agent. See files.h. */
#include "files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "listing.h"
#include "packed.h"
#include "reopen.h"
#include "fs/session/fs.h"
#include "fs/request/reply.h"
#include "fs/session/pause.h"
#include "fs/session/session.h"
#include "vm/base/turn.h"

static void on_answer(void *data, int err, const struct vm_file_reply *reply);
static void op_send(struct file_op *op);

/*
 * The daemon before this one has told the agent to end the wait, because its caller was interrupted, or the kernel needed an
 * answer. Of both the kernel knows: it tells of the interrupt once more, and the other comes with the time. Until then it waits.
 */
static bool wait_again(struct file_op *op, int err)
{
	struct files *f = op->s->files;

	if (err != -EINTR || !op->resumed || !op->req || op->give_up || !files_waits_for_lock(op))
		return false;
	op->resumed = false;
	op->rq.lock.token = ++f->last_token;
	files_touch(f);
	return sandbox_file(op->s->sandbox, &op->rq, on_answer, op) == 0;
}

#define LISTINGS_BEGUN \
	5u /* a session does not fall asleep and wake up more often while a directory is read */

/* Of a directory that is read whole. The sandbox may be about to end, and the session to go on without it. */
static void on_listed(struct file_op *op, int err, const struct vm_file_reply *reply)
{
	int r = err;

	if (err == -ESTALE && op->req && !op->s->dead && op->begun++ < LISTINGS_BEGUN) {
		files_op_list(op, &op->s->files->anew);
		alarm_set(&op->s->fs->alarm, uv_now(op->s->fs->loop));
		return;
	}
	if (err == 0 && op->req)
		r = listing_take(op, reply);
	else if (err == 0)
		files_undo(op, reply);
	if (r > 0)
		op_send(op);
	else if (r < 0)
		files_op_fail(op, r);
	else
		files_op_free(op);
}

static void on_answer(void *data, int err, const struct vm_file_reply *reply)
{
	struct file_op *op = data;

	op->asked |= op != op->s->files->asking;
	if (op->listing) {
		on_listed(op, op->epoch == op->s->epoch || err ? err : -ESTALE, reply);
		return;
	}
	if (op->epoch != op->s->epoch) {
		err = err ? err : -ESTALE;
	} else if (op->measuring) {
		reply = files_link_measured(op, err, reply);
		err = 0;
	} else if (err == 0 ? files_measure_link(op, reply, on_answer) : wait_again(op, err)) {
		return;
	}
	if (err < 0) {
		files_op_fail(op, err);
		return;
	}
	if (op->req)
		files_answer(op, reply);
	else
		files_undo(op, reply);
	files_op_free(op);
}

/* ---- requests ---- */

/* Does it give up a lock? */
static bool unlocks(const struct vm_file *rq)
{
	return rq->op == VM_DROP_LOCKS || (rq->op == VM_LOCK && rq->lock.type == PROTO_UNLOCK);
}

/* Nobody waits any more for one that was not sent. Locks are given up nevertheless: who closes a descriptor, or has perhaps been
 * killed, asks for that no more. on_interrupt() comes here, so the handler stays as it is: see req_on_interrupt(). */
static void held_leave(struct file_op *op, int err)
{
	const bool goes_on = unlocks(&op->rq);
	struct req *req = steal_ptr(op->req);

	if (req)
		reply_err(req, goes_on ? 0 : files_lock_error(op, err));
	if (!goes_on)
		files_op_free(op);
}

static void on_interrupt(struct req *req, void *data)
{
	struct file_op *op = data;
	struct files *f = op->s->files;

	assert(op->req == req);
	if (op->list == &f->pending || op->list == &f->loading || op->list == &f->anew) {
		held_leave(op, -EINTR);
		return;
	}
	op->renew = false; /* it is a signal now that ends it */
	if (op->give_up)
		return;
	op->give_up = uv_now(op->s->fs->loop) + FILES_GIVE_UP_MS;
	alarm_set(&op->s->fs->alarm, op->give_up);
	if (op->list) /* nothing that is not sent may be cancelled: the agent would not know it yet */
		files_cancel_lock(op);
}

/* Nobody waits for it any more; an agent that has it may still do it. */
static void op_leave(struct file_op *op, int err)
{
	files_undo_lock(op);
	reply_err(files_op_req(op), files_lock_error(op, err));
}

static void op_route(struct file_op *op, struct session *s);

/* What one of them is asked, may make it the last of them again, in a later turn. */
static void begin_anew(struct files *f)
{
	struct file_ops ops = TAILQ_HEAD_INITIALIZER(ops);
	struct file_op *op;

	while ((op = TAILQ_FIRST(&f->anew)))
		files_op_list(op, &ops);
	while ((op = TAILQ_FIRST(&ops))) {
		files_op_list(op, NULL);
		listing_again(op);
		op_route(op, f->s);
	}
}

uint64_t files_tick(struct files *f, uint64_t now)
{
	uint64_t next = reopen_tick(f->s, now);
	struct file_op *op;

	begin_anew(f);
	TAILQ_FOREACH(op, &f->sent, link) {
		if (!op->give_up || !op->req)
			continue;
		if (now >= op->give_up) {
			op_leave(op, op->renew ? -EAGAIN : -EINTR);
		} else {
			next = MIN(next, op->give_up);
		}
	}
	return next;
}

/* Ends waits for locks that a kernel with a request timeout would not wait for any longer, at @give_up (uv_now()) even
 * if the agent does not answer. */
static void renew_locks(struct files *f, uint64_t give_up)
{
	struct file_op *op;

	TAILQ_FOREACH(op, &f->sent, link) {
		if (!files_waits_for_lock(op) || !op->req || op->give_up)
			continue;
		op->renew = true;
		op->give_up = give_up; /* an agent that does not answer is not asked again */
		alarm_set(&f->s->fs->alarm, give_up);
		files_cancel_lock(op);
	}
}

/* Of those that were not sent. */
static void renew_held(struct file_ops *held, uint64_t before)
{
	struct file_op *op, *next;

	for (op = TAILQ_FIRST(held); op; op = next) {
		next = TAILQ_NEXT(op, link);
		if (op->req && op->since <= before)
			held_leave(op, -EAGAIN);
	}
}

void files_renew(struct files *f, uint64_t before)
{
	struct file_op *op;

	renew_locks(f, uv_now(f->s->fs->loop) + FILES_GIVE_UP_MS);
	renew_held(&f->pending, before);
	renew_held(&f->loading, before);
	renew_held(&f->anew, before);
	TAILQ_FOREACH(op, &f->sent, link)
		if (op->req && op->since <= before && !op->renew)
			op_leave(op, -EAGAIN);
}

static void on_loaded(struct file_op *op, const struct problem *why);

/* What was open when the session woke is the sandbox's, though the request may have come before. */
static void bind_handle(struct file_op *op)
{
	const struct session *s = op->s;
	const struct handle *h = op->rq.handle ? handle_get(&s->fs->handles, op->fh) : NULL;

	if (h && h->epoch == s->epoch) {
		op->epoch = h->epoch;
		op->rq.handle = h->remote;
	}
}

/* Does it use what only a sandbox has that there is no more? */
static bool is_past(const struct file_op *op)
{
	return op->rq.handle && op->epoch != op->s->epoch;
}

/* What it needed to know is there: meanwhile the session may be being saved, or its changes taken over. */
static void op_again(struct file_op *op)
{
	const int e = pause_may(op->s, &op->rq);

	if (e < 0)
		files_op_fail(op, e);
	else
		op_route(op, op->s);
}

static void op_send(struct file_op *op)
{
	struct session *s = op->s;
	int e;

	if (op->listing) {
		e = listing_ask(op);
	} else {
		bind_handle(op);
		e = is_past(op) ? -ESTALE : 0;
	}
	if (e == 0)
		e = files_follow(op, op_again);
	if (e > 0)
		return;
	if (e < 0) {
		files_op_fail(op, e);
		return;
	}
	if (vm_file_changes(&op->rq))
		s->base.stirred = true;
	op->epoch = s->epoch;
	files_op_list(op, &s->files->sent);
	s->files->asking = op; /* the answer may come at once, and another one be asked for it */
	e = sandbox_file(s->sandbox, &op->rq, on_answer, op);
	s->files->asking = NULL;
	if (e < 0)
		files_op_fail(op, e);
}

static bool starts_sandbox(enum vm_file_op op)
{
	return op == VM_CREATE || op == VM_MKDIR || op == VM_SYMLINK;
}

/* What an empty directory says. @op is about the root, the only node there is without a sandbox. */
static void answer_empty(struct file_op *op)
{
	static const struct vm_statfs nothing = {.bsize = 4096};
	struct vm_file_reply none = {.handle = 0};
	struct stat st;

	switch ((int)op->rq.op) {
	case VM_GETATTR:
	case VM_SETATTR:
		files_root_stat(op->s, &st);
		reply_attr(files_op_req(op), &st, REPLY_KEEP_NOTHING);
		break;
	case VM_OPENDIR: files_answer_open(op, &none); break;
	case VM_READDIR:
		if (op->listing)
			listing_end(op);
		else
			files_answer_readdir(op, NULL, op->rq.lookups);
		break;
	case VM_STATFS: files_answer_statfs(op, &nothing); break;
	case VM_FSYNC: reply_err(files_op_req(op), 0); break;
	case VM_ORIGIN: reply_err(files_op_req(op), -ENODATA); break;
	default: reply_err(files_op_req(op), -ENOENT);
	}
	files_op_free(op);
}

/* Fills in the agent's numbers for what the kernel named; of a directory of another sandbox, files_follow() does. Return: 0 or
 * -ESTALE. */
static int resolve(const struct session *s, const struct node *n, uint64_t *ret_remote)
{
	const struct filenode *fn;

	if (n->kind == NODE_FILES) {
		*ret_remote = VM_FILES_ROOT;
		return 0;
	}
	fn = filenode_get(&s->files->nodes, n->sub);
	if (!fn || (fn->epoch != s->epoch && fn->class != FILENODE_DIR) ||
	    (!s->ready && !s->asleep.saved))
		return -ESTALE;
	*ret_remote = fn->remote;
	return 0;
}

static struct file_op *op_new(const struct node *n, struct req *req, const struct vm_file *rq,
			      int open_flags)
{
	struct file_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->s = session_ref(n->s);
	op->rq = *rq;
	op->name = rq->name ? strdup(rq->name) : NULL;
	op->newname = rq->newname ? strdup(rq->newname) : NULL;
	op->rq.name = op->name;
	op->rq.newname = op->newname;
	op->rq.claim = n->fs->request;
	op->ino = n->ino;
	op->epoch = n->s->epoch;
	op->nodes = &n->s->files->nodes;
	op->kind = NODE_FILE;
	op->index = n->kind == NODE_FILE ? n->sub : 0;
	op->open_flags = open_flags;
	op->since = uv_now(n->s->fs->loop);
	op->began = uv_hrtime();
	if ((rq->name && !op->name) || (rq->newname && !op->newname)) {
		files_op_free(op);
		return NULL;
	}
	op->req = req;
	return op;
}

static uint64_t offset_of_agent(uint64_t shown)
{
	if (shown >= INT64_MAX)
		return shown;
	return shown > OFFSET_DOTDOT ? shown - OFFSET_DOTDOT : 0;
}

/* A directory's offsets: the agent has only its own entries. The kernel's offset is kept in `lookups`,
 * which READDIR has no other use for. */
static void translate_offset(struct vm_file *rq)
{
	rq->lookups = rq->offset;
	rq->offset = offset_of_agent(rq->offset);
	/* All that the agent answers has to have room: it would not go on at what was left out. */
	rq->size -= MIN(rq->size, (size_t)DOTS_SIZE);
}

/* It waits until the sandbox is up, or was saved. */
static void op_hold(struct file_op *op)
{
	const int e = op->give_up ? -EINTR : files_own_data(op);

	files_op_list(op, &op->s->files->pending);
	if (e < 0)
		held_leave(op, e);
}

/* From what was saved, of which its files may have to be read first. */
static void op_answer_saved(struct file_op *op, struct saved *saved)
{
	const struct pack *pack = saved_pack(saved);

	if (!pack && !op->give_up) {
		packed_load(op, saved, on_loaded);
	} else if (pack && op->kind == NODE_FILE && files_follow_saved(op, pack) < 0) {
		files_op_fail(op, -ESTALE);
	} else {
		packed_answer(op, pack);
		files_op_free(op);
	}
}

/* It needs a sandbox, which is asked for. */
static void op_wake(struct file_op *op, struct session *s)
{
	const int e = session_start(s);

	if (e < 0)
		files_op_fail(op, e == -ESTALE || e == -EDQUOT ? e : -EIO);
	else
		op_hold(op);
}

static void op_route(struct file_op *op, struct session *s)
{
	/* Handle 0: a directory that was opened while there was no sandbox, in the middle. */
	if (op->rq.op == VM_READDIR && !op->rq.handle && !op->listing) {
		answer_empty(op);
		return;
	}
	if (s->ready) {
		if (s->saving.going && vm_file_changes(&op->rq))
			op_hold(op);
		else
			op_send(op);
		return;
	}
	/* Without a sandbox, and without what was saved of one, there is nothing but `files/`. */
	if (s->dead || s->state == SESSION_CLOSED ||
	    ((op->index || op->newparent) && !s->asleep.saved)) {
		files_op_fail(op, -ESTALE);
		return;
	}
	if ((s->saving.of && !starts_sandbox(op->rq.op)) || reopen_holds(s, &op->rq))
		op_hold(op);
	else if (s->asleep.saved && packed_reads(&op->rq) && TAILQ_EMPTY(&s->files->pending))
		op_answer_saved(op, s->asleep.saved);
	else if (!s->asleep.saved && !starts_sandbox(op->rq.op) && TAILQ_EMPTY(&s->files->pending))
		answer_empty(op);
	else
		op_wake(op, s);
}

/* It could not be read: the session's `error` says of what, and what helps. */
static void tell_unread(const struct file_op *op, const struct checkpoint *cp,
			const struct problem *why)
{
	struct problem p;

	if (op->s->dead)
		return;
	if (cp && checkpoint_problem(op->s, cp, &p))
		session_problemf(op->s, p.code, p.fix, "checkpoints/%s: %s", cp->name, p.cause);
	else
		session_problem(op->s, why);
}

/* The session, or the checkpoint, may be another meanwhile. */
static void on_loaded(struct file_op *op, const struct problem *why)
{
	struct session *s = op->s;
	const bool of_checkpoint = op->kind == NODE_CHECKPOINT_FILE;
	const struct checkpoint *cp = of_checkpoint ? checkpoint_by_number(s, op->epoch) : NULL;

	if (!of_checkpoint)
		bind_handle(op);
	if (why && !saved_pack(op->saved)) {
		tell_unread(op, cp, why);
		files_op_fail(op, -EIO);
	} else if (of_checkpoint ? !cp : !op->listing && is_past(op)) {
		files_op_fail(op, -ESTALE);
	} else if (of_checkpoint) {
		op_answer_saved(op, op->saved);
	} else {
		op_route(op, s);
	}
}

/* What the table of nodes has to know before a rename. Return: 0 or -errno. */
static int prepare_rename(struct file_op *op)
{
	struct filenodes *nodes = &op->s->files->nodes;
	const struct filenode_move m = files_move_of(op);
	const struct filenode_move back = {m.newparent, m.parent, m.newname, m.name};
	int e = filenode_may_move(nodes, &m);

	return e == 0 && (op->rq.flags & RENAME_EXCHANGE) ? filenode_may_move(nodes, &back) : e;
}

/* ---- of checkpoints ---- */

bool files_is_saved(const struct node *n)
{
	return n->kind == NODE_CHECKPOINT_FILES || n->kind == NODE_CHECKPOINT_FILE;
}

/* The checkpoint that a node is of, or NULL: it was removed. */
static const struct checkpoint *checkpoint_of(const struct node *n)
{
	const struct filenode *fn;

	if (n->kind == NODE_CHECKPOINT_FILES)
		return n->checkpoint;
	fn = filenode_get(&n->s->files->saved, n->sub);
	return fn ? checkpoint_by_number(n->s, fn->epoch) : NULL;
}

static int may_change(const struct checkpoint *cp, const struct vm_file *rq)
{
	const bool removes = rq->op == VM_UNLINK || rq->op == VM_RMDIR;

	return removes && cp->leaving ? 0 : -EROFS; /* see names_unlink() */
}

static void request_saved(const struct node *n, struct handle *h, struct req *req,
			  struct vm_file *rq, int open_flags)
{
	const bool begins = h && rq->op == VM_READDIR && !rq->offset;
	const struct checkpoint *cp = checkpoint_of(n);
	struct file_op *op;

	if (!cp || !cp->saved || (h && h->epoch != cp->number)) {
		reply_err(req, -ESTALE);
		return;
	}
	if (!packed_reads(rq)) {
		reply_err(req, may_change(cp, rq));
		return;
	}
	if (h && listing_is_there(h, rq)) {
		listing_answer(h, req, rq->size, rq->offset);
		return;
	}
	if (rq->op == VM_READDIR && !begins)
		translate_offset(rq);
	op = op_new(n, req, rq, open_flags);
	if (!op) {
		reply_err(req, -ENOMEM);
		return;
	}
	op->fh = begins ? handle_id(h) : 0;
	op->epoch = cp->number;
	op->nodes = &n->s->files->saved;
	op->kind = NODE_CHECKPOINT_FILE;
	op->place = cp->place;
	op->index = n->kind == NODE_CHECKPOINT_FILE ? n->sub : 0;
	if (begins)
		listing_begin(op);
	op_answer_saved(op, cp->saved);
}

/* ---- all of them ---- */

void files_request(const struct node *n, struct handle *h, struct req *req, struct vm_file *rq,
		   const struct node *newparent, int open_flags)
{
	struct session *s = n->s;
	struct file_op *op;
	bool asked, begins;
	int e;

	if (files_is_saved(n)) {
		request_saved(n, h, req, rq, open_flags);
		return;
	}
	e = newparent && files_is_saved(newparent) ? -EROFS : resolve(s, n, &rq->node);
	if (e == 0 && newparent)
		e = resolve(s, newparent, &rq->newparent);
	if (e == 0 && h && h->epoch != s->epoch && !listing_goes_on(h, rq))
		e = -ESTALE;
	if (e == 0 && h && listing_is_there(h, rq) && (s->dead || s->state == SESSION_CLOSED))
		e = -ESTALE;
	if (e < 0) {
		reply_err(req, e);
		return;
	}
	if (h && listing_is_there(h, rq)) {
		session_used(s);
		listing_answer(h, req, rq->size, rq->offset);
		return;
	}
	if (h)
		rq->handle = h->remote;
	begins = h && rq->op == VM_READDIR && !rq->offset;
	if (rq->op == VM_READDIR && !begins)
		translate_offset(rq);
	op = op_new(n, req, rq, open_flags);
	if (!op) {
		reply_err(req, -ENOMEM);
		return;
	}
	op->fh = h ? handle_id(h) : 0;
	if (newparent)
		op->newparent = newparent->kind == NODE_FILE ? newparent->sub : 0;
	if (begins)
		listing_begin(op);
	asked = files_is_asked(op);
	e = asked ? 0 : pause_may(s, rq);
	if (e == 0 && !asked && rq->op == VM_RENAME)
		e = prepare_rename(op);
	if (e < 0) {
		op->req = NULL;
		reply_err(req, e);
		files_op_free(op);
		return;
	}
	session_used(s);
	/* It may be called at once: not pending yet, the operation stays. */
	req_on_interrupt(req, on_interrupt, op);
	if (asked)
		files_resume(op, on_answer);
	else if (op->give_up && files_waits_for_lock(op))
		files_op_fail(op, -EINTR);
	else
		op_route(op, s);
}

void files_release(struct handle *h)
{
	if (!h->packed && h->epoch == h->s->epoch && h->s->ready && h->remote)
		files_tell_release(h->s, h->remote);
}

/* ---- what was held back ---- */

void files_send_held(struct session *s)
{
	struct file_op *op;

	while ((op = TAILQ_FIRST(&s->files->pending)))
		op_send(op);
}

void files_route_held(struct session *s)
{
	struct file_ops held = TAILQ_HEAD_INITIALIZER(held);
	struct file_op *op;

	while ((op = TAILQ_FIRST(&s->files->pending)))
		files_op_list(op, &held);
	while ((op = TAILQ_FIRST(&held))) {
		files_op_list(op, NULL);
		op_route(op, s);
	}
}
