/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the spawner: starts processes, on the event loop. */
#include "spawner_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

#include "vm/base/aim.h"
#include "vm/base/fdpass.h"
#include "vm/base/lent.h"
#include "vm/base/log.h"
#include "vm/jail/cell.h"
#include "vm/base/util.h"

#define PATIENCE_MS 1000 /* for a full socket */

static const char *const step_str[] = {
	[SPAWN_STEP_REFUSED] = "the spawner does not allow it",
	[SPAWN_STEP_PROGRAM] = "what it needs was not found",
	[SPAWN_STEP_FORK] = "no process could be made",
	[SPAWN_STEP_PDEATHSIG] = "it could not be tied to its parent",
	[SPAWN_STEP_PRIVILEGES] = "its privileges could not be dropped",
	[SPAWN_STEP_DESCRIPTORS] = "its descriptors could not be arranged",
	[SPAWN_STEP_JAIL] = "its jail could not be made",
	[SPAWN_STEP_EXEC] = "the program could not be run",
};
static_assert(ARRAY_SIZE(step_str) == SPAWN_NSTEPS, "a name for each step");

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
	STAILQ_INIT(&sp->unsent);
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

int spawner_send(struct spawner *sp, const void *message, size_t len, const int *fds, size_t nfds)
{
	struct pollfd p = {.fd = sp->sock, .events = POLLOUT};
	ssize_t r = fdpass_send(sp->sock, message, len, fds, nfds, 0);

	if (r == -EAGAIN && poll(&p, 1, PATIENCE_MS) > 0)
		r = fdpass_send(sp->sock, message, len, fds, nfds, 0);
	return only_errno(r);
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

static void unsent_free(struct unsent *u)
{
	for (size_t i = 0; i < u->nfds; i++)
		close(u->fds[i]);
	free(u);
}

void spawner_stop(struct spawner *sp)
{
	const struct spawn_request req = {.op = SPAWN_OP_STOP};
	struct unsent *u;

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
	while ((u = STAILQ_FIRST(&sp->unsent))) {
		STAILQ_REMOVE_HEAD(&sp->unsent, link);
		unsent_free(u);
	}
	close(sp->sock);
	free(sp);
}

/* ---- requests ---- */

/* Keeps a request until the socket takes it. */
static int keep_unsent(struct spawner *sp, const char *message, size_t len, const int *fds,
		       size_t nfds)
{
	struct unsent *u = malloc(sizeof(*u) + len);

	if (!u)
		return -ENOMEM;
	memcpy(u->message, message, len);
	u->len = len;
	for (u->nfds = 0; u->nfds < nfds; u->nfds++) {
		u->fds[u->nfds] = fcntl(fds[u->nfds], F_DUPFD_CLOEXEC, 0);
		if (u->fds[u->nfds] < 0) {
			int err = errno;

			unsent_free(u);
			return -err;
		}
	}
	STAILQ_INSERT_TAIL(&sp->unsent, u, link);
	spawner_poll_again(sp);
	return 0;
}

/* In its turn, now or when there is room. Return: 0 or -errno. */
static int send_in_turn(struct spawner *sp, const char *message, size_t len, const int *fds,
			size_t nfds)
{
	ssize_t r = -EAGAIN;

	if (STAILQ_EMPTY(&sp->unsent) && !sp->waits)
		r = fdpass_send(sp->sock, message, len, fds, nfds, 0);
	if (r == -EAGAIN)
		r = keep_unsent(sp, message, len, fds, nfds);
	return only_errno(r);
}

int spawner_say(struct spawner *sp, enum spawn_op op, uint32_t id)
{
	const struct spawn_request req = {.op = op, .id = id};
	int r = sp->dead ? -EPIPE : -EAGAIN;

	if (r == -EAGAIN && STAILQ_EMPTY(&sp->unsent) && !sp->waits)
		r = spawner_send(sp, &req, sizeof(req), NULL, 0);
	return r == -EAGAIN ? keep_unsent(sp, (const char *)&req, sizeof(req), NULL, 0) : r;
}

void spawner_log_level(struct spawner *sp, enum log_level level)
{
	const struct spawn_request req = {.op = SPAWN_OP_LOG, .id = level};

	if (!sp->dead)
		(void)send_in_turn(sp, (const char *)&req, sizeof(req), NULL, 0);
}

/* Of a process that may run without our knowing. If it can't be asked for, its owner waits for the
 * news. */
static void ask_kill(const struct child *c)
{
	const struct spawn_request req = {.op = SPAWN_OP_KILL, .id = c->id};

	if (!c->spawner->dead)
		(void)send_in_turn(c->spawner, (const char *)&req, sizeof(req), NULL, 0);
}

/* Of a child that nothing more is heard of. If it can't be said, the spawner keeps a little too
 * much. */
static void forget(struct spawner *sp, uint32_t id)
{
	const struct spawn_request req = {.op = SPAWN_OP_FORGET, .id = id};

	if (!sp->dead)
		(void)send_in_turn(sp, (const char *)&req, sizeof(req), NULL, 0);
}

/* No record names them any more. */
static void acknowledge_all(struct turn_speaker *speaker)
{
	struct spawner *sp = container_of(speaker, struct spawner, acknowledges);

	for (size_t i = 0; i < sp->nover; i++)
		forget(sp, sp->over[i]);
	sp->nover = 0;
}

/* Return: 0 or -ENOMEM. */
static int add_over(struct spawner *sp, uint32_t id)
{
	const size_t cap = sp->cap_over ? sp->cap_over * 2 : 16;
	uint32_t *more;

	if (sp->nover == sp->cap_over) {
		more = reallocarray(sp->over, cap, sizeof(*more));
		if (!more)
			return -ENOMEM;
		sp->over = more;
		sp->cap_over = cap;
	}
	sp->over[sp->nover++] = id;
	return 0;
}

/* Who comes after this process goes by what is written down, and asks for the end of each child
 * that is named there: the spawner has to know that for so long. If there is no memory it knows it
 * for ever. */
void child_acknowledge(struct spawner *sp, uint32_t id)
{
	if (!turn_is_on(sp->turn)) {
		forget(sp, id);
	} else if (add_over(sp, id) == 0) {
		sp->acknowledges.speak = acknowledge_all;
		turn_speak(sp->turn, TURN_RELEASE, &sp->acknowledges);
	}
}

void spawner_set_turn(struct spawner *sp, struct turn *turn)
{
	sp->turn = turn;
}

/* ---- children ---- */

static void child_gone(struct child *c)
{
	turn_hush(c->spawner->turn, &c->kills);
	TAILQ_REMOVE(&c->spawner->children, c, link);
	c->state = CHILD_GONE;
}

/* @status: as it is heard; of one that had ended when it was adopted, that is known. */
static void child_end(struct child *c, int status)
{
	struct cgroup_stat stats = c->stats;
	int pidfd = c->pidfd, kept = c->kept;

	child_gone(c);
	if (!c->ended)
		c->status = status;
	c->ended = true;
	c->exited(c, c->status);
	lent_close(&pidfd); /* @c may be freed by now */
	lent_close(&kept);
	cgroup_stat_close(&stats);
}

/* Nothing more is heard of any child; each dies with its parent. */
static void spawner_lost(struct spawner *sp)
{
	struct child *c;

	sp->dead = true;
	uv_poll_stop(&sp->poll);
	if (sp->before_children.call)
		sp->before_children.call(sp->before_children.data);
	while ((c = TAILQ_FIRST(&sp->children))) {
		if (c->state == CHILD_RUNNING) {
			pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0);
			child_end(c, SIGKILL);
		} else {
			child_gone(c);
			c->failed(c, -EPIPE, "the spawner is gone");
		}
	}
	if (sp->after_children.call)
		sp->after_children.call(sp->after_children.data);
}

struct child *spawner_child(struct spawner *sp, uint32_t id)
{
	struct child *c;

	TAILQ_FOREACH(c, &sp->children, link) {
		if (c->id == id)
			return c;
	}
	return NULL;
}

static void on_started(struct child *c, const struct spawn_note *note, int fds[SPAWN_NOTE_FDS])
{
	int next = 1;

	c->state = CHILD_RUNNING;
	c->pid = note->pid;
	c->pidfd = steal_fd(&fds[0]);
	for (int i = 0; i < CGROUP_STAT_NFILES; i++) {
		if (note->stats & 1u << i && next < SPAWN_NOTE_FDS)
			c->stats.fd[i] = steal_fd(&fds[next++]);
	}
	if (note->kept && next < SPAWN_NOTE_FDS)
		c->kept = steal_fd(&fds[next]);
	c->report = note->report;
	if (c->doomed)
		pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0);
	if (c->started)
		c->started(c);
}

static void on_failed(struct child *c, const struct spawn_note *note)
{
	const enum spawn_step step = (enum spawn_step)MIN(note->step, SPAWN_NSTEPS - 1u);
	char words[JAIL_WHAT_MAX + 128];

	child_gone(c);
	c->no_card = step == SPAWN_STEP_JAIL && note->jail_step == JAIL_STEP_CARD;
	if (step == SPAWN_STEP_JAIL)
		snprintf(words, sizeof(words), "%s: %s %.*s", step_str[step],
			 jail_step_str((enum jail_step)note->jail_step), JAIL_WHAT_MAX - 1,
			 note->what);
	else
		snprintf(words, sizeof(words), "%s", step_str[step]);
	c->failed(c, note->error, words);
}

/* It runs, but nothing that it could be held by has arrived, for want of descriptors: that is the
 * end of it, and of nothing else. */
static void on_started_unheld(struct child *c)
{
	ask_kill(c);
	child_gone(c);
	c->failed(c, -EMFILE, "there are no descriptors left to hold it by");
}

/* It ran, but the news of that was lost. */
static void on_ended_unheard(struct child *c)
{
	child_gone(c);
	c->failed(c, -ESRCH, "it ended before anything was heard of it");
}

/* The note's text ends: the spawner is not to be wrong about that, but it costs nothing. */
static void on_log(const struct child *c, struct spawn_note *note)
{
	note->what[sizeof(note->what) - 1] = '\0';
	if (note->step < LOG_NLEVELS)
		log_heard((enum log_level)note->step, c ? c->label : NULL, "spawner", note->at,
			  note->what);
}

static void on_note_of(struct child *c, struct spawn_note *note, int fds[SPAWN_NOTE_FDS])
{
	switch (note->op) {
	case SPAWN_NOTE_STARTED:
		if (c->state == CHILD_ASKED && fds[0] >= 0)
			on_started(c, note, fds);
		else if (c->state == CHILD_ASKED)
			on_started_unheld(c);
		break;
	case SPAWN_NOTE_FAILED:
		if (c->state == CHILD_ASKED)
			on_failed(c, note);
		break;
	case SPAWN_NOTE_EXITED:
		if (!c->ended)
			c->oom_kills = note->oom_kills;
		if (c->state == CHILD_RUNNING)
			child_end(c, note->status);
		else
			on_ended_unheard(c);
		break;
	default: break;
	}
}

static void on_heir(struct spawner *sp, const struct spawn_note *note, int fds[SPAWN_NOTE_FDS])
{
	if (!sp->heir_begun || fds[0] < 0)
		return;
	if (sp->heir_begun(sp->heir_data, steal_fd(&fds[0])))
		sp->heir_number = note->id;
}

/* There is another one, or none. */
static void on_holder(struct spawner *sp, const struct spawn_note *note, int fds[SPAWN_NOTE_FDS])
{
	if (!sp->holder_changed)
		return;
	if (fds[0] >= 0)
		sp->holder_number = note->id;
	sp->holder_changed(sp->holder_data, steal_fd(&fds[0]), note->error < 0);
}

static void on_note(struct spawner *sp, struct spawn_note *note, int fds[SPAWN_NOTE_FDS])
{
	struct child *c = spawner_child(sp, note->id);
	const bool lingers =
		c && c->lingers && c->state == CHILD_RUNNING && note->op == SPAWN_NOTE_EXITED;

	if (note->op == SPAWN_NOTE_LOG)
		on_log(c, note);
	if (note->op == SPAWN_NOTE_HEIR)
		on_heir(sp, note, fds);
	if (note->op == SPAWN_NOTE_HOLDER)
		on_holder(sp, note, fds);
	if (c)
		on_note_of(c, note, fds);
	if (!lingers && (note->op == SPAWN_NOTE_EXITED || note->op == SPAWN_NOTE_FAILED))
		child_acknowledge(sp, note->id);
	if (note->op == SPAWN_NOTE_EXITED)
		aim_at("child: its end is heard");
}

void spawner_close_fds(const int fds[SPAWN_NOTE_FDS])
{
	for (size_t i = 0; i < SPAWN_NOTE_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

int spawner_take_note(struct spawner *sp, struct spawn_note *ret_note, int ret_fds[SPAWN_NOTE_FDS])
{
	size_t nfds;
	ssize_t n = fdpass_receive(sp->sock, ret_note, sizeof(*ret_note), ret_fds, SPAWN_NOTE_FDS,
				   &nfds, 0);

	for (size_t i = nfds; i < SPAWN_NOTE_FDS; i++)
		ret_fds[i] = -1;
	if (n == sizeof(*ret_note))
		return 1;
	spawner_close_fds(ret_fds);
	return n == -EAGAIN ? 0 : -EPIPE;
}

int spawner_receive(struct spawner *sp)
{
	struct deferred *d = STAILQ_FIRST(&sp->deferred);
	int fds[SPAWN_NOTE_FDS], r;
	struct spawn_note note;

	if (d) {
		STAILQ_REMOVE_HEAD(&sp->deferred, link);
		on_note(sp, &d->note, d->fds);
		spawner_close_fds(d->fds);
		free(d);
		return 1;
	}
	r = spawner_take_note(sp, &note, fds);
	if (r > 0) {
		on_note(sp, &note, fds);
		spawner_close_fds(fds);
	}
	return r;
}

/* A request that the socket does not take at all. */
static void on_unsendable(struct spawner *sp, const struct unsent *u, int err)
{
	struct spawn_request req;
	struct child *c;

	memcpy(&req, u->message, sizeof(req));
	c = req.op == SPAWN_OP_SPAWN ? spawner_child(sp, req.id) : NULL;
	if (!c)
		return;
	forget(sp, req.id);
	child_gone(c);
	c->failed(c, err, "it could not be asked for");
}

static void send_unsent(struct spawner *sp)
{
	struct unsent *u;

	while ((u = STAILQ_FIRST(&sp->unsent))) {
		const ssize_t r = fdpass_send(sp->sock, u->message, u->len, u->fds, u->nfds, 0);

		if (r == -EAGAIN)
			return;
		STAILQ_REMOVE_HEAD(&sp->unsent, link);
		if (r < 0)
			on_unsendable(sp, u, (int)r);
		unsent_free(u);
	}
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

void spawner_poll_again(struct spawner *sp)
{
	int events = UV_READABLE | (STAILQ_EMPTY(&sp->unsent) || sp->waits ? 0 : UV_WRITABLE);

	if (sp->attached && !sp->dead && !uv_is_closing((uv_handle_t *)&sp->poll))
		uv_poll_start(&sp->poll, events, on_spawner);
}

int spawner_attach(struct spawner *sp, uv_loop_t *loop)
{
	int r = uv_poll_init(loop, &sp->poll, sp->sock);

	if (r < 0)
		return r;
	sp->poll.data = sp;
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

/* What is ours of what is about to be asked for. Return: 0 or -errno. */
static int hold(struct spawner *sp, const struct spawn_spec *spec, uint32_t id)
{
	const struct spawn_request req = {.op = SPAWN_OP_HOLD, .id = id};

	assert(spec->nnear <= SPAWN_FDS_MAX);
	if (!spec->nnear)
		return 0;
	return send_in_turn(sp, (const char *)&req, sizeof(req), spec->near, spec->nnear);
}

int child_start(struct spawner *sp, const struct spawn_spec *spec, struct child *c)
{
	struct spawn_request req = {.op = SPAWN_OP_SPAWN, .id = ++sp->last_id};
	const size_t len = sizeof(req) + spec->size;
	char message[SPAWN_MESSAGE_MAX];
	int r;

	assert(spec->nfds <= SPAWN_FDS_MAX && sp->attached);
	if (sp->dead)
		return -EPIPE;
	if (len > sizeof(message))
		return -E2BIG;
	c->id = req.id;
	r = hold(sp, spec, req.id);
	if (r < 0)
		return r;
	memcpy(message, &req, sizeof(req));
	memcpy(message + sizeof(req), spec->request, spec->size);
	r = send_in_turn(sp, message, len, spec->fds, spec->nfds);
	if (r < 0) {
		forget(sp, req.id);
		return r;
	}
	c->spawner = sp;
	c->state = CHILD_ASKED;
	c->pidfd = -1;
	c->stats = CGROUP_STAT_NONE;
	c->kept = -1;
	TAILQ_INSERT_TAIL(&sp->children, c, link);
	return 0;
}

static void kill_now(struct turn_speaker *speaker)
{
	const struct child *c = container_of(speaker, struct child, kills);

	if (c->pidfd >= 0)
		pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0);
}

/* Who comes after this process must not find it dead, and not know why. */
void child_kill(struct child *c)
{
	if (c->state == CHILD_RUNNING) {
		c->kills.speak = kill_now;
		if (turn_is_on(c->spawner->turn))
			turn_speak(c->spawner->turn, TURN_RELEASE, &c->kills);
		else
			kill_now(&c->kills);
	} else if (c->state == CHILD_ASKED && !c->doomed) {
		ask_kill(c);
	}
	c->doomed = true;
	aim_at("child: is to be killed");
}
