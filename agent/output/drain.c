/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes of ended runs. A background process still writes to the standard output it was started
 * with; nobody will read that any more, but the writer should neither die of SIGPIPE nor block. */
#include "drain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/core/util.h"

void drain_init(struct drains *all, struct loop *loop)
{
	all->loop = loop;
	TAILQ_INIT(&all->list);
}

static void drain_free(struct drain *s)
{
	TAILQ_REMOVE(&s->all->list, s, link);
	s->all->n--;
	loop_close(s->all->loop, &s->src);
	free(s);
}

static void on_drain_ready(struct loop_source *src, uint32_t events)
{
	struct drain *s = container_of(src, struct drain, src);
	static char scratch[65536];
	ssize_t n = read(src->fd, scratch, sizeof(scratch));

	(void)events;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		drain_free(s);
}

/* How much a user's pipes may hold is limited; what nobody waits for needs no room. */
#define DRAIN_PIPE 16384

void drain_add(struct drains *all, int fd)
{
	struct drain *s;

	if (fd < 0)
		return;
	s = calloc(1, sizeof(*s));
	if (!s) {
		close(fd);
		return;
	}
	s->src = (struct loop_source){.fd = fd, .ready = on_drain_ready};
	s->all = all;
	s->fresh = true;
	TAILQ_INSERT_HEAD(&all->list, s, link);
	if (++all->n > DRAIN_MAX)
		drain_free(TAILQ_LAST(&all->list, drain_list));
}

void drain_listen(struct drains *all)
{
	struct drain *s, *next;

	for (s = TAILQ_FIRST(&all->list); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (!s->src.events)
			(void)fcntl(s->src.fd, F_SETPIPE_SZ, DRAIN_PIPE); /* not if it is full */
		if (loop_watch(all->loop, &s->src, EPOLLIN) < 0)
			drain_free(s);
	}
}

void drain_hush(struct drains *all)
{
	struct drain *s;

	TAILQ_FOREACH(s, &all->list, link) {
		if (s->fresh)
			(void)loop_watch(all->loop, &s->src, 0);
		s->fresh = false;
	}
}

void drain_clear(struct drains *all)
{
	while (!TAILQ_EMPTY(&all->list))
		drain_free(TAILQ_FIRST(&all->list));
}
