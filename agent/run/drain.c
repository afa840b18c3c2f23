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

static void sink_free(struct sink *s)
{
	struct sink **p = &s->all->newest;

	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	s->all->n--;
	loop_close(s->all->loop, &s->src);
	free(s);
}

static void on_sink_ready(struct loop_source *src, uint32_t events)
{
	struct sink *s = container_of(src, struct sink, src);
	static char scratch[65536];
	ssize_t n = read(src->fd, scratch, sizeof(scratch));

	(void)events;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		sink_free(s);
}

/* How much a user's pipes may hold is limited; what nobody waits for needs no room. */
#define SINK_PIPE 16384

void sink_add(struct sinks *all, int fd)
{
	struct sink *s, *oldest;

	if (fd < 0)
		return;
	s = calloc(1, sizeof(*s));
	if (!s) {
		close(fd);
		return;
	}
	s->src = (struct loop_source){.fd = fd, .ready = on_sink_ready};
	s->all = all;
	s->fresh = true;
	s->next = all->newest;
	all->newest = s;
	all->n++;
	if (all->n > SINK_MAX) {
		for (oldest = s; oldest->next; oldest = oldest->next)
			;
		sink_free(oldest);
	}
}

void sink_listen(struct sinks *all)
{
	struct sink *s, *next;

	for (s = all->newest; s; s = next) {
		next = s->next;
		if (!s->fresh && !s->src.events)
			(void)fcntl(s->src.fd, F_SETPIPE_SZ, SINK_PIPE); /* not if it is full */
		if (loop_watch(all->loop, &s->src, EPOLLIN) < 0)
			sink_free(s);
	}
}

void sink_hush(struct sinks *all)
{
	for (struct sink *s = all->newest; s; s = s->next) {
		if (s->fresh)
			(void)loop_watch(all->loop, &s->src, 0);
		s->fresh = false;
	}
}

void sink_clear(struct sinks *all)
{
	struct sink *s, *next;

	for (s = all->newest; s; s = next) {
		next = s->next;
		loop_close(all->loop, &s->src);
		free(s);
	}
	all->newest = NULL;
	all->n = 0;
}
