/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon asks the spawner for: packets, at once or when there is room. */
#include <errno.h>
#include <poll.h>

#include "spawner_internal.h"
#include "vm/base/fdpass.h"
#include "vm/base/util.h"

#define PATIENCE_MS 1000 /* for a full socket */

int spawner_send(struct spawner *sp, const void *message, size_t len, const int *fds, size_t nfds)
{
	struct pollfd p = {.fd = sp->sock, .events = POLLOUT};
	ssize_t r = fdpass_send(sp->sock, message, len, fds, nfds, 0);

	if (r == -EAGAIN && poll(&p, 1, PATIENCE_MS) > 0)
		r = fdpass_send(sp->sock, message, len, fds, nfds, 0);
	return only_errno(r);
}

void spawner_poll_again(struct spawner *sp)
{
	int events = UV_READABLE | (!sp->unsent.n || sp->waits ? 0 : UV_WRITABLE);

	if (sp->attached && !sp->dead && !uv_is_closing((uv_handle_t *)&sp->poll))
		uv_poll_start(&sp->poll, events, sp->on_poll);
}

/* Keeps a request until the socket takes it. Return: 0 or -errno. */
static int keep(struct spawner *sp, const void *message, size_t len, const int *fds, size_t nfds)
{
	const int r = unsent_keep(&sp->unsent, message, len, fds, nfds);

	spawner_poll_again(sp);
	return r;
}

/* May anything be sent that does not wait for what was asked for before? */
static bool is_next(const struct spawner *sp)
{
	return !sp->unsent.n && !sp->waits;
}

int spawner_send_in_turn(struct spawner *sp, const void *message, size_t len, const int *fds,
			 size_t nfds)
{
	ssize_t r = sp->dead ? -EPIPE : -EAGAIN;

	if (r == -EAGAIN && is_next(sp))
		r = fdpass_send(sp->sock, message, len, fds, nfds, 0);
	return r == -EAGAIN ? keep(sp, message, len, fds, nfds) : only_errno(r);
}

int spawner_say(struct spawner *sp, enum spawn_op op, uint32_t id)
{
	const struct spawn_request req = {.op = op, .id = id};
	int r = sp->dead ? -EPIPE : -EAGAIN;

	if (r == -EAGAIN && is_next(sp))
		r = spawner_send(sp, &req, sizeof(req), NULL, 0);
	return r == -EAGAIN ? keep(sp, &req, sizeof(req), NULL, 0) : r;
}
