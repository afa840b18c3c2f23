/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: epoll for descriptors, a sorted list for the few timers there are. */
#include "loop.h"

#include <errno.h>
#include <sys/epoll.h>

#include "util.h"

int loop_init(struct loop *l)
{
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	return l->epfd < 0 ? -errno : 0;
}

void loop_fini(struct loop *l)
{
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
}

void loop_stop(struct loop *l, int result)
{
	l->stop = true;
	l->result = result;
}

static bool loop_fire(struct loop *l)
{
	uint64_t now = now_us();
	bool fired = false;

	while (l->timers && l->timers->at <= now && !l->stop) {
		struct loop_timer *t = l->timers;

		loop_disarm(l, t);
		t->fire(t);
		fired = true;
	}
	return fired;
}

static int loop_timeout(const struct loop *l)
{
	uint64_t now, ms;

	if (!l->timers)
		return -1;
	now = now_us();
	if (l->timers->at <= now)
		return 0;
	ms = (l->timers->at - now + 999) / 1000;
	return ms > 3600000 ? 3600000 : (int)ms;
}

int loop_run(struct loop *l)
{
	while (!l->stop) {
		/* Timers come second: what they do can wait until answers are on their way. */
		bool more = l->before_wait && l->before_wait(l);
		struct epoll_event ev;
		struct loop_source *s;
		int n;

		more = loop_fire(l) || more;
		if (l->stop)
			break;
		n = epoll_wait(l->epfd, &ev, 1, more ? 0 : loop_timeout(l));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			s = ev.data.ptr;
			s->ready(s, ev.events);
		}
	}
	return l->result;
}
