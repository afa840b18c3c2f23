/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the spawner: its start and end, and what it is told. */
#include "spawner_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "vm/base/fdpass.h"
#include "vm/base/log.h"
#include "vm/base/util.h"

int spawner_fork(const struct spawner_rules *rules, struct spawner_ends *ret_ends)
{
	struct guard_kin kin;
	int pair[2], role;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	role = guard_start(rules->runtime_dir, rules->background, &kin);
	if (role == GUARD_SPAWNER)
		spawner_serve(rules, pair[1], &kin);
	close(pair[1]);
	if (role < 0) {
		close(pair[0]);
		return role;
	}
	*ret_ends = (struct spawner_ends){.sock = pair[0], .tie = kin.tie, .pid = getppid()};
	return 0;
}

struct spawner *spawner_new(const struct spawner_ends *ends)
{
	struct spawner *sp = calloc(1, sizeof(*sp));

	if (!sp)
		return NULL;
	sp->sock = ends->sock;
	sp->tie = ends->tie;
	sp->pid = ends->pid;
	sp->last_id = ends->last_id;
	fcntl(sp->sock, F_SETFL, O_NONBLOCK);
	if (sp->tie >= 0)
		fcntl(sp->tie, F_SETFL, O_NONBLOCK);
	TAILQ_INIT(&sp->children);
	unsent_init(&sp->unsent);
	STAILQ_INIT(&sp->deferred);
	return sp;
}

int spawner_start(const struct spawner_rules *rules, struct spawner **ret_spawner)
{
	struct spawner_ends ends = {.sock = -1, .tie = -1};
	const int r = spawner_fork(rules, &ends);

	if (r < 0)
		return r;
	*ret_spawner = spawner_new(&ends);
	if (!*ret_spawner) /* the spawner sees its end, and puts all in order */
		exit(1);
	return 0;
}

pid_t spawner_pid(const struct spawner *sp)
{
	return sp->pid;
}

void spawner_log(const struct spawner *sp)
{
	log_relay(sp->tie);
}

void spawner_watch(struct spawner *sp, void (*died)(void *data), void *data)
{
	sp->after_children = (struct on_lost){died, data};
}

void spawner_attended(struct spawner *sp, void (*died)(void *data), void *data)
{
	sp->before_children = (struct on_lost){died, data};
}

int spawner_mounted(struct spawner *sp, int connection)
{
	const struct spawn_request req = {.op = SPAWN_OP_MOUNTED};

	return spawner_send(sp, &req, sizeof(req), &connection, 1);
}

void spawner_unmount(struct spawner *sp)
{
	const struct spawn_request req = {.op = SPAWN_OP_UNMOUNT};

	(void)spawner_send(sp, &req, sizeof(req), NULL, 0);
}

void spawner_log_level(struct spawner *sp, enum log_level level)
{
	const struct spawn_request req = {.op = SPAWN_OP_LOG, .id = level};

	(void)spawner_send_in_turn(sp, &req, sizeof(req), NULL, 0);
}

void spawner_set_turn(struct spawner *sp, struct turn *turn)
{
	sp->turn = turn;
}

void spawner_stop(struct spawner *sp)
{
	const struct spawn_request req = {.op = SPAWN_OP_STOP};

	if (!sp)
		return;
	turn_hush(sp->turn, &sp->acknowledges);
	free(sp->over);
	if (sp->attached) /* a start that failed: the process ends next */
		uv_poll_stop(&sp->poll);
	/* If it can't be told, it sees the end of file. */
	fdpass_send(sp->sock, &req, sizeof(req), NULL, 0, 0);
	shutdown(sp->sock, SHUT_WR);
	log_relay(-1);
	if (sp->tie >= 0)
		close(sp->tie); /* the guard waits for that */
	unsent_clear(&sp->unsent);
	close(sp->sock);
	free(sp);
}

/* ---- on the loop ---- */

/* Nothing more is heard of any child; each dies with its parent. */
static void spawner_lost(struct spawner *sp)
{
	struct child *c;

	sp->dead = true;
	uv_poll_stop(&sp->poll);
	if (sp->before_children.call)
		sp->before_children.call(sp->before_children.data);
	while ((c = TAILQ_FIRST(&sp->children)))
		child_lost(c);
	if (sp->after_children.call)
		sp->after_children.call(sp->after_children.data);
}

/* A request that the socket does not take at all. */
static void on_unsendable(struct spawner *sp, int err)
{
	struct spawn_request req;
	struct child *c;

	memcpy(&req, unsent_first(&sp->unsent)->bytes, sizeof(req));
	unsent_drop(&sp->unsent);
	c = req.op == SPAWN_OP_SPAWN ? spawner_child(sp, req.id) : NULL;
	if (c)
		child_unasked(c, err);
	if (req.op == SPAWN_OP_ESTATE)
		spawner_hear_holder(sp, -1, err);
}

static void send_unsent(struct spawner *sp)
{
	int r;

	while ((r = unsent_send(&sp->unsent, sp->sock)) < 0 && r != -EAGAIN)
		on_unsendable(sp, r);
	spawner_poll_again(sp);
}

static void on_spawner(uv_poll_t *handle, int status, int events)
{
	struct spawner *sp = handle->data;
	int r = status < 0 ? -EPIPE : 1;

	while (r > 0)
		r = spawner_receive(sp);
	if (r < 0)
		spawner_lost(sp);
	else if (events & UV_WRITABLE)
		send_unsent(sp);
}

int spawner_attach(struct spawner *sp, uv_loop_t *loop)
{
	int r = uv_poll_init(loop, &sp->poll, sp->sock);

	if (r < 0)
		return r;
	sp->poll.data = sp;
	sp->on_poll = on_spawner;
	sp->attached = true;
	spawner_poll_again(sp);
	return 0;
}

static void on_detached(uv_handle_t *handle)
{
	struct spawner *sp = handle->data;

	sp->attached = false;
	sp->detached(sp->detached_data);
}

void spawner_detach(struct spawner *sp, void (*done)(void *data), void *data)
{
	assert(TAILQ_EMPTY(&sp->children));
	sp->detached = done;
	sp->detached_data = data;
	sp->before_children.call = NULL;
	uv_close((uv_handle_t *)&sp->poll, on_detached);
}
