/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: epoll for descriptors, a sorted list for the few timers. */
#include "loop.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "util.h"

#define LONG_US 500u	 /* so long nobody needs who only wants to get on with an answer */
#define BUSY_US 1000000u /* who computes now will do so for a while */

/*
 * Theory of operation
 * -------------------
 * Most waits end long before a timer expires. With a timeout, the kernel would start and cancel a timer
 * for each wait; so timers use a descriptor (timerfd), which is set when an earlier timer is added, and
 * not changed when the earliest one is removed: at worst this causes one unnecessary wake-up.
 */

static void on_clock(struct loop_source *s, uint32_t events)
{
	struct loop *l = container_of(s, struct loop, clock);

	(void)events;
	l->clock_at = 0;
	l->due = true;
}

int loop_init(struct loop *l)
{
	int r;

	l->clock = (struct loop_source){.fd = -1, .ready = on_clock};
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epfd < 0)
		return -errno;
	l->clock.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	/* With edges it need not be read. */
	r = l->clock.fd < 0 ? -errno : loop_watch(l, &l->clock, EPOLLIN | EPOLLET);
	if (r < 0)
		loop_fini(l);
	return r;
}

void loop_fini(struct loop *l)
{
	close_fd(&l->clock.fd);
	close_fd(&l->epfd);
}

int loop_watch(struct loop *l, struct loop_source *s, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = s};
	int op = EPOLL_CTL_MOD;

	if (s->fd < 0 || events == s->events)
		return 0;
	if (!events)
		op = EPOLL_CTL_DEL;
	else if (!s->events)
		op = EPOLL_CTL_ADD;
	if (epoll_ctl(l->epfd, op, s->fd, &ev) < 0)
		return -errno;
	s->events = events;
	return 0;
}

void loop_close(struct loop *l, struct loop_source *s)
{
	(void)loop_watch(l, s, 0);
	s->events = 0;
	close_fd(&s->fd);
}

void loop_disarm(struct loop *l, struct loop_timer *t)
{
	struct loop_timer **p = &l->timers;

	if (!t->armed)
		return;
	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	t->armed = false;
}

void loop_arm(struct loop *l, struct loop_timer *t, uint64_t delay_us)
{
	struct loop_timer **p = &l->timers;

	loop_disarm(l, t);
	t->at = now_us() + delay_us;
	while (*p && (*p)->at <= t->at)
		p = &(*p)->next;
	t->next = *p;
	*p = t;
	t->armed = true;
	l->due = l->due || delay_us == 0;
}

bool loop_give_way(struct loop *l)
{
	const uint64_t from = now_us();
	uint64_t now;

	if (from < l->busy_until)
		return false;
	(void)sched_yield();
	now = now_us();
	if (now - from > LONG_US)
		l->busy_until = now + BUSY_US;
	return true;
}

void loop_stop(struct loop *l, int result)
{
	l->stop = true;
	l->result = result;
}

static bool loop_fire(struct loop *l)
{
	uint64_t now;
	bool fired = false;

	if (!l->due)
		return false;
	l->due = false;
	now = now_us();
	while (l->timers && l->timers->at <= now && !l->stop) {
		struct loop_timer *t = l->timers;

		loop_disarm(l, t);
		t->fire(t);
		fired = true;
	}
	return fired;
}

/* Sees to it that the clock wakes us when the earliest timer is due. */
static int loop_wind(struct loop *l)
{
	const uint64_t at = l->timers ? l->timers->at : 0;
	const struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at / 1000000),
						     .tv_nsec = (long)(at % 1000000 * 1000)}};

	if (!at || (l->clock_at && l->clock_at <= at))
		return 0;
	if (timerfd_settime(l->clock.fd, TFD_TIMER_ABSTIME, &when, NULL) < 0)
		return -errno;
	l->clock_at = at;
	return 0;
}

int loop_run(struct loop *l)
{
	bool more = true;

	while (!l->stop) {
		struct epoll_event ev;
		struct loop_source *s;
		int n;

		/* Timers come second: what they do can wait until answers are on their way. */
		if (more || !l->calm)
			more = l->before_wait && l->before_wait(l);
		l->calm = false;
		more = loop_fire(l) || l->due || more;
		if (l->stop)
			break;
		n = loop_wind(l);
		if (n < 0)
			return n;
		n = epoll_wait(l->epfd, &ev, 1, more ? 0 : -1);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			s = ev.data.ptr;
			s->ready(s, ev.events);
		}
	}
	return l->result;
}
