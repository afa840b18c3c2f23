/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's state, for server.c and server_heir.c. */
#ifndef XSBX_VM_SPAWN_SERVER_INTERNAL_H
#define XSBX_VM_SPAWN_SERVER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "final.h"
#include "heir.h"
#include "held.h"
#include "hung.h"
#include "kids.h"
#include "server.h"
#include "vm/base/fdpass.h"
#include "vm/base/util.h"
#include "wire.h"

struct server {
	int sock, sigfd, told, lock;
	pid_t daemon;	   /* or 0, once it is reaped */
	int daemon_status; /* as from wait(2), then */
	struct held held;
	struct finals finals;
	struct kids kids;
	bool stop; /* the daemon said goodbye: what is guarded is in order */
	int patience_ms, end_ms;
	struct hung hung; /* by server_now() */
	size_t most_births;
	uint32_t about;	  /* id of what is being done, for the log */
	uint32_t last_id; /* the greatest that was asked for */
	struct heir heir;
	const struct spawner_rules *rules;
	struct guarded *guarded;
};

/* News for the daemon. Return: 0 or -errno. */
static inline int server_note(struct server *s, const struct spawn_note *note, const int *fds,
			      size_t nfds)
{
	const ssize_t n = fdpass_send(s->sock, note, sizeof(*note), fds, nfds, 0);

	return (int)MIN(n, 0);
}

static inline int64_t server_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* In a child, which may hang for long before its exec: closes what it has of its parent, whose guard waits for the end of
 * file, and of its elder siblings. Who has the reading end of one's status pipe counts as its parent. */
void server_leave(const struct server *s);

/* The daemon stands still, having given all to the heir with this number: which may have been given up meanwhile, and there
 * may be another, who was given nothing. */
void server_yield(struct server *s, uint32_t number);

/* @asked: there is something to be heard of heir_fd(). Return: whether the daemon stands still. */
bool server_tend_heir(struct server *s, bool asked);

#endif
