/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the spawner, for spawner.c and spawner_heir.c. */
#ifndef XSBX_VM_SPAWN_SPAWNER_INTERNAL_H
#define XSBX_VM_SPAWN_SPAWNER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "child.h"
#include "server.h"
#include "spawner.h"
#include "wire.h"

/* A request that did not fit into the socket; owns its descriptors. */
struct unsent {
	STAILQ_ENTRY(unsent) link;
	int fds[SPAWN_FDS_MAX];
	size_t nfds, len;
	char message[];
};

/* A note that came while the daemon stood still; owns its descriptors. */
struct deferred {
	STAILQ_ENTRY(deferred) link;
	struct spawn_note note;
	int fds[SPAWN_NOTE_FDS];
};

/* Called when the spawner is gone. */
struct on_lost {
	void (*call)(void *data); /* or NULL */
	void *data;
};

struct spawner {
	int sock, tie;
	pid_t pid;
	bool dead;
	uint32_t last_id;
	TAILQ_HEAD(children, child) children;
	STAILQ_HEAD(unsent_requests, unsent) unsent;
	uv_poll_t poll; /* while attached */
	bool attached;
	struct on_lost before_children; /* of spawner_attended() */
	struct on_lost after_children;	/* of spawner_watch() */
	bool (*heir_begun)(void *data, int fd);
	void *heir_data;
	uint32_t heir_number; /* of the last that was told of, for SPAWN_OP_YIELD */
	int asked;	      /* spawner_asked() */
	uint64_t alive_at;    /* log_now() of what spawner_alive() has said last */
	void (*holder_changed)(void *data, int fd, bool never);
	void *holder_data;
	uint32_t holder_number; /* of the last that was heard of; 0: it was inherited */
	bool waits;		/* an heir's: nothing is asked for until it is the daemon */
	STAILQ_HEAD(deferred_notes, deferred) deferred;
	struct turn *turn; /* or NULL */
	struct turn_speaker acknowledges;
	uint32_t *over; /* ids of children that are to be acknowledged */
	size_t nover, cap_over;
	void (*detached)(void *data);
	void *detached_data;
};

/* For what can't come back later. Return: 0 or -errno. */
int spawner_send(struct spawner *sp, const void *message, size_t len, const int *fds, size_t nfds);

/* In its turn, and sooner is better: waits a while for room in the socket, and then queues it.
 * Return: 0 or -errno. */
int spawner_say(struct spawner *sp, enum spawn_op op, uint32_t id);

/* Watches the socket for what is waited for now. */
void spawner_poll_again(struct spawner *sp);

/* Return: the child with this id, or NULL. */
struct child *spawner_child(struct spawner *sp, uint32_t id);

/* Return: 1 with a note, 0 if there is none, -EPIPE if the spawner is gone. */
int spawner_take_note(struct spawner *sp, struct spawn_note *ret_note, int ret_fds[SPAWN_NOTE_FDS]);

/* Closes those that are there, of a note. */
void spawner_close_fds(const int fds[SPAWN_NOTE_FDS]);

/* Handles a note, deferred ones first. Return: 1 after one, 0 if there is none, -EPIPE if the
 * spawner is gone. */
int spawner_receive(struct spawner *sp);

#endif
