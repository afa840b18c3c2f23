/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input of one run, on its way from those who write it to the sandbox. */
#ifndef XSBX_FS_SESSION_FEED_H
#define XSBX_FS_SESSION_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "fs/request/trail.h"
#include "vm/base/buf.h"

#define FEED_FULL (512u << 10) /* bytes that may wait; a write that would add to them waits */

struct req;

/*
 * Theory of operation
 * -------------------
 * The rule is that of FIFOs. What was written and closed before a run was submitted is its input,
 * then it is at end of file. A descriptor that is open for writing at that time stays its writer:
 * what is written to it then reaches the program at once, and the end of file comes when the last
 * of them was closed.
 *
 * What is written is kept here until the sandbox takes it. While FEED_FULL bytes wait, a write
 * waits as well: its request is parked with its data, and answered when there is room, in turn. So
 * a write(2) is taken as a whole, or not at all, and a stream of any length takes constant memory.
 *
 * A FUSE write holds the lock of its inode in the kernel, in which others would then wait and not
 * be interrupted; so each lookup of `stdin` answers with an inode number of its own, see
 * node_fresh(). There is no FLUSH either, which takes that lock.
 *
 * CLOSED -> OPEN (feed_begin) -> ENDING (nothing more will be written) -> OVER (all was handed
 * over, or nobody reads it)
 */
enum feed_state {
	FEED_CLOSED, /* it was not begun */
	FEED_OPEN,   /* there are writers, or may be */
	FEED_ENDING, /* there are none any more */
	FEED_OVER,   /* nothing is accepted any more */
};

/* Return: true if all was taken, and with @last the end of file; @ret_taken: how many bytes. */
typedef bool (*feed_send_fn)(void *arg, const void *data, size_t len, bool last, size_t *ret_taken);

struct feed {
	enum feed_state state;
	struct buf data; /* not handed over yet: what is behind `sent` */
	size_t sent;
	uint64_t taken;	    /* bytes that were handed over, since it was begun */
	struct trail trail; /* of what is behind `sent` */
	unsigned nwriters;
	bool typed; /* on a terminal, whose input does not end with its writers */
	TAILQ_HEAD(parked_list, parked) parked;
	size_t parked_len; /* bytes of their writes */
};

void feed_init(struct feed *f);
/* Nobody is parked any more. */
void feed_fini(struct feed *f);

/* Begins with this input, which is moved; at end of file behind it unless there is a writer. */
void feed_begin(struct feed *f, struct buf *data);
/* It stays open even though there is no writer yet. @typed: nor any more */
void feed_keep_open(struct feed *f, bool typed);

/* Can more be written to it? */
bool feed_is_open(const struct feed *f);
/* Would a write have to wait? */
bool feed_is_full(const struct feed *f);
/* Bytes that wait; and with those of writes that wait, what it takes of memory. */
size_t feed_len(const struct feed *f);
size_t feed_bytes(const struct feed *f);

/* Is there input, or may there be some? */
bool feed_any(const struct feed *f);
/* Its run was sent, with input if there is any: where there is none, none is accepted any more. */
void feed_started(struct feed *f);

/* One more writer, one less. */
void feed_join(struct feed *f);
void feed_leave(struct feed *f);

/* Return: 0, -EPIPE (nobody reads it any more), -EAGAIN (full), -ENOMEM. */
int feed_write(struct feed *f, const void *data, size_t len);
/* Keeps the request of such a write until there is room: it is answered then, or with -EINTR or
 * -EPIPE. */
void feed_park(struct feed *f, struct req *req, const void *data, size_t len);

/* Writes that wait give up, with -EINTR. */
void feed_interrupt(struct feed *f);

/* Nothing more will be written, as if all writers had gone; who writes nevertheless gets EPIPE. */
void feed_end(struct feed *f);

/**
 * feed_send() - Hand over as much as is taken
 * @f: Feed of a run that was sent
 * @send: As sandbox_write(), for the run of @arg
 * @arg: Its first argument
 *
 * Return: whether others than who is parked can go on now.
 */
bool feed_send(struct feed *f, feed_send_fn send, void *arg);

/* Nobody reads it any more: writers get EPIPE. */
void feed_over(struct feed *f);

#endif
