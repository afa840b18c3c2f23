/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon asks the spawner for: packets, at once or when there is room. */
#include <errno.h>
#include <poll.h>

#include "spawner_internal.h"
#include "vm/base/fdpass.h"
#include "vm/base/util.h"

#define PATIENCE_MS 1000 /* for a full socket, or for descriptors that are on their way */

bool spawner_is_passing(int err)
{
	return err == -ETOOMANYREFS || err == -ENOBUFS || err == -ENOMEM;
}

int spawner_send(struct spawner *sp, const void *message, size_t len, const int *fds, size_t nfds)
{
	struct pollfd p = {.fd = sp->sock, .events = POLLOUT};
	ssize_t r = fdpass_send_patiently(sp->sock, message, len, fds, nfds, 0, PATIENCE_MS);

	if (r == -EAGAIN && poll(&p, 1, PATIENCE_MS) > 0)
		r = fdpass_send_patiently(sp->sock, message, len, fds, nfds, 0, PATIENCE_MS);
	return only_errno(r);
}

void spawner_poll_again(struct spawner *sp)
{
	const bool on = sp->attached && !sp->dead && !uv_is_closing((uv_handle_t *)&sp->poll);
	bool sends;

	if (!on)
		return;
	sends = sp->unsent.n && !sp->waits && !uv_is_active((uv_handle_t *)&sp->retry);
	uv_poll_start(&sp->poll, UV_READABLE | (sends ? UV_WRITABLE : 0), sp->on_poll);
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

static bool is_for_later(ssize_t r)
{
	return r == -EAGAIN || spawner_is_passing((int)r);
}

int spawner_send_in_turn(struct spawner *sp, const void *message, size_t len, const int *fds,
			 size_t nfds)
{
	ssize_t r = sp->dead ? -EPIPE : -EAGAIN;

	if (r == -EAGAIN && is_next(sp))
		r = fdpass_send(sp->sock, message, len, fds, nfds, 0);
	return is_for_later(r) ? keep(sp, message, len, fds, nfds) : only_errno(r);
}

int spawner_say(struct spawner *sp, enum spawn_op op, uint32_t id)
{
	const struct spawn_request req = {.op = op, .id = id};
	int r = sp->dead ? -EPIPE : -EAGAIN;

	if (r == -EAGAIN && is_next(sp))
		r = spawner_send(sp, &req, sizeof(req), NULL, 0);
	return is_for_later(r) ? keep(sp, &req, sizeof(req), NULL, 0) : r;
}
