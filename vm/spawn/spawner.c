/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the spawner: its start and end, and what it is told. */
#include "spawner_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "heir.h"
#include "herald.h"
#include "vm/base/fdpass.h"
#include "vm/base/log.h"
#include "vm/base/util.h"

#define CROWDED_MS	20u    /* a request that the kernel can't take now is sent again then */
#define CROWDED_MOST_MS 10000u /* ... and no longer than this */

int spawner_fork(const struct spawner_rules *rules, struct spawner_ends *ret_ends)
{
	struct guard_kin kin;
	int pair[2], listener, role;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	listener = heir_listen(rules);
	role = guard_start(rules->runtime_dir, rules->background, &kin);
	if (role == GUARD_SPAWNER)
		spawner_serve(rules, pair[1], listener, &kin);
	close(pair[1]);
	if (listener >= 0)
		close(listener);
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

void spawner_herald(const struct spawner *sp, char word, const char *text)
{
	char line[HERALD_STATUS_MAX + 8];
	const int n = snprintf(line, sizeof(line), "%c%c%.*s\n", LOG_WORD, word,
			       (int)HERALD_STATUS_MAX, text);

	if (sp->tie >= 0)
		(void)!write(sp->tie, line, (size_t)n);
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
	/* A start that failed, or an end that takes too long: the process ends next. */
	if (sp->attached && !uv_is_closing((uv_handle_t *)&sp->poll)) {
		uv_poll_stop(&sp->poll);
		uv_timer_stop(&sp->retry);
	}
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
	uv_timer_stop(&sp->retry);
	if (sp->before_children.call)
		sp->before_children.call(sp->before_children.data);
	while ((c = TAILQ_FIRST(&sp->children)))
		child_lost(c);
	if (sp->after_children.call)
		sp->after_children.call(sp->after_children.data);
}

/* The first request, which the socket does not take. Return: its child, if it was to be asked for. */
static struct child *drop_asking(struct spawner *sp, enum spawn_op op)
{
	const struct unsent_packet *p = unsent_first(&sp->unsent);
	struct spawn_request req;

	if (!p)
		return NULL;
	memcpy(&req, p->bytes, sizeof(req));
	if (req.op != (uint32_t)op)
		return NULL;
	unsent_drop(&sp->unsent);
	return op == SPAWN_OP_SPAWN ? spawner_child(sp, req.id) : NULL;
}

/* Whoever has asked is told. Return: false: without it, what comes behind it would not be right. */
static bool on_unsendable(struct spawner *sp, int err)
{
	struct spawn_request req;
	struct child *c;

	memcpy(&req, unsent_first(&sp->unsent)->bytes, sizeof(req));
	switch (req.op) {
	case SPAWN_OP_HOLD: /* the next one is for this child, which is not to be there without */
	case SPAWN_OP_SPAWN:
		(void)drop_asking(sp, SPAWN_OP_HOLD);
		c = drop_asking(sp, SPAWN_OP_SPAWN);
		if (c)
			child_unasked(c, err);
		return true;
	case SPAWN_OP_ESTATE:
		(void)drop_asking(sp, SPAWN_OP_ESTATE);
		if (req.id)
			spawner_hear_holder(sp, -1, err);
		return req.id;
	default: return false; /* who is to end, what counts */
	}
}

static void on_retry(uv_timer_t *timer);

/* For want of room that others take. Return: it can still be waited for. */
static bool wait_for_room(struct spawner *sp, int err)
{
	const uint64_t now = uv_now(sp->poll.loop);

	if (!sp->crowded) {
		log_debug("what the spawner is asked for has to wait: %s", strerror(-err));
		sp->crowded = true;
		sp->crowded_at = now;
	}
	if (now - sp->crowded_at >= CROWDED_MOST_MS)
		return false;
	uv_timer_start(&sp->retry, on_retry, CROWDED_MS, 0);
	return true;
}

/* The first request can't be sent. Return: others can be tried. */
static bool go_without(struct spawner *sp, int err)
{
	if (err == -EPIPE || err == -ECONNRESET) {
		unsent_clear(&sp->unsent); /* what it has said before is heard first */
		return false;
	}
	if (spawner_is_passing(err) && wait_for_room(sp, err))
		return false;
	if (on_unsendable(sp, err))
		return true;
	log_error("the spawner can't be told any more: %s", strerror(-err));
	spawner_lost(sp);
	return false;
}

static void send_unsent(struct spawner *sp)
{
	size_t n;
	int r;

	do {
		n = sp->unsent.n;
		r = unsent_send(&sp->unsent, sp->sock);
		if (sp->unsent.n < n || r == 0 || r == -EAGAIN)
			sp->crowded = false;
	} while (r < 0 && r != -EAGAIN && go_without(sp, r));
	spawner_poll_again(sp);
}

static void on_retry(uv_timer_t *timer)
{
	send_unsent(container_of(timer, struct spawner, retry));
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
	uv_timer_init(loop, &sp->retry);
	sp->poll.data = sp;
	sp->on_poll = on_spawner;
	sp->attached = true;
	spawner_poll_again(sp);
	return 0;
}

static void on_detached(uv_handle_t *handle)
{
	struct spawner *sp = container_of((uv_timer_t *)handle, struct spawner, retry);

	sp->attached = false;
	sp->detached(sp->detached_data);
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct spawner *sp = handle->data;

	uv_close((uv_handle_t *)&sp->retry, on_detached);
}

void spawner_detach(struct spawner *sp, void (*done)(void *data), void *data)
{
	assert(TAILQ_EMPTY(&sp->children));
	sp->detached = done;
	sp->detached_data = data;
	sp->before_children.call = NULL;
	uv_close((uv_handle_t *)&sp->poll, on_poll_closed);
}
