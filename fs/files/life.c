/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: what becomes of it when its session is made, wakes up, falls asleep, and goes. See files.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "packed.h"
#include "reopen.h"
#include "fs/session/fs.h"
#include "fs/session/session.h"

/* Nobody has to be told. */
static void saved_gone(void *data, struct filenode *fn)
{
	(void)data;
	(void)fn;
}

/* Of a node. */
static bool on_changed(void *data)
{
	struct session *s = data;

	if (!touched_is_on(&s->fs->touched))
		return false;
	files_touch(s->files);
	return true;
}

static int on_made(struct session *s)
{
	struct files *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->s = s;
	filenodes_init(&f->nodes, files_node_gone, s);
	filenodes_init(&f->saved, saved_gone, s);
	f->nodes.changed = f->saved.changed = on_changed;
	f->nodes.follows =
		true; /* one sandbox comes after another; checkpoints are beside each other */
	TAILQ_INIT(&f->pending);
	TAILQ_INIT(&f->loading);
	TAILQ_INIT(&f->sent);
	TAILQ_INIT(&f->anew);
	TAILQ_INIT(&f->kept);
	SLIST_INIT(&f->linked);
	s->files = f;
	files_touch(f);
	return 0;
}

/* It is READY, and nobody is let in yet: what it woke from is still at hand. */
static bool on_wakes(struct session *s)
{
	const struct pack *pack = saved_pack(s->asleep.saved);

	if (pack && s->line == s->epoch)
		files_follow_all(s, pack);
	return reopen_begin(s);
}

static void on_ready(struct session *s)
{
	reopen_end(s, files_lock);
	files_send_held(s);
}

static bool is_lock(const struct vm_file *rq)
{
	return rq->op == VM_LOCK || rq->op == VM_TEST_LOCK;
}

/* The session is asleep as it was. What only reads waits on if another sandbox comes (@err 0), for it may be behind what
 * writes. */
static void answer_asleep(struct file_op *op, int err)
{
	if (is_lock(&op->rq))
		files_lock_saved(op);
	else if (op->rq.op == VM_DROP_LOCKS || (err && !packed_reads(&op->rq)))
		files_op_fail(op, err);
}

static void on_gone(struct session *s, int err)
{
	const bool asleep = s->asleep.saved && err != -ESTALE;
	struct files *f = s->files;
	struct file_op *op, *next;

	reopen_drop(s);
	files_drop_kept(f);
	/* Those that were sent are answered by vm/, with ESTALE. No locks are in it any more. */
	for (op = TAILQ_FIRST(&f->pending); op; op = next) {
		next = TAILQ_NEXT(op, link);
		if (asleep && op->epoch == s->epoch)
			answer_asleep(op, err);
		else if (err || op->rq.op == VM_DROP_LOCKS)
			files_op_fail(op, err);
	}
	if (err)
		files_route_held(s);
	while (s->dead && (op = TAILQ_FIRST(&f->anew)))
		files_op_fail(op, -ESTALE);
}

static bool has_waiting(const struct session *s)
{
	return !TAILQ_EMPTY(&s->files->pending);
}

static void on_stirs(struct session *s)
{
	files_drop_kept(s->files);
}

/* All requests have been answered before. */
static void on_freed(struct session *s)
{
	assert(TAILQ_EMPTY(&s->files->pending) && TAILQ_EMPTY(&s->files->loading) &&
	       TAILQ_EMPTY(&s->files->sent) && TAILQ_EMPTY(&s->files->anew));
	files_drop_linked(s->files);
	touched_take(&s->fs->touched, TOUCHED_FILES, &s->files->touch);
	filenodes_fini(&s->files->nodes);
	filenodes_fini(&s->files->saved);
	free(s->files);
	s->files = NULL;
}

const struct session_watch files_watch = {
	.made = on_made,
	.wakes = on_wakes,
	.ready = on_ready,
	.gone = on_gone,
	.stirs = on_stirs,
	.settled = files_route_held,
	.waits = has_waiting,
	.freed = on_freed,
};
