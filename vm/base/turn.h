/* SPDX-License-Identifier: Apache-2.0 */
/* A turn of the loop: what it has changed is written down before anybody is told of it. */
#ifndef XSBX_VM_BASE_TURN_H
#define XSBX_VM_BASE_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

struct estate;
struct turn;

/*
 * Theory of operation
 * -------------------
 * A daemon that may be killed at any moment must not have said what its heir does not know. So
 * handlers say nothing: they change what they change, note that it has to be written
 * (fs/request/touched.h), and queue what is to be said: answers for the kernel, frames for agents.
 * Just before the loop would wait, in this order:
 *
 *     write    the records of all that was touched; estate_commit()
 *     speak    whoever has said turn_speak() since, in the order of enum turn_phase, and within a phase first come, first served
 *
 * What speaks may change something again, and touch, and queue: that is written and said in another
 * round, before the loop waits. Within a turn there is one more way: who has queued much says so,
 * and between two handlers turn_pause() does the same. Both before and behind what may be the death
 * of daemon after daemon, it is called in any case: see blackbox.h.
 *
 * Where there is no estate, turn_is_on() is false, and everything is said at once. That may also
 * begin: an estate that has run out of memory is given up for good, after what is queued was said.
 */

/*
 * The order in which is spoken. Among those with answers the connection to the kernel comes before
 * the waitlists that have left readers for later (fs/request/waitlist.h): what these queue would
 * else be said before it is written. And so it does, for they only leave some when much is queued,
 * which the connection has said before them.
 */
enum turn_phase {
	TURN_ANSWERS, /* to the kernel */
	TURN_FRAMES,  /* to agents, filters, QEMU */
	TURN_CONSUME, /* what was peeked at is taken away */
	TURN_RELEASE, /* descriptors and the like that no record names any more */
	TURN_NPHASES
};

/* Embedded by who speaks, zeroed but for `speak`. */
struct turn_speaker {
	void (*speak)(struct turn_speaker *sp);
	TAILQ_ENTRY(turn_speaker) link;
	uint64_t round; /* in which it is called; 0: it has nothing to say */
	enum turn_phase phase;
};

struct turn_ops {
	/* Puts records of all that was touched; forgets what was. Return: 0; -errno: it could
	 * not. */
	int (*write)(void *data, struct estate *e);
	/* All of it counts. NULL: nobody has to know. */
	void (*committed)(void *data);
	/* Nothing is written any more; an heir will not be able to go on. Called once. */
	void (*lost)(void *data, int err);
};

/*
 * - `due` is set if there is something to write or to say.
 * - A speaker is in the list of its phase as long as its `round` is not 0.
 */
struct turn {
	struct estate *estate; /* the owner's; NULL: off */
	const struct turn_ops *ops;
	void *data;
	uv_prepare_t prepare;
	uv_idle_t idle; /* runs while the loop may not wait */
	TAILQ_HEAD(turn_speakers, turn_speaker) speakers[TURN_NPHASES];
	uint64_t round; /* counts them, from 1 */
	size_t queued;	/* bytes, by turn_queued() */
	bool begun;
	bool due;
	bool busy; /* writing or speaking */
	bool lost; /* off, as soon as what is queued has been said */
};

/**
 * turn_start() - Begin: from now on nothing is said before it is written
 * @t: Zeroed; embedded by its owner
 * @loop: Loop; its handle does not keep it alive
 * @e: Estate; the owner's, must outlive @t
 * @ops: Kept
 * @data: First argument of @ops' callbacks
 *
 * To be called before any other uv_prepare_t of this loop is started: the first one is called last.
 */
void turn_start(struct turn *t, uv_loop_t *loop, struct estate *e, const struct turn_ops *ops,
		void *data);

/* Something has to be said that can't be kept until it is written: from now on an heir would not
 * know what was said. As if the writing had failed. */
void turn_lose(struct turn *t, int err);

/* Writes what there is to write, and says nothing yet. Return: it is on, and all is written. */
bool turn_write(struct turn *t);

/* The last rounds, and then off. Its handles are closed when the loop has run once more. Fine for
 * one that is zeroed, or closed. */
void turn_close(struct turn *t);

/* Is anything said later, and not at once? NULL: no. */
static inline bool turn_is_on(const struct turn *t)
{
	return t && t->estate;
}

/* Something has to be written before the loop waits. */
static inline void turn_due(struct turn *t)
{
	if (t)
		t->due = true;
}

/* Calls sp->speak() once, behind the next commit, however often this is called until then. Only if
 * turn_is_on(). */
void turn_speak(struct turn *t, enum turn_phase phase, struct turn_speaker *sp);

/* It has nothing to say any more, or is about to be freed. Fine for one that never had. */
void turn_hush(struct turn *t, struct turn_speaker *sp);

/* So many bytes more are queued. */
static inline void turn_queued(struct turn *t, size_t bytes)
{
	if (t)
		t->queued += bytes;
}

/* Between two handlers, never in one: writes and speaks now, if much is queued; or in any case, in a
 * process that is careful (blackbox.h). */
void turn_pause(struct turn *t);

/* Likewise, however much it is. */
void turn_now(struct turn *t);

#endif
