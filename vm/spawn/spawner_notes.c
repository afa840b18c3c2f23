/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon hears from the spawner: notes, at once or when it goes on. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "spawner_internal.h"
#include "vm/base/aim.h"
#include "vm/base/fdpass.h"
#include "vm/base/log.h"
#include "vm/base/util.h"

/* The note's text ends: the spawner is not to be wrong about that, but it costs nothing. */
static void on_log(const struct child *c, struct spawn_note *note)
{
	note->what[sizeof(note->what) - 1] = '\0';
	if (note->step < LOG_NLEVELS)
		log_heard((enum log_level)note->step, c ? c->label : NULL, "spawner", note->at,
			  note->what);
}

static void on_heir(struct spawner *sp, const struct spawn_note *note, int fds[SPAWN_NOTE_FDS])
{
	if (!sp->heir_begun || fds[0] < 0)
		return;
	if (sp->heir_begun(sp->heir_data, steal_fd(&fds[0])))
		sp->heir_number = note->id;
}

void spawner_hear_holder(struct spawner *sp, int fd, int err)
{
	if (sp->holder_ops)
		sp->holder_ops->begun(sp->holder_data, fd, err);
	else if (fd >= 0)
		close(fd);
}

static void on_unheld(const struct spawner *sp)
{
	if (sp->holder_ops)
		sp->holder_ops->ended(sp->holder_data);
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
		spawner_hear_holder(sp, steal_fd(&fds[0]), note->error);
	if (note->op == SPAWN_NOTE_UNHELD)
		on_unheld(sp);
	if (c)
		child_hear(c, note, fds);
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

/* Return: 1 with a note, 0 if there is none, -EPIPE if the spawner is gone. */
static int take_note(struct spawner *sp, struct spawn_note *ret_note, int ret_fds[SPAWN_NOTE_FDS])
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
	r = take_note(sp, &note, fds);
	if (r > 0) {
		on_note(sp, &note, fds);
		spawner_close_fds(fds);
	}
	return r;
}

/* ---- waited for ---- */

int spawner_await_any(struct spawner *sp, struct spawn_note *ret_note, int ret_fds[SPAWN_NOTE_FDS])
{
	struct pollfd p = {.fd = sp->sock, .events = POLLIN};
	int r;

	while ((r = take_note(sp, ret_note, ret_fds)) == 0)
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

int spawner_await_note(struct spawner *sp, enum spawn_note_op op, struct spawn_note *ret_note,
		       int ret_fds[SPAWN_NOTE_FDS])
{
	int r = 0;

	while (r == 0 && (r = spawner_await_any(sp, ret_note, ret_fds)) > 0) {
		if (ret_note->op == (uint32_t)op)
			break;
		r = defer(sp, ret_note, ret_fds);
	}
	while (!STAILQ_EMPTY(&sp->deferred))
		(void)spawner_receive(sp);
	return only_errno(r);
}
