/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the spawner when another daemon follows: of the one that serves, and of its
 * heir. See heir.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "heir_wire.h"
#include "spawner_internal.h"
#include "vm/base/fdpass.h"
#include "vm/base/log.h"
#include "vm/base/util.h"
#include "vm/jail/cell.h"

#define ALIVE_US 500000u /* between two words that it gets on */

void spawner_on_heir(struct spawner *sp, bool (*begun)(void *data, int fd), void *data)
{
	sp->heir_begun = begun;
	sp->heir_data = data;
}

/* Waits for a note. Return: as spawner_take_note(), but never 0. */
static int await_note(struct spawner *sp, struct spawn_note *ret_note, int ret_fds[SPAWN_NOTE_FDS])
{
	struct pollfd p = {.fd = sp->sock, .events = POLLIN};
	int r;

	while ((r = spawner_take_note(sp, ret_note, ret_fds)) == 0)
		(void)poll(&p, 1, -1);
	return r;
}

/* What was said before the spawner knew is for later. */
static int defer(struct spawner *sp, const struct spawn_note *note, const int fds[SPAWN_NOTE_FDS])
{
	struct deferred *d = malloc(sizeof(*d));

	if (!d) { /* as if the spawner were gone: nothing can be relied on any more */
		spawner_close_fds(fds);
		return -EPIPE;
	}
	d->note = *note;
	memcpy(d->fds, fds, sizeof(d->fds));
	STAILQ_INSERT_TAIL(&sp->deferred, d, link);
	return 0;
}

static void handle_deferred(struct spawner *sp)
{
	while (!STAILQ_EMPTY(&sp->deferred))
		(void)spawner_receive(sp);
}

int spawner_yield(struct spawner *sp)
{
	const struct spawn_request req = {.op = SPAWN_OP_YIELD, .id = sp->heir_number};

	if (!STAILQ_EMPTY(&sp->unsent))
		return -EAGAIN;
	return sp->dead ? -EPIPE : spawner_send(sp, &req, sizeof(req), NULL, 0);
}

int spawner_await(struct spawner *sp)
{
	int fds[SPAWN_NOTE_FDS], r = 0;
	struct spawn_note note;

	while (r == 0 && (r = await_note(sp, &note, fds)) > 0) {
		if (note.op == SPAWN_NOTE_RESUME) {
			spawner_close_fds(fds);
			break;
		}
		r = defer(sp, &note, fds);
	}
	handle_deferred(sp);
	return MIN(r, 0);
}

int spawner_estate(struct spawner *sp, int estate, int *ret_holder)
{
	const struct spawn_request req = {.op = SPAWN_OP_ESTATE, .id = 1};
	int fds[SPAWN_NOTE_FDS] = {-1}, r = sp->dead ? -EPIPE : 0;
	struct spawn_note note = {0};

	if (estate < 0)
		return spawner_say(sp, SPAWN_OP_ESTATE, 0);
	if (r == 0)
		r = spawner_send(sp, &req, sizeof(req), &estate, 1);
	if (r < 0)
		return r;
	while (r == 0 && (r = await_note(sp, &note, fds)) > 0) {
		if (note.op == SPAWN_NOTE_HOLDER)
			break;
		r = defer(sp, &note, fds);
	}
	handle_deferred(sp);
	if (r <= 0)
		return r;
	sp->holder_number = note.id;
	*ret_holder = steal_fd(&fds[0]);
	spawner_close_fds(fds);
	return *ret_holder >= 0 ? 0 : -ENOTSUP;
}

int spawner_copied(struct spawner *sp, int estate)
{
	const struct spawn_request req = {.op = SPAWN_OP_ESTATE, .id = 1};

	return spawner_send(sp, &req, sizeof(req), &estate, 1);
}

void spawner_on_holder(struct spawner *sp, void (*changed)(void *data, int fd, bool never),
		       void *data)
{
	sp->holder_changed = changed;
	sp->holder_data = data;
}

int spawner_holder_deaf(struct spawner *sp, bool crowded)
{
	return spawner_say(sp, crowded ? SPAWN_OP_CROWDED : SPAWN_OP_HOLDER, sp->holder_number);
}

int spawner_survives(struct spawner *sp)
{
	return spawner_say(sp, SPAWN_OP_SURVIVES, sp->holder_number);
}

int spawner_inherit(struct spawner **ret_spawner)
{
	struct spawner_ends ends = {.sock = HEIR_FD_SPAWNER, .tie = -1, .pid = getppid()};
	struct heir_welcome w;
	size_t nfds;

	if (fdpass_receive(HEIR_FD_SPAWNER, &w, sizeof(w), NULL, 0, &nfds, 0) != sizeof(w) ||
	    w.magic != HEIR_MAGIC)
		return -EBADMSG;
	ends.last_id = w.last_id;
	*ret_spawner = spawner_new(&ends);
	if (!*ret_spawner)
		return -ENOMEM;
	fcntl(HEIR_FD_SPAWNER, F_SETFD, FD_CLOEXEC);
	(*ret_spawner)->waits = true;
	jail_instance_join(w.instance);
	return w.version == SPAWN_VERSION ? 0 : -EOPNOTSUPP;
}

int spawner_conf(struct spawner *sp, int conf)
{
	const struct spawn_request req = {.op = SPAWN_OP_CONF};

	return spawner_send(sp, &req, sizeof(req), &conf, 1);
}

void spawner_alive(struct spawner *sp)
{
	const struct spawn_request req = {.op = SPAWN_OP_ALIVE};
	const uint64_t now = log_now();

	if (!sp->waits || now - sp->alive_at < ALIVE_US)
		return;
	sp->alive_at = now;
	(void)fdpass_send(sp->sock, &req, sizeof(req), NULL, 0, MSG_DONTWAIT);
}

int spawner_claim(struct spawner *sp, uint32_t id)
{
	const struct spawn_request req = {.op = SPAWN_OP_CLAIM, .id = id};

	return spawner_send(sp, &req, sizeof(req), NULL, 0);
}

int spawner_adopt(struct spawner *sp, struct child *c)
{
	int r;

	if (spawner_child(sp, c->id))
		return -EBADMSG;
	r = sp->dead ? -EPIPE : spawner_claim(sp, c->id);
	if (r < 0)
		return r;
	c->spawner = sp;
	c->state = CHILD_RUNNING;
	TAILQ_INSERT_TAIL(&sp->children, c, link);
	return 0;
}

void spawner_tie(struct spawner *sp, int tie)
{
	sp->tie = tie;
}

int spawner_tie_fd(const struct spawner *sp)
{
	return sp->tie;
}

int spawner_ready(struct spawner *sp)
{
	const struct spawn_request req = {.op = SPAWN_OP_READY};
	int fds[SPAWN_NOTE_FDS], r = spawner_send(sp, &req, sizeof(req), NULL, 0);
	struct spawn_note note = {0};

	if (r == 0)
		r = await_note(sp, &note, fds);
	if (r < 0)
		return r;
	spawner_close_fds(fds);
	if (note.op != SPAWN_NOTE_SUCCEED)
		return -EPROTO;
	sp->asked = note.status;
	sp->waits = false;
	spawner_poll_again(sp);
	return 0;
}

int spawner_asked(const struct spawner *sp)
{
	return sp->asked;
}

void spawner_refuse(struct spawner *sp, const char *words)
{
	const struct spawn_request req = {.op = SPAWN_OP_REFUSE};
	char message[sizeof(req) + HEIR_WORDS_MAX + 1], *text = message + sizeof(req);

	memcpy(message, &req, sizeof(req));
	snprintf(text, HEIR_WORDS_MAX + 1, "%s", words);
	(void)spawner_send(sp, message, sizeof(req) + strlen(text), NULL, 0);
}
