/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's part in what a daemon leaves: its estate, and the process that has its descriptors. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guard.h"
#include "holder.h"
#include "server_internal.h"
#include "vm/base/log.h"

#define UNTOLD_MS 200 /* what the daemon could not be told is told then */

/*
 * Theory of operation
 * -------------------
 * What counts is `legacy`. What somebody has announced, and not written yet, is `coming`, or `heirs`; SURVIVES or READY makes
 * it `legacy`.
 *
 * A holder may end, or not hear any more, which the daemon notices. It can't be waited for then: a close that a dead disk does
 * not answer keeps it. It is killed, and forgotten. The daemon has all that it has lent; so what counted is `coming` once more, with
 * the same estate and a holder that has nothing, and counts again when the daemon says that it has lent all of it: by SURVIVES. Until
 * then its death is the end. How often that is done says deaths.h, as of the daemon.
 *
 * Holders are numbered, because what is said of one may meet another. That of a daemon that has died is the next one's by
 * no number: 0.
 */

static const struct legacy no_legacy = {.estate = -1, .holder_control = -1};

void server_legacy_init(struct server *s)
{
	s->revival.legacy = s->revival.coming = s->revival.heirs = no_legacy;
}

static void end_holder(struct legacy *l)
{
	if (l->holder > 0)
		kill(l->holder, SIGKILL);
	l->holder = 0;
	if (l->holder_control >= 0)
		close(steal_fd(&l->holder_control));
}

/* Nothing of it is left, nor its holder. */
static void forsake(struct legacy *l)
{
	if (l->estate >= 0)
		close(l->estate);
	end_holder(l);
	*l = no_legacy;
}

static void forget_all(struct server *s)
{
	s->revival.able = s->revival.unheld = s->revival.holder_due = false;
	forsake(&s->revival.legacy);
	forsake(&s->revival.coming);
}

/* @l is what counts from now on, if it is anything. */
static void come_true(struct server *s, struct legacy *l)
{
	forsake(&s->revival.legacy);
	s->revival.legacy = *l;
	*l = no_legacy;
	s->revival.able = s->revival.legacy.estate >= 0;
	s->revival.unheld = false;
}

/* ---- a holder, and the next ---- */

/* Gives @l a holder that has nothing yet, of which is heard at @sock. Return: 0 or -errno. */
static int begin_holder(struct server *s, struct legacy *l, int sock)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_HOLDER, .id = ++s->revival.holders};
	const pid_t pid = holder_start(&l->holder_control);
	_cleanup_close_ int end = -1;
	int r = pid;

	if (pid > 0) {
		l->holder = pid;
		l->number = note.id;
		r = end = holder_admit(l->holder_control);
	}
	if (r >= 0)
		r = (int)MIN(fdpass_send(sock, &note, sizeof(note), &end, 1, 0), 0);
	if (r < 0)
		end_holder(l);
	return r;
}

/* @error: 0: there will be another one. */
static void tell_none(struct server *s, int error)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_HOLDER, .error = error};

	(void)server_note(s, &note, NULL, 0);
}

/* One that has just died has nothing to lend any more. */
static bool has_daemon(const struct server *s)
{
	struct pollfd p = {.fd = s->sock};

	return s->daemon && poll(&p, 1, 0) == 0;
}

/* The holder of what is coming is gone. */
static void again(struct server *s, const char *words)
{
	struct revival *v = &s->revival;
	int64_t wait;

	if (!has_daemon(s)) {
		log_warn("the process that holds descriptors for the next daemon %s", words);
		return;
	}
	if (deaths_count(&v->holder_deaths, server_now(), &wait) == DEATHS_OVER) {
		log_error("the process that holds descriptors for the next daemon %s once too "
			  "often; nothing survives the daemon any more",
			  words);
		forget_all(s);
		tell_none(s, -EPIPE);
		return;
	}
	log_warn("the process that holds descriptors for the next daemon %s; another one follows%s",
		 words, wait ? ", in a while" : "");
	v->holder_due = true;
	v->holder_at = server_now() + wait;
	tell_none(s, 0);
}

/* What counted does not any more: what is written down speaks of descriptors that nobody has but the daemon, if there is one. */
static void lose_holder(struct server *s, const char *words)
{
	struct revival *v = &s->revival;

	v->able = false;
	v->unheld = true;
	end_holder(&v->legacy);
	if (v->coming.estate >= 0) { /* the daemon has another one */
		forsake(&v->legacy);
		return;
	}
	v->coming = v->legacy;
	v->legacy = no_legacy;
	again(s, words);
}

void server_holder_reaped(struct server *s, pid_t pid)
{
	static const char words[] = "has ended";
	struct revival *v = &s->revival;

	if (pid == v->heirs.holder) { /* it begins when that is the daemon */
		v->heirs.holder = 0;
		end_holder(&v->heirs);
	} else if (pid == v->coming.holder) {
		v->coming.holder = 0;
		end_holder(&v->coming);
		again(s, words);
	} else if (pid == v->legacy.holder) {
		v->legacy.holder = 0;
		lose_holder(s, words);
	}
}

void server_holder_deaf(struct server *s, uint32_t number)
{
	static const char words[] = "has ended, or does not hear";
	struct revival *v = &s->revival;

	if (v->coming.holder && v->coming.number == number) {
		end_holder(&v->coming);
		again(s, words);
	} else if (v->legacy.holder && v->legacy.number == number) {
		lose_holder(s, words);
	}
}

void server_legacy_tell(struct server *s)
{
	if (s->revival.unheld)
		snprintf(s->guarded->words, sizeof(s->guarded->words),
			 "no other daemon can go on: the process that holds descriptors for it has "
			 "ended");
}

bool server_holder_is_due(const struct server *s)
{
	return s->daemon && s->revival.holder_due;
}

void server_holder_again(struct server *s)
{
	struct revival *v = &s->revival;
	int r;

	v->holder_due = false;
	r = begin_holder(s, &v->coming, s->sock);
	if (r == -EAGAIN) {
		v->holder_due = true;
		v->holder_at = server_now() + UNTOLD_MS;
	} else if (r < 0) {
		again(s, "can't be started");
	}
}

/* ---- what is left ---- */

/* What somebody is about to leave, who hears at @sock of its holder. @conf: what the next one would go by. */
static void prepare(struct server *s, struct legacy *l, int fd, int conf, int sock)
{
	const struct spawn_note none = {.op = SPAWN_NOTE_HOLDER};
	int r = conf < 0 ? -ENODATA : 0; /* nobody has said what it is */

	forsake(l);
	l->estate = fd;
	if (r == 0)
		r = begin_holder(s, l, sock);
	if (r == 0)
		return;
	log_warn("nothing survives the daemon: %s", strerror(-r));
	forsake(l);
	(void)fdpass_send(sock, &none, sizeof(none), NULL, 0, 0);
}

void server_estate(struct server *s, int fd)
{
	if (fd < 0)
		forget_all(s);
	else
		prepare(s, &s->revival.coming, fd, s->revival.conf, s->sock);
}

void server_survives(struct server *s, uint32_t number)
{
	struct revival *v = &s->revival;

	/* Another one may have taken its place meanwhile, which has nothing. */
	if (!v->coming.holder || v->coming.number != number)
		return;
	come_true(s, &v->coming);
	if (!v->deaths.since)
		deaths_serves(&v->deaths, server_now());
	deaths_serves(&v->holder_deaths, server_now());
}

void server_heirs_estate(struct server *s, int fd)
{
	struct legacy *l = &s->revival.heirs;

	if (fd < 0 || s->heir.revives)
		forsake(l);
	if (fd >= 0 && s->heir.revives)
		l->estate = fd;
	else if (fd >= 0)
		prepare(s, l, fd, s->heir.conf, s->heir.sock);
}

/* What the dead one has left was copied, and the holder stays, if there is one. */
static void take_copy(struct revival *v)
{
	struct legacy *l = v->able ? &v->legacy : &v->coming;

	if (v->heirs.estate < 0 || l->estate < 0)
		return;
	close(l->estate);
	l->estate = steal_fd(&v->heirs.estate);
}

static void pass_on(struct server *s)
{
	struct revival *v = &s->revival;

	take_copy(v);
	if (v->coming.estate >= 0 && !v->coming.holder)
		again(s, "has ended"); /* while it was loading; it has all */
	else
		v->legacy.number = 0;
}

void server_legacy_passes(struct server *s, bool taken_over)
{
	struct revival *v = &s->revival;

	if (taken_over) {
		forget_all(s);
		v->holder_deaths = (struct deaths){0};
		come_true(s, &v->heirs);
		if (v->able && !v->legacy.holder)
			lose_holder(s, "has ended");
	} else {
		pass_on(s);
	}
	forsake(&v->heirs);
}
