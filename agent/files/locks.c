/* SPDX-License-Identifier: Apache-2.0 */
/* The host's locks on files of the working directory. See locks.h. */
#include "locks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops.h"
#include "agent/core/conn.h"
#include "agent/core/log.h"
#include "agent/core/util.h"

#define TO_THE_END ((uint64_t)INT64_MAX)
#define KICK	   SIGURG /* ignored by default; nobody else sends it */
#define TURN_US	   10000u /* between kicks */
#define STACK	   (16u << 10)

/* One LOCK of the host that waits. */
struct lock_wait {
	struct lock_waiter w; /* in the book */
	struct locks *locks;
	struct lock_holder *holder; /* counts it in `waits` */
	struct lock_spare spare;
	uint64_t token;
	bool silent;	/* there is nobody to be answered */
	bool cancelled; /* it is not to go on */
	bool undo;	/* nor to end with success */
	bool moved;	/* the holder has another open file than `fd` */
	bool threaded;	/* `thread` runs, and owns `fd` and `result` */
	atomic_bool stop;
	pthread_t thread;
	int fd;
	int result;
};

/* ---- what the kernel has, and the book mirrors ---- */

static const short kernel_type[] = {
	[PROTO_UNLOCK] = F_UNLCK, [PROTO_LOCK_SHARED] = F_RDLCK, [PROTO_LOCK_EXCLUSIVE] = F_WRLCK};

/* A range as fcntl(2) wants it. */
static struct flock holder_range(enum proto_lock_type type, uint64_t start, uint64_t end)
{
	return (struct flock){.l_type = kernel_type[type],
			      .l_whence = SEEK_SET,
			      .l_start = (off_t)start,
			      .l_len = end == TO_THE_END ? 0 : (off_t)(end - start + 1)};
}

/* In the kernel only, without waiting. Return: 0, -EAGAIN, or another -errno. */
static int holder_set_range(int fd, enum proto_lock_type type, uint64_t start, uint64_t end)
{
	struct flock fl = holder_range(type, start, end);

	if (fcntl(fd, F_OFD_SETLK, &fl) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

/* Likewise; -EWOULDBLOCK. */
static int holder_set_whole(int fd, enum proto_lock_type type)
{
	static const int how[] = {[PROTO_UNLOCK] = LOCK_UN,
				  [PROTO_LOCK_SHARED] = LOCK_SH,
				  [PROTO_LOCK_EXCLUSIVE] = LOCK_EX};

	return flock(fd, how[type] | LOCK_NB) < 0 ? -errno : 0;
}

/* Locks, unlocks or converts without waiting, and keeps the book. @spare is used up on success. Return: 0,
 * -EAGAIN, or another -errno. */
static int holder_try(struct lockbook *book, struct lock_holder *h, const struct lock_ask *ask,
		      struct lock_spare *spare)
{
	int r = ask->whole ? holder_set_whole(h->fd, ask->type)
			   : holder_set_range(h->fd, ask->type, ask->start, ask->end);

	if (r == 0)
		lockbook_apply(book, h, ask, spare);
	else if (ask->whole && h->whole != PROTO_UNLOCK && h->whole != ask->type)
		h->whole = PROTO_UNLOCK; /* a conversion begins by giving up what there was */
	return r == -EWOULDBLOCK ? -EAGAIN : r;
}

/* Makes the kernel's locks match the lockbook, in the requested range. */
static void holder_settle(const struct lock_holder *h, const struct lock_ask *ask)
{
	struct lock_range piece;

	if (ask->whole) {
		(void)holder_set_whole(h->fd, h->whole);
		return;
	}
	for (uint64_t at = ask->start; at <= ask->end; at = piece.end + 1) {
		piece = lockbook_piece(h->ranges, at, ask->end);
		(void)holder_set_range(h->fd, piece.type, piece.start, piece.end);
	}
}

/* Forgets a holder that has nothing. */
static void holder_tidy(struct lockbook *book, struct lock_holder *h)
{
	if (!lockbook_empty(h))
		return;
	close_fd(&h->fd);
	lockbook_free(book, h);
}

static void on_kick(int sig)
{
	(void)sig;
}

/* ---- waiting: in the book, or in a thread that blocks in the kernel ---- */

static int block(const struct lock_wait *w)
{
	const struct lock_ask *ask = &w->w.ask;
	struct flock fl = holder_range(ask->type, ask->start, ask->end);

	if (ask->whole)
		return flock(w->fd, ask->type == PROTO_LOCK_SHARED ? LOCK_SH : LOCK_EX);
	return fcntl(w->fd, F_OFD_SETLKW, &fl);
}

static void *wait_thread(void *arg)
{
	struct lock_wait *w = arg;

	w->result = -EINTR;
	while (!atomic_load(&w->stop)) {
		w->result = block(w) < 0 ? -errno : 0;
		if (w->result != -EINTR)
			break;
	}
	/* Pieces of this size are written whole, and there is room for one of each thread. */
	if (write(w->locks->done_fd, &w, sizeof(w)) < 0)
		abort();
	return NULL;
}

static int thread_start(struct lock_wait *w)
{
	struct locks *l = w->locks;
	pthread_attr_t attr;
	int r;

	if (l->nthreads >= LOCKS_THREADS)
		return -ENOLCK;
	w->fd = fcntl(w->holder->fd, F_DUPFD_CLOEXEC, 0);
	if (w->fd < 0 || pthread_attr_init(&attr) != 0) {
		close_fd(&w->fd);
		return -ENOLCK;
	}
	(void)pthread_attr_setstacksize(&attr, STACK);
	w->moved = false;
	atomic_store(&w->stop, false);
	r = pthread_create(&w->thread, &attr, wait_thread, w);
	pthread_attr_destroy(&attr);
	if (r != 0) {
		close_fd(&w->fd);
		return -ENOLCK;
	}
	w->threaded = true;
	l->nthreads++;
	return 0;
}

/* ---- waits ---- */

/* Ends a wait that has no thread any more: answers it. */
static void finish(struct lock_wait *w, int result)
{
	struct locks *l = w->locks;
	struct lock_holder *h = w->holder;
	struct frame *f = w->silent ? NULL : frame_new(PROTO_LOCKED, 0, 12);

	if (f) {
		put_u64(&f->out, w->token);
		put_u32(&f->out, (uint32_t)-result);
		conn_send(l->conn, f);
	} else if (!w->silent) {
		log_line("out of memory: a wait for a lock has no answer");
	}
	TAILQ_REMOVE(&l->book.waiters, &w->w, link);
	lockbook_unreserve(&w->spare);
	free(w);
	h->waits--;
	holder_tidy(&l->book, h);
}

static void arm(struct locks *l)
{
	if (!l->timer.armed)
		loop_arm(l->loop, &l->timer, TURN_US);
}

/* Parks a wait behind another owner of the host, or has a thread wait for the sandbox. */
static int go_on_waiting(struct lock_wait *w)
{
	if (lockbook_conflict(&w->locks->book, &w->w.ask, NULL, NULL))
		return 0;
	return thread_start(w);
}

/* Takes @spare on success. Return: 0 or -ENOLCK. */
static int lockwait_begin(struct locks *l, struct lock_holder *h, const struct lock_ask *ask,
			  const struct proto_lock *rq, struct lock_spare *spare)
{
	struct lock_wait *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOLCK;
	w->w.ask = *ask;
	w->locks = l;
	w->holder = h;
	w->token = rq->token;
	w->fd = -1;
	r = go_on_waiting(w);
	if (r < 0) {
		free(w);
		return r;
	}
	w->spare = *spare;
	*spare = (struct lock_spare){.range = {NULL, NULL}};
	h->waits++;
	TAILQ_INSERT_TAIL(&l->book.waiters, &w->w, link);
	return 0;
}

/* Tries a wait that has no thread. Return: may others go on now? */
static bool try_parked(struct lock_wait *w)
{
	const enum proto_lock_type whole = w->holder->whole;
	const bool shared = w->w.ask.type == PROTO_LOCK_SHARED;
	int r = holder_try(&w->locks->book, w->holder, &w->w.ask, &w->spare);
	bool freed = r == 0 ? shared : whole != w->holder->whole;

	if (r == -EAGAIN)
		r = go_on_waiting(w);
	else if (r == 0)
		finish(w, 0);
	if (r < 0)
		finish(w, r);
	return freed;
}

/* Somebody let go: tries those who are parked. */
static void lockwait_wake(struct locks *l)
{
	struct lock_waiter *w, *next;
	bool freed = true;

	/* What a waiter gets may itself be a conversion that makes room. */
	while (freed) {
		freed = false;
		for (w = TAILQ_FIRST(&l->book.waiters); w; w = next) {
			struct lock_wait *wait = container_of(w, struct lock_wait, w);

			next = TAILQ_NEXT(w, link);
			if (!wait->threaded)
				freed |= try_parked(wait);
		}
	}
}

/* Has a thread come back. */
static void stop(struct lock_wait *w)
{
	atomic_store(&w->stop, true);
	pthread_kill(w->thread, KICK);
	arm(w->locks);
}

/* Ends a wait, with EINTR unless it is granted at this very moment. */
static void lockwait_cancel(struct lock_wait *w)
{
	if (!w->threaded) {
		finish(w, -EINTR);
		return;
	}
	w->cancelled = true;
	stop(w);
}

/* The holder has another open file: its threads are to wait with that. */
static void lockwait_move(struct locks *l, const struct lock_holder *h)
{
	struct lock_waiter *w;

	TAILQ_FOREACH(w, &l->book.waiters, link) {
		struct lock_wait *wait = container_of(w, struct lock_wait, w);

		if (wait->holder == h && wait->threaded) {
			wait->moved = true;
			stop(wait);
		}
	}
}

static void on_timer(struct loop_timer *t)
{
	struct locks *l = container_of(t, struct locks, timer);
	struct lock_waiter *w;

	TAILQ_FOREACH(w, &l->book.waiters, link) {
		struct lock_wait *wait = container_of(w, struct lock_wait, w);

		if (wait->threaded && atomic_load(&wait->stop)) {
			pthread_kill(wait->thread, KICK);
			arm(l);
		}
	}
}

/* A thread has got what it waited for. Return: 0, -EAGAIN if it is gone again, -EINTR if nobody wants it, or
 * another -errno. */
static int granted(struct lock_wait *w)
{
	const struct lock_ask *ask = &w->w.ask;

	if (w->moved && !ask->whole) /* another thread may keep that file open */
		(void)holder_set_range(w->fd, PROTO_UNLOCK, ask->start, ask->end);
	if (!w->silent && !w->undo)
		return holder_try(&w->locks->book, w->holder, ask, &w->spare);
	holder_settle(w->holder, ask);
	return -EINTR;
}

/* A thread has ended. */
static void on_ended(struct lock_wait *w)
{
	struct locks *l = w->locks;
	int r = w->result;

	pthread_join(w->thread, NULL);
	w->threaded = false;
	l->nthreads--;
	if (r == 0)
		r = granted(w);
	close_fd(&w->fd);
	if (w->cancelled && (r == -EAGAIN || r == -EINTR))
		finish(w, -EINTR);
	else if (r == -EAGAIN || r == -EINTR)
		(void)try_parked(w); /* the caller wakes others */
	else
		finish(w, r);
}

static void on_done(struct loop_source *s, uint32_t events)
{
	struct locks *l = container_of(s, struct locks, done);
	struct lock_wait *w;

	(void)events;
	if (read(s->fd, &w, sizeof(w)) == sizeof(w)) {
		on_ended(w);
		lockwait_wake(l); /* a conversion may have made room */
	}
}

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
	(void)holder_set_range(h->fd, PROTO_UNLOCK, 0, TO_THE_END);
	close(h->fd);
	h->fd = fd;
	lockwait_move(l, h);
	return 0;
}

/* Takes everything from a holder, which then may be gone. A descriptor that a thread waits with
 * keeps the open file alive, so closing alone would not do. */
static void strip(struct locks *l, struct lock_holder *h, bool whole)
{
	struct lock_ask all = {.type = PROTO_UNLOCK, .end = TO_THE_END};
	struct lock_spare none = {.range = {NULL, NULL}};

	(void)holder_set_range(h->fd, PROTO_UNLOCK, 0, TO_THE_END);
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
	rq->end = fl.l_len ? (uint64_t)(fl.l_start + fl.l_len - 1) : TO_THE_END;
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
	const struct sigaction kick = {.sa_handler =
					       on_kick}; /* no SA_RESTART: it is to interrupt */
	int fds[2];

	*l = (struct locks){.loop = loop, .conn = conn, .proc_fd = proc_fd};
	lockbook_init(&l->book);
	if (sigaction(KICK, &kick, NULL) < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	l->done = (struct loop_source){.fd = fds[0], .ready = on_done};
	l->done_fd = fds[1];
	l->timer.fire = on_timer;
	return loop_watch(l->loop, &l->done, EPOLLIN);
}

void locks_fini(struct locks *l)
{
	struct pollfd p = {.events = POLLIN};

	if (!l->loop)
		return;
	locks_clear(l);
	p.fd = l->done.fd;
	while (l->nthreads) {
		if (poll(&p, 1, (int)TURN_US / 1000) == 1)
			on_done(&l->done, EPOLLIN);
		else
			on_timer(&l->timer);
	}
	loop_disarm(l->loop, &l->timer);
	loop_close(l->loop, &l->done);
	close_fd(&l->done_fd);
	locks_clear(l);
}
