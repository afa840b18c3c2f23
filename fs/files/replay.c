/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: requests that a daemon before this one had of the kernel, and did not answer. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "fs/session/fs.h"
#include "fs/session/session.h"

/*
 * Theory of operation
 * -------------------
 * What the kernel has asked for and was not answered, is handled once more by the next daemon, as if it had just come. Of what
 * was sent to an agent, vm/ knows by the kernel's number of the request (`claim`), and waits for the answer instead of asking
 * again: a file is not made twice, and nothing is appended twice. Such a request goes its way whatever the session is doing now,
 * for it was let through before.
 *
 * A request about a link may have been answered by the agent, and not the kernel, because the link's target was asked for
 * (files_measure_link()). Then that answer is in a record, and only the target is asked for again.
 *
 * What nobody has asked for once more when all was replayed, is of callers that have gone: files_replayed().
 */

struct linked {
	SLIST_ENTRY(linked) link;
	struct files_linked of;
};

/* ---- from one daemon to the next ---- */

void files_touch(struct files *f)
{
	touched_add(&f->s->fs->touched, TOUCHED_FILES, &f->touch);
}

void files_each_linked(const struct files *f, void (*fn)(void *data, const struct files_linked *l),
		       void *data)
{
	const struct linked *l;
	const struct file_op *op;

	TAILQ_FOREACH(op, &f->sent, link) {
		if (op->measuring)
			fn(data, &(struct files_linked){op->rq.claim, op->rq.op, op->linked});
	}
	SLIST_FOREACH(l, &f->linked, link)
	fn(data, &l->of);
}

int files_link_again(struct files *f, const struct files_linked *of)
{
	struct linked *l = malloc(sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->of = *of;
	SLIST_INSERT_HEAD(&f->linked, l, link);
	return 0;
}

static struct linked *find_linked(const struct file_op *op)
{
	struct linked *l = NULL;

	if (op->rq.claim) {
		SLIST_FOREACH(l, &op->s->files->linked, link)
		{
			if (l->of.claim == op->rq.claim && l->of.op == op->rq.op)
				break;
		}
	}
	return l;
}

static void linked_free(struct files *f, struct linked *l)
{
	SLIST_REMOVE(&f->linked, l, linked, link);
	free(l);
}

void files_drop_linked(struct files *f)
{
	while (!SLIST_EMPTY(&f->linked))
		linked_free(f, SLIST_FIRST(&f->linked));
}

/* ---- in the next one ---- */

bool files_is_asked(struct file_op *op)
{
	const struct session *s = op->s;

	if (!s->ready || !s->sandbox)
		return false;
	return find_linked(op) || sandbox_file_asked(s->sandbox, &op->rq, &op->rq.lock.token);
}

void files_resume(struct file_op *op, vm_file_fn fn)
{
	struct session *s = op->s;
	struct linked *l = find_linked(op);
	int e;

	op->resumed = true;
	files_op_list(op, &s->files->sent);
	if (l) {
		const struct vm_file_reply reply = l->of.reply;

		linked_free(s->files, l);
		if (!files_measure_link(op, &reply, fn))
			fn(op, op->measuring ? -EIO : 0, &reply);
		return;
	}
	e = sandbox_file(s->sandbox, &op->rq, fn, op);
	if (e < 0)
		files_op_fail(op, e);
	else if (op->give_up) /* it could not be cancelled before: it was not sent */
		files_cancel_lock(op);
}

/* Their callers have gone: what the agent gave them is given back. */
static void undo_linked(struct session *s)
{
	struct files *f = s->files;
	const struct linked *l;

	SLIST_FOREACH(l, &f->linked, link)
	{
		if (s->ready && s->sandbox)
			sandbox_file_undo(s->sandbox, l->of.op, &l->of.reply);
	}
	files_drop_linked(f);
}

/* Nobody knows for how long they have waited. */
static void make_old(struct file_ops *ops)
{
	struct file_op *op;

	TAILQ_FOREACH(op, ops, link)
		op->since = 0;
}

void files_replayed(struct fs *fs)
{
	struct session *s;

	LIST_FOREACH(s, &fs->sessions, kept) {
		undo_linked(s);
		make_old(&s->files->sent);
		make_old(&s->files->pending);
		make_old(&s->files->loading);
	}
	vm_replayed(fs->vm);
}
