/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of what it leaves: its estate, and the holder. See server_legacy.c. */
#include <errno.h>

#include "spawner_internal.h"
#include "vm/base/util.h"

static const struct spawn_request some = {.op = SPAWN_OP_ESTATE, .id = 1};

int spawner_estate(struct spawner *sp, int estate, int *ret_holder)
{
	int fds[SPAWN_NOTE_FDS], r;
	struct spawn_note note;

	if (sp->dead)
		return -EPIPE;
	r = spawner_send(sp, &some, sizeof(some), &estate, 1);
	if (r < 0)
		return r;
	r = spawner_await_note(sp, SPAWN_NOTE_HOLDER, &note, fds);
	if (r < 0)
		return r;
	*ret_holder = steal_fd(&fds[0]);
	spawner_close_fds(fds);
	return *ret_holder >= 0 ? 0 : -ENOTSUP;
}

int spawner_estate_again(struct spawner *sp, int estate)
{
	return spawner_send_in_turn(sp, &some, sizeof(some), &estate, 1);
}

int spawner_no_estate(struct spawner *sp)
{
	return spawner_say(sp, SPAWN_OP_ESTATE, 0);
}

int spawner_copied(struct spawner *sp, int estate)
{
	return spawner_send(sp, &some, sizeof(some), &estate, 1);
}

void spawner_on_holder(struct spawner *sp, const struct spawner_holder_ops *ops, void *data)
{
	sp->holder_ops = ops;
	sp->holder_data = data;
}

int spawner_unheld(struct spawner *sp)
{
	return spawner_say(sp, SPAWN_OP_UNHELD, 0);
}

int spawner_survives(struct spawner *sp)
{
	return spawner_say(sp, SPAWN_OP_SURVIVES, 0);
}
