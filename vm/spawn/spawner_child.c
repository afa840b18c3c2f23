/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of a process that the spawner starts. See child.h. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>

#include "spawner_internal.h"
#include "vm/base/aim.h"
#include "vm/base/lent.h"
#include "vm/base/util.h"

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

/* Of a process that may run without our knowing. If it can't be asked for, its owner waits for the
 * news. */
static void ask_kill(const struct child *c)
{
	const struct spawn_request req = {.op = SPAWN_OP_KILL, .id = c->id};

	(void)spawner_send_in_turn(c->spawner, &req, sizeof(req), NULL, 0);
}

/* ---- what is acknowledged ---- */

/* Of a child that nothing more is heard of. If it can't be said, the spawner keeps a little too
 * much. */
static void forget(struct spawner *sp, uint32_t id)
{
	const struct spawn_request req = {.op = SPAWN_OP_FORGET, .id = id};

	(void)spawner_send_in_turn(sp, &req, sizeof(req), NULL, 0);
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

/* ---- what is heard of it ---- */

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

void child_lost(struct child *c)
{
	if (c->state == CHILD_RUNNING) {
		pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0);
		child_end(c, SIGKILL);
	} else {
		child_gone(c);
		c->failed(c, -EPIPE, "the spawner is gone");
	}
}

void child_unasked(struct child *c, int err)
{
	forget(c->spawner, c->id);
	child_gone(c);
	c->failed(c, err, "it could not be asked for");
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

void child_hear(struct child *c, const struct spawn_note *note, int fds[SPAWN_NOTE_FDS])
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
		if (!c->ended) {
			c->oom_kills = note->oom_kills;
			c->used_us = note->at;
		}
		if (c->state == CHILD_RUNNING)
			child_end(c, note->status);
		else
			on_ended_unheard(c);
		break;
	default: break;
	}
}

/* ---- what is asked for ---- */

/* What is ours of what is about to be asked for. Return: 0 or -errno. */
static int hold(struct spawner *sp, const struct spawn_spec *spec, uint32_t id)
{
	const struct spawn_request req = {.op = SPAWN_OP_HOLD, .id = id};

	assert(spec->nnear <= SPAWN_FDS_MAX);
	if (!spec->nnear)
		return 0;
	return spawner_send_in_turn(sp, &req, sizeof(req), spec->near, spec->nnear);
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
	r = spawner_send_in_turn(sp, message, len, spec->fds, spec->nfds);
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
