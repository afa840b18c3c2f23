/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for locks: parked in the book, or in a thread that blocks in the kernel. See locks.h. */
#include "lockwait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent/core/conn.h"
#include "holder.h"
#include "agent/core/log.h"
#include "agent/core/util.h"

#define KICK	SIGURG /* ignored by default; nobody else sends it */
#define TURN_US 10000u /* between kicks */
#define STACK	(16u << 10)

static void on_kick(int sig)
{
	(void)sig;
}

/* ---- the threads ---- */

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

int lockwait_begin(struct locks *l, struct lock_holder *h, const struct lock_ask *ask,
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

void lockwait_wake(struct locks *l)
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

void lockwait_cancel(struct lock_wait *w)
{
	if (!w->threaded) {
		finish(w, -EINTR);
		return;
	}
	w->cancelled = true;
	stop(w);
}

void lockwait_move(struct locks *l, const struct lock_holder *h)
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

int lockwait_init(struct locks *l)
{
	const struct sigaction kick = {.sa_handler =
					       on_kick}; /* no SA_RESTART: it is to interrupt */
	int fds[2];

	if (sigaction(KICK, &kick, NULL) < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	l->done = (struct loop_source){.fd = fds[0], .ready = on_done};
	l->done_fd = fds[1];
	l->timer.fire = on_timer;
	return loop_watch(l->loop, &l->done, EPOLLIN);
}

void lockwait_fini(struct locks *l)
{
	struct pollfd p = {.fd = l->done.fd, .events = POLLIN};

	/* All have been cancelled. */
	while (l->nthreads) {
		if (poll(&p, 1, (int)TURN_US / 1000) == 1)
			on_done(&l->done, EPOLLIN);
		else
			on_timer(&l->timer);
	}
	loop_disarm(l->loop, &l->timer);
	loop_close(l->loop, &l->done);
	close_fd(&l->done_fd);
}
