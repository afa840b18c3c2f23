/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that a socket had no room for. See unsent.h. */
#include "unsent.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fdpass.h"

void unsent_init(struct unsent *u)
{
	STAILQ_INIT(&u->list);
	u->n = 0;
}

static void close_fds(const struct unsent_packet *p)
{
	for (size_t i = 0; i < p->nfds; i++)
		close(p->fds[i]);
}

static void packet_free(struct unsent_packet *p)
{
	close_fds(p);
	free(p);
}

void unsent_clear(struct unsent *u)
{
	while (u->n)
		unsent_drop(u);
}

int unsent_keep(struct unsent *u, const void *bytes, size_t len, const int *fds, size_t nfds)
{
	struct unsent_packet *p = malloc(sizeof(*p) + len);

	assert(nfds <= UNSENT_FDS);
	if (!p)
		return -ENOMEM;
	memcpy(p->bytes, bytes, len);
	p->len = len;
	for (p->nfds = 0; p->nfds < nfds; p->nfds++) {
		p->fds[p->nfds] = fcntl(fds[p->nfds], F_DUPFD_CLOEXEC, 0);
		if (p->fds[p->nfds] < 0) {
			const int err = errno;

			packet_free(p);
			return -err;
		}
	}
	STAILQ_INSERT_TAIL(&u->list, p, link);
	u->n++;
	return 0;
}

int unsent_send(struct unsent *u, int sock)
{
	struct unsent_packet *p;

	while ((p = STAILQ_FIRST(&u->list))) {
		const ssize_t n =
			fdpass_send(sock, p->bytes, p->len, p->fds, p->nfds, MSG_DONTWAIT);

		if (n < 0)
			return (int)n;
		unsent_drop(u);
	}
	return 0;
}

const struct unsent_packet *unsent_first(const struct unsent *u)
{
	return STAILQ_FIRST(&u->list);
}

void unsent_drop(struct unsent *u)
{
	struct unsent_packet *p = STAILQ_FIRST(&u->list);

	STAILQ_REMOVE_HEAD(&u->list, link);
	u->n--;
	packet_free(p);
}

void unsent_leave(const struct unsent *u)
{
	const struct unsent_packet *p;

	STAILQ_FOREACH(p, &u->list, link)
	close_fds(p);
}
