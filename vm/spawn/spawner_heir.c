/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the spawner when another daemon follows: of the one that serves, and of its
 * heir. See heir.h. */
#include <errno.h>
#include <fcntl.h>
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

int spawner_yield(struct spawner *sp)
{
	const struct spawn_request req = {.op = SPAWN_OP_YIELD, .id = sp->heir_number};

	if (sp->unsent.n)
		return -EAGAIN;
	return sp->dead ? -EPIPE : spawner_send(sp, &req, sizeof(req), NULL, 0);
}

int spawner_await(struct spawner *sp)
{
	int fds[SPAWN_NOTE_FDS];
	struct spawn_note note;
	const int r = spawner_await_note(sp, SPAWN_NOTE_RESUME, &note, fds);

	if (r == 0)
		spawner_close_fds(fds);
	return r;
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
		r = spawner_await_any(sp, &note, fds);
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
