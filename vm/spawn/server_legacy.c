/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's part in what a daemon leaves: its estate, and the process that has its
 * descriptors. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guard.h"
#include "holder.h"
#include "server_internal.h"
#include "vm/base/log.h"

#define UNTOLD_MS 200 /* what could not be told is told then */

/*
 * Theory of operation
 * -------------------
 * What counts is `legacy`. What somebody has announced, and not written yet, is `coming`, or
 * `heirs`; SURVIVES or READY makes it `legacy`.
 *
 * A holder may end, or not hear any more, which the daemon notices. It can't be waited for then: a
 * close that a dead disk does not answer keeps it. It is killed, and forgotten. The daemon has all
 * that it has lent; so what counted is `coming` once more, with the same estate and a holder that
 * has nothing, and counts again when the daemon says that it has lent all of it: by SURVIVES. Until
 * then its death is the end. How often that is done says deaths.h, as of the daemon.
 *
 * A descriptor can't be sent while more of one user's are on their way than he may have open. That
 * passes, and is nobody's death: it is tried again, as often as it takes. So is what a daemon has no
 * room for that does not read for a while; the spawner does not wait for it.
 *
 * Holders are numbered, because what is said of one may meet another. That of a daemon that has
 * died is the next one's by no number: 0.
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

/* Gives @l a holder that has nothing yet, of which is heard at @sock, in a message with @flags.
 * Return: 0; -EAGAIN, -ETOOMANYREFS: not now; or -errno. */
static int begin_holder(struct server *s, struct legacy *l, int sock, int flags)
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
		r = only_errno(fdpass_send_patiently(sock, &note, sizeof(note), &end, 1, flags,
						     SERVER_CROWDED_MS));
	if (r < 0)
		end_holder(l);
	return r;
}

/* There will be another one: who does not hear that hears of the other. */
static void tell_none(struct server *s)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_HOLDER};

	(void)fdpass_send(s->sock, &note, sizeof(note), NULL, 0, MSG_DONTWAIT);
}

/* There will be none. That is said but once. */
static void tell_never(struct server *s)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_HOLDER, .error = -EPIPE};

	(void)server_note(s, &note, NULL, 0);
}

/* One that has just died has nothing to lend any more. */
static bool has_daemon(const struct server *s)
{
	struct pollfd p = {.fd = s->sock};

	return s->daemon && poll(&p, 1, 0) == 0;
}

/* What is coming has no holder. @wait: there is one in so many ms. */
static void again_after(struct server *s, const char *words, int64_t wait)
{
	log_warn("the process that holds descriptors for the next daemon %s; another one follows%s",
		 words, wait ? ", in a while" : "");
	s->revival.holder_due = true;
	s->revival.holder_at = server_now() + wait;
	tell_none(s);
}

/* Likewise, because of it: that is counted. */
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
		tell_never(s);
		return;
	}
	again_after(s, words, wait);
}

/* What counted does not any more: what is written down speaks of descriptors that nobody has but
 * the daemon, if there is one. Return: whether another holder is wanted. */
static bool lose_holder(struct server *s)
{
	struct revival *v = &s->revival;

	v->able = false;
	v->unheld = true;
	end_holder(&v->legacy);
	if (v->coming.estate >= 0) { /* the daemon has another one */
		forsake(&v->legacy);
		return false;
	}
	v->coming = v->legacy;
	v->legacy = no_legacy;
	return true;
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
		if (lose_holder(s))
			again(s, words);
	}
}

void server_holder_deaf(struct server *s, uint32_t number, bool crowded)
{
	struct revival *v = &s->revival;
	bool wanted = false;

	if (v->coming.holder && v->coming.number == number) {
		end_holder(&v->coming);
		wanted = true;
	} else if (v->legacy.holder && v->legacy.number == number) {
		wanted = lose_holder(s);
	}
	if (wanted && crowded && has_daemon(s))
		again_after(s, "could not be told: there are too many on their way", UNTOLD_MS);
	else if (wanted)
		again(s, "has ended, or does not hear");
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
	r = begin_holder(s, &v->coming, s->sock, MSG_DONTWAIT);
	if (r == -EAGAIN || r == -ETOOMANYREFS) {
		v->holder_due = true;
		v->holder_at = server_now() + UNTOLD_MS;
	} else if (r < 0) {
		again(s, "can't be started");
	}
}

/* ---- what is left ---- */

/* What somebody is about to leave, who waits at @sock to hear of its holder. @fd: -1: it did not
 * arrive.
 * @conf: what the next one would go by. */
static void prepare(struct server *s, struct legacy *l, int fd, int conf, int sock)
{
	const struct spawn_note none = {.op = SPAWN_NOTE_HOLDER};
	int r = fd < 0 ? -EMFILE : 0;

	forsake(l);
	l->estate = fd;
	if (r == 0 && conf < 0)
		r = -ENODATA; /* nobody has said what it is */
	if (r == 0)
		r = begin_holder(s, l, sock, 0);
	if (r == 0)
		return;
	log_warn("nothing survives the daemon: %s", strerror(-r));
	forsake(l);
	(void)fdpass_send(sock, &none, sizeof(none), NULL, 0, 0);
}

void server_estate(struct server *s, int fd, bool any)
{
	if (any) {
		prepare(s, &s->revival.coming, fd, s->revival.conf, s->sock);
		return;
	}
	forget_all(s);
	if (fd >= 0)
		close(fd);
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

int server_heirs_estate(struct server *s, int fd, bool any)
{
	struct legacy *l = &s->revival.heirs;

	if (any && !s->heir.revives) {
		prepare(s, l, fd, s->heir.conf, s->heir.sock);
		return 0;
	}
	forsake(l);
	if (any)
		l->estate = fd;
	else if (fd >= 0)
		close(fd);
	return any && fd < 0 ? -EMFILE : 0;
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
		if (v->able && !v->legacy.holder && lose_holder(s))
			again(s, "has ended");
	} else {
		pass_on(s);
	}
	forsake(&v->heirs);
}
