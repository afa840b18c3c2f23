/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the spawner, for its parts: spawner.c, and below it spawner_estate.c and _heir.c;
 * spawner_notes.c, _child.c and _requests.c are named below, with what each has. */
#ifndef XSBX_VM_SPAWN_SPAWNER_INTERNAL_H
#define XSBX_VM_SPAWN_SPAWNER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "child.h"
#include "server.h"
#include "spawner.h"
#include "vm/base/unsent.h"
#include "wire.h"

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
	struct unsent unsent; /* requests */
	uv_poll_t poll;	      /* while attached */
	uv_timer_t retry;     /* likewise; on while the kernel can't take the first request */
	bool crowded;	      /* so it is, since: */
	uint64_t crowded_at;  /* uv_now() */
	uv_poll_cb on_poll;
	bool attached;
	struct on_lost before_children; /* of spawner_attended() */
	struct on_lost after_children;	/* of spawner_watch() */
	bool (*heir_begun)(void *data, int fd);
	void *heir_data;
	uint32_t heir_number; /* of the last that was told of, for SPAWN_OP_YIELD */
	int asked;	      /* spawner_asked() */
	uint64_t alive_at;    /* log_now() of what spawner_alive() has said last */
	const struct spawner_holder_ops *holder_ops; /* or NULL */
	void *holder_data;
	bool waits; /* an heir's: nothing is asked for until it is the daemon */
	STAILQ_HEAD(deferred_notes, deferred) deferred;
	struct turn *turn; /* or NULL */
	struct turn_speaker acknowledges;
	uint32_t *over; /* ids of children that are to be acknowledged */
	size_t nover, cap_over;
	void (*detached)(void *data);
	void *detached_data;
};

/* ---- spawner_requests.c ---- */

/* For what can't come back later. Return: 0 or -errno. */
int spawner_send(struct spawner *sp, const void *message, size_t len, const int *fds, size_t nfds);

/* Is it the kernel that can't take a request now, because of what others have sent, or for want of
 * memory? */
bool spawner_is_passing(int err);

/* In its turn, now or when there is room, and the kernel can take it. Return: 0 or -errno. */
int spawner_send_in_turn(struct spawner *sp, const void *message, size_t len, const int *fds,
			 size_t nfds);

/* In its turn, and sooner is better: waits a while for room in the socket, and then queues it.
 * Return: 0 or -errno. */
int spawner_say(struct spawner *sp, enum spawn_op op, uint32_t id);

/* Watches the socket for what is waited for now. */
void spawner_poll_again(struct spawner *sp);

/* ---- spawner_child.c ---- */

/* Return: the child with this id, or NULL. */
struct child *spawner_child(struct spawner *sp, uint32_t id);

/* A note of it. */
void child_hear(struct child *c, const struct spawn_note *note, int fds[SPAWN_NOTE_FDS]);

/* The spawner is gone; the child with it. */
void child_lost(struct child *c);

/* The request for it can't be sent. */
void child_unasked(struct child *c, int err);

/* ---- spawner_notes.c ---- */

/* Closes those that are there, of a note. */
void spawner_close_fds(const int fds[SPAWN_NOTE_FDS]);

/* Handles a note, deferred ones first. Return: 1 after one, 0 if there is none, -EPIPE if the
 * spawner is gone. */
int spawner_receive(struct spawner *sp);

/* The answer to spawner_estate_again(). */
void spawner_hear_holder(struct spawner *sp, int fd, int err);

/* Waits for a note of this kind; what else comes is handled behind it. Return: 0 or -EPIPE. */
int spawner_await_note(struct spawner *sp, enum spawn_note_op op, struct spawn_note *ret_note,
		       int ret_fds[SPAWN_NOTE_FDS]);

/* ... for any. Return: 1, or -EPIPE. */
int spawner_await_any(struct spawner *sp, struct spawn_note *ret_note, int ret_fds[SPAWN_NOTE_FDS]);

#endif
