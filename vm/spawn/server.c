/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's own process: its loop, and the parent of every sandbox's processes. */
#include "server_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "vm/base/log.h"
#include "guard.h"
#include "guarded.h"
#include "spawner.h"
#include "vm/jail/cgroup.h"
#include "vm/jail/cgroup_stat.h"
#include "vm/jail/source.h"
#include "wire.h"
#include "vm/base/util.h"

/* Unless the rules say otherwise. The request after a slow one must have time left of a clone's 15 s. */
#define PATIENCE_MS  5000
#define END_MS	     20000
#define LEAVE_MS     1000 /* what is guarded is put in order then, whoever has not died yet */
#define REAP_MS	     2000 /* a thread of the daemon's may wait for a disk; others are gone then */
#define AGAIN_MS     100  /* what could not be said is said then */
#define BIRTHS_LEAST 2u
#define BIRTHS_MOST  16u
#define ASKING_MOST  32u
#define WATCHED	     4u /* descriptors beside those of births */

/*
 * Theory of operation
 * -------------------
 * The daemon never forks: it is large, and a fork would copy its page tables and all its data.
 * Instead it was forked from this process once, while both were small, and sends requests to it.
 *
 * The protocol is one datagram per request and per notification, so there are only fixed structs to
 * parse. Requests are read one after the other, in one thread, which makes their places and forks.
 * What the child does then, up to the exec of its program, takes twice as long, and is not waited
 * for: meanwhile others are forked, as many as there are processors. So what is asked for first may
 * be running second.
 *
 * The daemon, which may be compromised, does not decide what may be started: requests are checked,
 * and turned into jobs, by rules that the spawner was forked with, see policy.c.
 *
 * Three mechanisms ensure that children die with their parent. PDEATHSIG kills them if the spawner
 * dies; the end of file of the socket, or SIGCHLD, tells the spawner that the daemon has died,
 * whatever the cause; and orphans of a child (which only exist with the backend for tests, machines
 * have none) are reparented to the spawner, which is a subreaper, and are killed at once.
 *
 * Every wait has a limit, as all sandboxes share this thread and its few children on their way: a
 * path of the host that a child opens, or the program that it executes, may be on a server that
 * does not answer any more. Then the child sleeps uninterruptibly, so that even SIGKILL has no
 * effect. It is abandoned, and its place stays taken until it has ended. The same request is
 * refused at once for a while; a queue of them would block all others.
 *
 * The spawner is in its own session with all signals blocked, so Ctrl-C on a terminal, or a TERM to
 * everything named xsbxfs, only reaches the daemon, which decides what ends when. But if the guard
 * is killed, which is the process that somebody started, the spawner ends the daemon: see guard.c.
 */

/* What the groups of its jail have counted, which nobody can look at once they are removed. */
static void last_look(const struct jail_cell *cell, struct spawn_note *note)
{
	struct cgroup_stat g = CGROUP_STAT_NONE;
	uint64_t kills, us = 0;

	if (!cell->taken)
		return;
	jail_cgroup_watch(cell, &g);
	kills = cgroup_stat_oom_kills(&g);
	note->oom_kills = (uint32_t)MIN(kills, (uint64_t)UINT32_MAX);
	if (cgroup_stat_used_us(&g, &us))
		note->at = MAX(note->at, us);
	cgroup_stat_close(&g);
}

static uint64_t time_us(const struct rusage *ru)
{
	return ((uint64_t)ru->ru_utime.tv_sec + (uint64_t)ru->ru_stime.tv_sec) * 1000000 +
	       (uint64_t)ru->ru_utime.tv_usec + (uint64_t)ru->ru_stime.tv_usec;
}

/* Return: one that can be waited for, or 0. */
static pid_t next_dead(void)
{
	siginfo_t info = {.si_pid = 0};

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ? 0 : info.si_pid;
}

/* Of a child that has ended. @ret_us: or NULL; the processor time that it and those that it has waited for have used.
 * Return: whether it is not there any more. */
static bool collect(struct server *s, pid_t pid, int *ret_status, uint64_t *ret_us)
{
	struct rusage ru = {0};

	const bool daemon = pid == s->daemon;

	if (daemon)
		atomic_store(&s->guarded->daemon, 0); /* while it has a number: it gets signals */
	if (wait4(pid, ret_status, WNOHANG, &ru) != pid)
		return false;
	if (ret_us)
		*ret_us = time_us(&ru);
	if (daemon) {
		s->daemon = 0;
		s->daemon_status = *ret_status;
	}
	return true;
}

static void kid_over(struct server *s, struct kid *k, int status, uint64_t us)
{
	struct spawn_note note = {
		.op = SPAWN_NOTE_EXITED, .id = k->id, .pid = k->pid, .status = status, .at = us};

	s->about = k->id;
	log_debug("process %d ended, %s %d", (int)k->pid, WIFSIGNALED(status) ? "signal" : "status",
		  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	s->about = 0;
	last_look(&k->cell, &note);
	kids_remove(&s->kids, k);
	server_last_note(s, &note);
}

static void reap(struct server *s)
{
	struct signalfd_siginfo info;
	struct kin kin;
	uint64_t us;
	int status;
	pid_t pid;

	(void)!read(s->sigfd, &info, sizeof(info));
	while ((pid = next_dead()) > 0) {
		struct kid *k = kids_find(&s->kids, pid);

		/* That it has begun is told before its end, and looked at while it has a number. */
		if (k && k->birth)
			server_settle(s, k, 0);
		if (!collect(s, pid, &status, &us))
			continue;
		heir_reaped(&s->heir, pid, status);
		server_holder_reaped(s, pid);
		if (k)
			kid_over(s, k, status, us);
	}
	kin = server_kin(s);
	kids_kill(&s->kids, &kin, false);
}

/* No child may be left; but one that does not die although it is killed is left to its death, which
 * comes before it does anything else. */
static void end_children(struct server *s, int ms)
{
	const int64_t end = server_now() + ms;
	struct pollfd p = {.fd = s->sigfd, .events = POLLIN};
	struct signalfd_siginfo info;
	struct kid *k;
	int status;
	pid_t pid;

	while (kids_kill(&s->kids, &(struct kin){.daemon = s->daemon}, true) &&
	       server_now() < end) {
		pid = next_dead();
		k = pid > 0 && collect(s, pid, &status, NULL) ? kids_find(&s->kids, pid) : NULL;
		if (k)
			kids_remove(&s->kids, k);
		/* Orphans come without a signal. */
		if (pid == 0 && poll(&p, 1, 100) > 0)
			(void)!read(s->sigfd, &info, sizeof(info));
	}
}

/* Lasts as long as its last thread takes, and perhaps what looks for leaks. */
static void await_daemon(struct server *s)
{
	siginfo_t info;
	int status;

	if (!s->daemon)
		return;
	while (waitid(P_PID, (id_t)s->daemon, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	(void)collect(s, s->daemon, &status, NULL);
}

/* Until all of its threads are gone, of which one may wait for a disk. */
static void await_death(struct server *s)
{
	const int64_t end = server_now() + REAP_MS;
	struct pollfd p = {.fd = s->sigfd, .events = POLLIN};

	if (s->daemon)
		kill(s->daemon, SIGKILL); /* it may have closed its end, and nothing else */
	for (int64_t now; s->daemon && (now = server_now()) < end;) {
		(void)poll(&p, 1, (int)(end - now));
		reap(s);
	}
	if (!s->daemon)
		return;
	log_warn("the daemon does not end: a disk does not answer");
	atomic_store(&s->guarded->daemon, 0);
	s->daemon = 0;
	s->daemon_status = SIGKILL;
}

/* The daemon has ended, or its connection has. Return: whether there is to be another one. */
static bool revive(struct server *s)
{
	if (s->sock >= 0)
		server_hear_rest(s);
	if (server_can_revive(s)) {
		heir_end(&s->heir,
			 "the daemon before died, and another one goes on with the mount");
		await_death(s);
		close(steal_fd(&s->sock));
		unsent_clear(&s->unsaid);
	}
	/* Its holder may have died with it. */
	if (!s->stop)
		server_legacy_tell(s);
	return server_can_revive(s) && server_died(s);
}

/* The end: no connection, so that nobody waits for an answer; no child, then no mount, then no
 * file. Nobody waits for a child that does not die, neither the guard nor a successor. */
static void clean_up(struct server *s)
{
	heir_end(&s->heir, "the mount has ended");
	askers_close(&s->heir.askers, "the mount has ended");
	if (s->daemon && !s->stop)
		kill(s->daemon, SIGKILL);
	held_drop(&s->held, HELD_CONNECTION, 0);
	end_children(s, MIN(LEAVE_MS, s->end_ms));
	jail_cgroup_remove_all();
	if (s->stop)
		guarded_leave(s->guarded);
	else
		guarded_clean(s->guarded);
	if (s->lock >= 0)
		close(s->lock);
	await_daemon(s);
	guard_tell(s->told, s->daemon_status);
	if (!s->kids.n)
		return;
	end_children(s, s->end_ms);
	jail_cgroup_remove_all();
}

static bool has_room(const struct server *s)
{
	return s->kids.nbirths - s->kids.nasking < s->most_births && s->kids.nasking < ASKING_MOST;
}

/* Requests are left where they are while as many children are on their way as there may be. Return:
 * how many of @p. */
static nfds_t to_watch(const struct server *s, struct pollfd *p)
{
	const bool stands = s->heir.state == HEIR_LOADING;
	nfds_t n = WATCHED;

	p[0] = (struct pollfd){.fd = stands ? -1 : s->sock, .events = POLLRDHUP};
	if (has_room(s))
		p[0].events |= POLLIN;
	p[1] = (struct pollfd){.fd = s->sigfd, .events = POLLIN};
	p[2] = (struct pollfd){.fd = s->told};
	p[3] = (struct pollfd){.fd = heir_fd(&s->heir, server_is_served(s)), .events = POLLIN};
	if (stands)
		return n;
	for (size_t i = 0; n < WATCHED + s->kids.nbirths && i < s->kids.n; i++) {
		if (s->kids.item[i].birth)
			p[n++] = (struct pollfd){.fd = s->kids.item[i].birth->status,
						 .events = POLLIN};
	}
	return n;
}

/* Return: milliseconds until the first of them is given up, or something is said again, or -1. */
static int time_left(struct server *s)
{
	const int64_t now = server_now();
	const int64_t until = heir_until(&s->heir, server_is_served(s));
	int64_t left = server_has_unsaid(s) ? AGAIN_MS : -1;

	if (s->heir.state == HEIR_LOADING)
		return (int)MAX(until - now, 0);
	if (until < INT64_MAX && (left < 0 || until - now < left))
		left = MAX(until - now, 0);
	/* Or sooner: server_is_urgent(). */
	if (s->revival.due && (left < 0 || s->revival.at - now < left))
		left = MIN(MAX(s->revival.at - now, 0), AGAIN_MS);
	for (size_t i = 0; s->kids.nbirths && i < s->kids.n; i++) {
		const struct birth *b = s->kids.item[i].birth;

		if (b && (left < 0 || b->until - now < left))
			left = MAX(b->until - now, 0);
	}
	return (int)left;
}

/* @listener: of heir_listen() */
static void begin(struct server *s, int listener)
{
	int *const keep[] = {&s->sock, &s->told, &s->lock, &s->cwd, &s->revival.conf, &listener};
	sigset_t chld;

	s->cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (guard_isolate(keep, ARRAY_SIZE(keep), "xsbxfs-spawner") < 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		_exit(1);
	s->patience_ms = s->rules->patience_ms ? s->rules->patience_ms : PATIENCE_MS;
	s->end_ms = s->rules->patience_ms ? s->rules->patience_ms : END_MS;
	s->most_births = MIN(MAX((unsigned)get_nprocs(), BIRTHS_LEAST), BIRTHS_MOST);
	jail_source_patience(s->patience_ms, s->sock);
	log_divert(server_say, s);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	unsent_init(&s->unsaid);
	heir_init(&s->heir, s->rules, listener);
	server_revival_init(s);
	s->sigfd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->sigfd < 0)
		_exit(1);
}

/* Return: false once there is no daemon, and none is on its way. */
static bool turn(struct server *s)
{
	struct pollfd p[WATCHED + BIRTHS_MOST + ASKING_MOST];
	bool stands;

	if (poll(p, to_watch(s, p), time_left(s)) < 0)
		return true;
	/* Without the guard there is no mount. */
	s->abandoned = p[2].revents & POLLERR;
	if (s->abandoned)
		return false;
	if (s->revival.due && (server_now() >= s->revival.at || server_is_urgent(s)))
		server_revive_now(s);
	stands = server_tend_heir(s, p[3].revents != 0);
	if (p[1].revents)
		reap(s);
	if (stands)
		return true;
	if (s->daemon)
		server_say_rest(s);
	server_settle_all(s, p[0].revents & (POLLRDHUP | POLLHUP) ? -ECANCELED : 0);
	if (p[0].revents & POLLHUP)
		return false;
	if (p[0].revents && has_room(s) && !server_receive(s))
		return false;
	return s->daemon || s->revival.due;
}

void spawner_serve(const struct spawner_rules *rules, int sock, int listener,
		   const struct guard_kin *kin)
{
	struct server s = {
		.sock = sock,
		.told = kin->told,
		.lock = rules->lock ? rules->lock : -1,
		.revival.conf = rules->conf ? rules->conf : -1,
		.daemon = kin->daemon,
		.rules = rules,
		.guarded = kin->guarded,
	};

	if (rules->settle)
		rules->settle(rules->data);
	begin(&s, listener);
	do {
		while (turn(&s))
			;
	} while (revive(&s));
	clean_up(&s);
	_exit(0);
}
