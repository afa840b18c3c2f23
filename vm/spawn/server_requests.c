/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon asks the spawner for, while it is there, and what is done of that once it is gone. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guarded.h"
#include "server_internal.h"
#include "vm/base/fdpass.h"
#include "vm/base/log.h"

static void hold(struct server *s, uint32_t id, struct spawn_job *job)
{
	for (size_t i = 0; i < job->nfds; i++) {
		const int r = held_add(&s->held, HELD_ENDS, id, steal_fd(&job->fds[i]));

		if (r < 0)
			log_debug("an end of what it has is not kept: %s", strerror(-r));
	}
}

static void kill_kid(const struct server *s, uint32_t id)
{
	const struct kid *k = kids_of(&s->kids, id);

	if (k)
		kill(k->pid, SIGKILL);
}

/* One that failed may still be on its way out, and is acknowledged once more when it is gone. */
static void forget(struct server *s, uint32_t id)
{
	final_forget(&s->finals, id);
	if (!kids_of(&s->kids, id))
		held_drop(&s->held, HELD_ENDS, id);
}

/* What of the daemon's is over. */
enum ending {
	ENDED_ASKING = POLLRDHUP, /* and waits for our end */
	ENDED = 0,		  /* of POLLHUP one hears unasked */
};

static bool daemon_has(const struct server *s, enum ending e)
{
	struct pollfd p = {.fd = s->sock, .events = (short)e};

	return poll(&p, 1, 0) > 0;
}

/* @gone: the daemon is, which had no time to wait for that: it may have been refused at its start. */
static void unmount(struct server *s, bool gone)
{
	if (gone)
		guarded_detach_dead(s->guarded);
	else
		guarded_unmount(s->guarded);
	held_drop(&s->held, HELD_CONNECTION, 0);
}

/* All that the daemon can ask for. */
static void serve(struct server *s, const char *message, size_t len, struct spawn_job *job)
{
	struct spawn_request req;

	if (len < sizeof(req))
		return;
	memcpy(&req, message, sizeof(req));
	s->about = req.op == SPAWN_OP_SPAWN || req.op == SPAWN_OP_HOLD ? req.id : 0;
	switch (req.op) {
	case SPAWN_OP_SPAWN:
		s->last_id = MAX(s->last_id, req.id);
		if (!daemon_has(s, ENDED_ASKING))
			server_judge(s, req.id, message + sizeof(req), len - sizeof(req), job);
		break;
	case SPAWN_OP_MOUNTED:
		guarded_mounted(s->guarded, s->rules->mountpoint);
		if (job->nfds)
			(void)held_add(&s->held, HELD_CONNECTION, 0, steal_fd(&job->fds[0]));
		break;
	case SPAWN_OP_UNMOUNT:
		/* It may have ended between our hearing of this and now. */
		unmount(s, daemon_has(s, ENDED));
		break;
	case SPAWN_OP_STOP: s->stop = true; break;
	case SPAWN_OP_KILL: kill_kid(s, req.id); break;
	case SPAWN_OP_HOLD: hold(s, req.id, job); break;
	case SPAWN_OP_FORGET: forget(s, req.id); break;
	case SPAWN_OP_YIELD: server_yield(s, req.id); break;
	case SPAWN_OP_ESTATE:
		server_estate(s, job->nfds ? steal_fd(&job->fds[0]) : -1, req.id != 0);
		break;
	case SPAWN_OP_SURVIVES: server_survives(s); break;
	case SPAWN_OP_UNHELD: server_unheld(s); break;
	case SPAWN_OP_LOG:
		if (req.id < LOG_NLEVELS)
			log_open((enum log_level)req.id);
		break;
	default: break;
	}
}

bool server_receive(struct server *s)
{
	static char message[SPAWN_MESSAGE_MAX];
	struct spawn_job job = {.fds = {-1}};
	ssize_t n = fdpass_receive(s->sock, message, sizeof(message), job.fds, SPAWN_FDS_MAX,
				   &job.nfds, 0);

	if (n < 0)
		return n == -EAGAIN;
	if (n == 0)
		return false;
	serve(s, message, (size_t)n, &job);
	s->about = 0;
	for (size_t i = 0; i < job.nfds; i++) {
		if (job.fds[i] >= 0)
			close(job.fds[i]);
	}
	return !s->stop;
}

/* Of one that is gone nothing is done that concerns others: it may have a successor, whose mount
 * and directory have the same names. But it may have gone right after its goodbye. And who was to
 * be ended is, of whom it has said so. */
static void serve_gone(struct server *s, const char *message)
{
	struct spawn_request req;

	memcpy(&req, message, sizeof(req));
	switch (req.op) {
	case SPAWN_OP_MOUNTED: guarded_mounted(s->guarded, s->rules->mountpoint); break;
	case SPAWN_OP_STOP: s->stop = true; break;
	case SPAWN_OP_KILL: kill_kid(s, req.id); break;
	case SPAWN_OP_FORGET: forget(s, req.id); break;
	case SPAWN_OP_SPAWN: s->last_id = MAX(s->last_id, req.id); break;
	case SPAWN_OP_ESTATE:
		if (!req.id)
			server_estate(s, -1, false);
		break;
	case SPAWN_OP_SURVIVES: server_survives(s); break;
	case SPAWN_OP_UNHELD: server_unheld(s); break;
	case SPAWN_OP_UNMOUNT: unmount(s, true); break;
	default: break;
	}
}

void server_hear_rest(struct server *s)
{
	static char message[SPAWN_MESSAGE_MAX];
	int fds[SPAWN_FDS_MAX];
	size_t nfds;
	ssize_t n;

	do {
		n = fdpass_receive(s->sock, message, sizeof(message), fds, SPAWN_FDS_MAX, &nfds,
				   MSG_DONTWAIT);
		if (n >= (ssize_t)sizeof(struct spawn_request))
			serve_gone(s, message);
		while (nfds)
			close(fds[--nfds]);
		/* What it had not read yet when it went is said once, as an error, before what it
		 * sent. */
	} while ((n > 0 || n == -ECONNRESET) && !s->stop);
}
