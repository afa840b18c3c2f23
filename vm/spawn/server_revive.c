/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's part when the daemon has died: another one goes on. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guarded.h"
#include "holder.h"
#include "server_internal.h"
#include "vm/base/log.h"

#define END_MS	      1000 /* who has closed all is gone then */
#define REFUSALS_MOST 2u   /* who can't read what there is will not do better */
#define REFUSED_MS    200

/*
 * Theory of operation
 * -------------------
 * A daemon that can be followed hands over its estate, a file in memory where it writes down what
 * it is, and a process is started that has its descriptors (holder.h). That counts as soon as all
 * is written there for the first time, and the daemon says so: before that nobody has been told
 * that there is a mount. An heir that takes the mount over hands its own over before it is ready,
 * when the other one's counts still: with READY one takes the place of the other, and there is no
 * moment between the two at which a death would be the end. If it ends without a goodbye then, by
 * whatever signal or exit, the program that it ran is started once more, with the mount's
 * connection, the estate, a socket to the holder, and the configuration, which is no part of the
 * estate: that a guest may have written, who has taken the daemon over. It is an heir like others
 * (heir.h): it claims its children, and says that it is ready. Before that it hands over a copy of
 * the estate, which counts from then on: the file of the dead one somebody else may have. What the
 * dead one has asked for before is done first, as far as it needs no answer: what was to be started
 * is asked for again. Children that nobody claims are killed.
 *
 * Meanwhile there is no daemon, and nobody is told anything; what was to be said is said to the
 * next one. How often that is done says deaths.h; but one that refuses, and says why, has not died,
 * and is tried once more. When it is over, the mount ends as if the last one had died without an
 * estate, and the guard says all that no daemon was told.
 */

void server_revival_init(struct server *s)
{
	server_legacy_init(s);
	s->revival.deaths.most = s->rules->deaths;
	s->revival.program = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	if (s->revival.program < 0)
		log_warn("the program can't be found any more: %s", strerror(errno));
}

/* ---- the next one ---- */

static void describe(bool killed, int status, char *words, size_t size)
{
	if (killed)
		snprintf(words, size, "it was killed by signal %d (%s)", status, strsignal(status));
	else
		snprintf(words, size, "it ended with status %d", status);
}

/* @status: as from wait(2). */
static void describe_end(int status, char *words, size_t size)
{
	describe(WIFSIGNALED(status), WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		 words, size);
}

void server_tell_end(const struct heir *h, char *words, size_t size)
{
	const pid_t pid = h->pid;
	_cleanup_close_ int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	siginfo_t info = {.si_pid = 0};

	if (!pid)
		describe_end(h->status, words, size);
	if (fd < 0 || poll(&p, 1, END_MS) <= 0 ||
	    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
		return;
	describe(info.si_code != CLD_EXITED, info.si_status, words, size);
}

/* There is to be another one, in a while. */
static void again(struct server *s, int64_t wait)
{
	s->revival.due = true;
	s->revival.at = server_now() + wait;
}

static void give_up(struct server *s)
{
	s->revival.due = false;
	server_legacy_end(s);
}

/* One more has died, or did not come to serve. */
static void count(struct server *s, const char *words)
{
	struct revival *v = &s->revival;
	int64_t wait = 0;

	v->refusals = 0;
	switch (deaths_count(&v->deaths, server_now(), &wait)) {
	case DEATHS_AGAIN:
		log_error("the daemon died: %s; another one goes on%s", words,
			  wait ? ", in a while" : "");
		v->last = false;
		again(s, wait);
		break;
	case DEATHS_LAST:
		log_error("the daemon died: %s; that is too often, and the mount ends", words);
		v->last = true;
		again(s, 0);
		break;
	case DEATHS_OVER:
		snprintf(s->guarded->words, sizeof(s->guarded->words),
			 "the daemon died %u times in a row, at last: %s", v->deaths.n, words);
		give_up(s);
		break;
	}
}

bool server_can_revive(const struct server *s)
{
	return !s->stop && !s->abandoned && server_legacy_counts(s) && s->revival.program >= 0 &&
	       held_find(&s->held, HELD_CONNECTION) >= 0;
}

bool server_died(struct server *s)
{
	char words[128];

	describe_end(s->daemon_status, words, sizeof(words));
	count(s, words);
	return server_legacy_counts(s);
}

bool server_is_urgent(const struct server *s)
{
	struct pollfd p = {.fd = held_find(&s->held, HELD_CONNECTION)};

	return atomic_load(&s->guarded->asked) || (poll(&p, 1, 0) > 0 && (p.revents & POLLERR));
}

void server_revive_again(struct server *s, const char *words)
{
	if (server_legacy_counts(s))
		count(s, words);
}

void server_revive_refused(struct server *s, const char *words)
{
	if (!server_legacy_counts(s))
		return;
	if (++s->revival.refusals < REFUSALS_MOST) {
		log_error("the next daemon can't go on: %s; once more", words);
		again(s, REFUSED_MS);
		return;
	}
	snprintf(s->guarded->words, sizeof(s->guarded->words),
		 "no other daemon can go on, and the mount ends: %s", words);
	give_up(s);
}

void server_revived(struct server *s, bool taken_over)
{
	server_legacy_passes(s, taken_over);
	if (taken_over) {
		s->revival.deaths.n = 0;
		if (s->revival.program >= 0)
			close(s->revival.program);
		s->revival.program = steal_fd(&s->heir.program);
		if (s->revival.conf >= 0)
			close(s->revival.conf);
		s->revival.conf = steal_fd(&s->heir.conf);
	}
	s->revival.refusals = 0;
	deaths_serves(&s->revival.deaths, server_now());
	server_say_words(s);
}
