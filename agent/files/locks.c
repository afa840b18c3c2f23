/* SPDX-License-Identifier: Apache-2.0 */
/* The host's locks on files of the working directory. See locks.h. */
#include "locks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "holder.h"
#include "lockwait.h"
#include "ops.h"
#include "agent/core/util.h"

/* ---- holders ---- */

static int file_of(int fd, struct lock_file *ret_file)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_file = (struct lock_file){st.st_dev, st.st_ino};
	return 0;
}

/* Opens what @fd is once more. Who may write is to be able to read, too: then his holder need not change
 * when he comes with a handle for reading. */
static int reopen(const struct locks *l, int fd)
{
	int flags = fcntl(fd, F_GETFL), mode = flags & O_ACCMODE, own = -1;

	if (flags < 0)
		return -errno;
	if (mode == O_WRONLY)
		own = openat(l->proc_fd, files_fd_name(fd).text, O_RDWR | FILES_OPEN_ADD);
	if (own < 0)
		own = openat(l->proc_fd, files_fd_name(fd).text, mode | FILES_OPEN_ADD);
	return own < 0 ? -errno : own;
}

static bool can(int fd, enum proto_lock_type type)
{
	int mode = fcntl(fd, F_GETFL) & O_ACCMODE;

	return mode == O_RDWR || mode == (type == PROTO_LOCK_SHARED ? O_RDONLY : O_WRONLY);
}

/* An owner comes with a handle that may do more than the one it began with. What it has moves over
 * without a gap: all of it are shared locks, which the two descriptors may have at once. */
static int widen(struct locks *l, struct lock_holder *h, int handle_fd)
{
	int fd = reopen(l, handle_fd), r = 0;

	if (fd < 0)
		return fd;
	if (!can(fd, PROTO_LOCK_EXCLUSIVE) || (h->ranges && !can(fd, PROTO_LOCK_SHARED)) ||
	    h->whole != PROTO_UNLOCK)
		r = -EBADF;
	for (const struct lock_range *x = h->ranges; x && r == 0; x = x->next)
		r = holder_set_range(fd, x->type, x->start, x->end);
	if (r < 0) {
		close(fd);
		return r == -EAGAIN ? -ENOLCK : r;
	}
	/* Threads may have the old one for a moment yet. */
	(void)holder_set_range(h->fd, PROTO_UNLOCK, 0, HOLDER_TO_THE_END);
	close(h->fd);
	h->fd = fd;
	lockwait_move(l, h);
	return 0;
}

/* Takes everything from a holder, which then may be gone. A descriptor that a thread waits with
 * keeps the open file alive, so closing alone would not do. */
static void strip(struct locks *l, struct lock_holder *h, bool whole)
{
	struct lock_ask all = {.type = PROTO_UNLOCK, .end = HOLDER_TO_THE_END};
	struct lock_spare none = {.range = {NULL, NULL}};

	(void)holder_set_range(h->fd, PROTO_UNLOCK, 0, HOLDER_TO_THE_END);
	lockbook_apply(&l->book, h, &all, &none);
	if (whole) {
		(void)holder_set_whole(h->fd, PROTO_UNLOCK);
		h->whole = PROTO_UNLOCK;
	}
	holder_tidy(&l->book, h);
}

/* ---- requests ---- */

/* Takes back the last change of a holder. What it was made from may be had at once, unless that was more
 * than what it became and somebody took some of it meanwhile. */
static void take_back(struct locks *l, struct lock_holder *h, uint64_t token)
{
	struct lock_undo u = lockbook_take_undo(&l->book, h, token);
	struct lock_ask ask = {.file = h->file, .owner = h->owner};
	struct lock_range piece;
	struct lock_spare spare;

	if (u.whole) {
		ask.whole = true;
		ask.type = u.was_whole;
		(void)holder_try(&l->book, h, &ask, &(struct lock_spare){.range = {NULL, NULL}});
	}
	for (uint64_t at = u.start; !u.whole && at <= u.end; at = piece.end + 1) {
		piece = lockbook_piece(u.was, at, u.end);
		ask.type = piece.type;
		ask.start = piece.start;
		ask.end = piece.end;
		if (lockbook_reserve(&l->book, h, &ask, &spare) == 0)
			(void)holder_try(&l->book, h, &ask, &spare);
		lockbook_unreserve(&spare);
	}
	lockbook_free_undo(&u);
	holder_tidy(&l->book, h);
	lockwait_wake(l);
}

static int find_or_make(struct locks *l, int fd, const struct lock_ask *ask,
			struct lock_holder **ret_h)
{
	struct lock_holder *h = lockbook_find(&l->book, ask->file, ask->owner);
	int own;

	if (!h && ask->type != PROTO_UNLOCK) {
		own = reopen(l, fd);
		if (own < 0)
			return own == -EMFILE || own == -ENFILE ? -ENOLCK : own;
		h = lockbook_new(&l->book, ask);
		if (!h) {
			close(own);
			return -ENOLCK;
		}
		h->fd = own;
	}
	*ret_h = h;
	return 0;
}

int locks_lock(struct locks *l, int fd, const struct proto_lock *rq, bool *ret_waits)
{
	struct lock_ask ask = {.owner = rq->owner,
			       .start = rq->start,
			       .end = rq->end,
			       .type = (enum proto_lock_type)rq->type,
			       .whole = rq->flags & PROTO_LOCK_WHOLE,
			       .pid = rq->pid,
			       .handle = rq->handle,
			       .token = rq->token};
	struct lock_holder *h = NULL;
	struct lock_spare spare;
	int r = file_of(fd, &ask.file);

	if (r == 0)
		r = find_or_make(l, fd, &ask, &h);
	if (r < 0 || !h)
		return r;
	h->waits++; /* so that it stays, whoever else lets go */
	r = lockbook_reserve(&l->book, h, &ask, &spare);
	if (r == 0 && !ask.whole && ask.type != PROTO_UNLOCK && !can(h->fd, ask.type))
		r = widen(l, h, fd);
	if (r == 0)
		r = holder_try(&l->book, h, &ask, &spare);
	/* What others wait for may be an unlock or a conversion; with flock(2) also one that failed. */
	if (ask.whole || ask.type != PROTO_LOCK_EXCLUSIVE)
		lockwait_wake(l);
	if (r == -EAGAIN && (rq->flags & PROTO_LOCK_WAIT)) {
		r = lockbook_deadlocks(&l->book, &ask) ? -EDEADLK
						       : lockwait_begin(l, h, &ask, rq, &spare);
		*ret_waits = r == 0;
	}
	lockbook_unreserve(&spare);
	h->waits--;
	holder_tidy(&l->book, h);
	return r;
}

int locks_test(struct locks *l, int fd, struct proto_lock *rq)
{
	struct lock_ask ask = {.owner = rq->owner,
			       .start = rq->start,
			       .end = rq->end,
			       .type = (enum proto_lock_type)rq->type};
	const struct lock_range *range = NULL;
	const struct lock_holder *h;
	struct flock fl = holder_range(ask.type, ask.start, ask.end);
	int r = file_of(fd, &ask.file), own;

	if (r < 0)
		return r;
	h = lockbook_conflict(&l->book, &ask, NULL, &range);
	rq->pid = h ? h->pid : 0;
	if (h) {
		rq->type = range->type;
		rq->start = range->start;
		rq->end = range->end;
		return 0;
	}
	h = lockbook_find(&l->book, ask.file, ask.owner);
	own = h ? -1 : reopen(l, fd);
	if (!h && own < 0)
		return own;
	if (fcntl(h ? h->fd : own, F_OFD_GETLK, &fl) < 0)
		r = -errno;
	close_fd(&own);
	rq->type = fl.l_type == F_UNLCK	  ? PROTO_UNLOCK
		   : fl.l_type == F_RDLCK ? PROTO_LOCK_SHARED
					  : PROTO_LOCK_EXCLUSIVE;
	rq->start = (uint64_t)fl.l_start;
	rq->end = fl.l_len ? (uint64_t)(fl.l_start + fl.l_len - 1) : HOLDER_TO_THE_END;
	return r;
}

void locks_drop(struct locks *l, int fd, uint64_t owner)
{
	struct lock_file file = {0};
	struct lock_holder *h =
		file_of(fd, &file) == 0 ? lockbook_find(&l->book, file, owner) : NULL;

	if (!h)
		return;
	strip(l, h, false);
	lockwait_wake(l);
}

/* Ends the waits that were asked by one handle, or all, which then have no answer. What they get at this
 * moment is not wanted either. */
static void end_waits(struct locks *l, uint64_t handle)
{
	struct lock_waiter *w, *next;

	for (w = TAILQ_FIRST(&l->book.waiters); w; w = next) {
		struct lock_wait *wait = container_of(w, struct lock_wait, w);

		next = TAILQ_NEXT(w, link);
		if (handle && w->ask.handle != handle)
			continue;
		wait->silent = !handle;
		wait->undo = true;
		lockwait_cancel(wait);
	}
}

/* Ends all holders, or those that got their last by one handle. */
static void end_holders(struct locks *l, uint64_t handle)
{
	struct lock_holder *h, *next;
	bool any = false;

	end_waits(l, handle);
	for (h = LIST_FIRST(&l->book.holders); h; h = next) {
		next = LIST_NEXT(h, link);
		if (handle && h->handle != handle)
			continue;
		any = true;
		strip(l, h, true);
	}
	if (any)
		lockwait_wake(l);
}

void locks_release(struct locks *l, uint64_t handle)
{
	if (handle)
		end_holders(l, handle);
}

void locks_clear(struct locks *l)
{
	end_holders(l, 0);
}

void locks_cancel(struct locks *l, uint64_t token, bool undo)
{
	struct lock_holder *h;
	struct lock_waiter *w;

	TAILQ_FOREACH(w, &l->book.waiters, link) {
		struct lock_wait *wait = container_of(w, struct lock_wait, w);

		if (wait->token == token) {
			wait->undo |= undo;
			lockwait_cancel(wait);
			return;
		}
	}
	LIST_FOREACH(h, &l->book.holders, link) {
		if (undo && token && h->undo.token == token) {
			take_back(l, h, token);
			return;
		}
	}
}

int locks_init(struct locks *l, struct loop *loop, struct conn *conn, int proc_fd)
{
	*l = (struct locks){.loop = loop, .conn = conn, .proc_fd = proc_fd};
	lockbook_init(&l->book);
	return lockwait_init(l);
}

void locks_fini(struct locks *l)
{
	if (!l->loop)
		return;
	locks_clear(l);
	lockwait_fini(l);
	locks_clear(l);
}
