/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's part in what a daemon leaves: its estate, and the process that has its
 * descriptors. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guarded.h"
#include "holder.h"
#include "server_internal.h"
#include "vm/base/fdpass.h"
#include "vm/base/log.h"

/*
 * Theory of operation
 * -------------------
 * Who announces an estate is given a holder, and writes all that he is; when he has, SURVIVES makes
 * it count, or an heir's READY.
 *
 * A holder may end, or not hear any more, which the daemon notices. It can't be waited for then: a
 * close that a dead disk does not answer keeps it. It is killed, and all of it forgotten: what is
 * written down is of no use without. The daemon, which has its estate, and all that it has lent, is
 * told that there is none, if it has not said so itself; it announces the estate once more, and it
 * goes on as at first. Until it counts again the daemon's death is the end. When and how often that
 * is tried is the daemon's business (fs/survival.c).
 *
 * Nothing here has a number, because everything is said in order: SURVIVES is of the holder that was
 * asked for last, and what is said of the one before comes before the answer that names the next.
 */

/* Nothing of it is left, nor its holder. */
static void forsake(struct legacy *l, enum legacy_state state)
{
	assert(state == LEGACY_NONE || state == LEGACY_UNHELD);
	if (l->estate >= 0)
		close(l->estate);
	if (l->holder > 0)
		kill(l->holder, SIGKILL);
	if (l->holder_control >= 0)
		close(l->holder_control);
	*l = (struct legacy){.state = state, .estate = -1, .holder_control = -1};
}

static void forsake_copy(struct revival *v)
{
	if (v->copy >= 0)
		close(steal_fd(&v->copy));
}

void server_legacy_init(struct server *s)
{
	static const struct legacy none = {.estate = -1, .holder_control = -1};

	s->revival.legacy = s->revival.heirs = none;
	s->revival.copy = -1;
}

bool server_legacy_counts(const struct server *s)
{
	return s->revival.legacy.state == LEGACY_COUNTS;
}

void server_legacy_end(struct server *s)
{
	forsake(&s->revival.legacy, LEGACY_NONE);
}

/* ---- announced ---- */

/* Return: a socket to a holder that has nothing yet; or -errno. */
static int begin_holder(struct legacy *l)
{
	const pid_t pid = holder_start(&l->holder_control);

	if (pid < 0)
		return pid;
	l->holder = pid;
	return holder_admit(l->holder_control);
}

/* Return: what becomes of it without a holder. */
static enum legacy_state without(const struct legacy *l)
{
	return l->state == LEGACY_UNHELD ? LEGACY_UNHELD : LEGACY_NONE;
}

/* Somebody is about to leave this. @fd: -1: it did not arrive. @conf: what the next one would go by.
 * Return: a socket to the holder, for him; or -errno: he leaves nothing. */
static int prepare(struct legacy *l, int fd, int conf)
{
	const enum legacy_state before = without(l);
	int r = fd < 0 ? -EMFILE : conf < 0 ? -ENODATA : 0; /* nobody has said what it is */

	forsake(l, before);
	l->estate = fd;
	if (r == 0)
		r = begin_holder(l);
	if (r >= 0) {
		l->state = before == LEGACY_UNHELD ? LEGACY_UNHELD : LEGACY_COMING;
		return r;
	}
	log_warn("nothing survives the daemon: %s", strerror(-r));
	forsake(l, l->state);
	return r;
}

void server_estate(struct server *s, int fd, bool any)
{
	struct spawn_note note = {.op = SPAWN_NOTE_HOLDER};
	_cleanup_close_ int holder = -1;

	if (!any) {
		server_legacy_end(s);
		if (fd >= 0)
			close(fd);
		return;
	}
	holder = prepare(&s->revival.legacy, fd, s->revival.conf);
	note.error = holder < 0 ? holder : server_note(s, &note, &holder, 1);
	if (note.error == 0)
		return;
	forsake(&s->revival.legacy, without(&s->revival.legacy));
	(void)server_note(s, &note, NULL, 0);
}

void server_survives(struct server *s)
{
	struct revival *v = &s->revival;

	/* The holder may have ended meanwhile. */
	if (!v->legacy.holder)
		return;
	v->legacy.state = LEGACY_COUNTS;
	if (!v->deaths.since)
		deaths_serves(&v->deaths, server_now());
}

int server_heirs_estate(struct server *s, int fd, bool any)
{
	struct spawn_note note = {.op = SPAWN_NOTE_HOLDER};
	_cleanup_close_ int holder = -1;

	forsake_copy(&s->revival);
	if (any && s->heir.revives) {
		s->revival.copy = fd;
		return fd < 0 ? -EMFILE : 0;
	}
	if (!any) {
		forsake(&s->revival.heirs, LEGACY_NONE);
		if (fd >= 0)
			close(fd);
		return 0;
	}
	holder = prepare(&s->revival.heirs, fd, s->heir.conf);
	note.error = MIN(holder, 0);
	(void)fdpass_send_patiently(s->heir.sock, &note, sizeof(note), &holder, holder >= 0,
				    MSG_DONTWAIT, SERVER_CROWDED_MS);
	return 0;
}

/* ---- without a holder ---- */

static void tell_unheld(struct server *s)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_UNHELD};

	if (server_note(s, &note, NULL, 0) < 0)
		log_warn("the process that holds descriptors for the next daemon has ended");
}

void server_unheld(struct server *s)
{
	if (s->revival.legacy.state != LEGACY_NONE)
		forsake(&s->revival.legacy, LEGACY_UNHELD);
}

void server_holder_reaped(struct server *s, pid_t pid)
{
	struct revival *v = &s->revival;
	struct legacy *const all[] = {&v->legacy, &v->heirs};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (pid != all[i]->holder)
			continue;
		all[i]->holder = 0;
		forsake(all[i], LEGACY_UNHELD);
		if (all[i] == &v->legacy) /* who follows is told when it is the daemon */
			tell_unheld(s);
	}
}

void server_legacy_tell(struct server *s)
{
	if (s->revival.legacy.state == LEGACY_UNHELD)
		snprintf(s->guarded->words, sizeof(s->guarded->words),
			 "no other daemon can go on: the process that holds descriptors for it has "
			 "ended");
}

/* ---- inherited ---- */

/* What the dead one has left was copied, and the holder stays, if there is one. */
static void take_copy(struct revival *v)
{
	if (v->copy < 0 || v->legacy.state != LEGACY_COUNTS)
		return;
	close(v->legacy.estate);
	v->legacy.estate = steal_fd(&v->copy);
}

/* All is written there already. */
static void take_heirs(struct revival *v)
{
	forsake(&v->legacy, LEGACY_NONE);
	v->legacy = v->heirs;
	v->heirs = (struct legacy){.estate = -1, .holder_control = -1};
	if (v->legacy.state == LEGACY_COMING)
		v->legacy.state = LEGACY_COUNTS;
}

void server_legacy_passes(struct server *s, bool taken_over)
{
	struct revival *v = &s->revival;

	if (taken_over)
		take_heirs(v);
	else
		take_copy(v);
	forsake(&v->heirs, LEGACY_NONE);
	forsake_copy(v);
	if (v->legacy.state == LEGACY_UNHELD)
		tell_unheld(s);
}
