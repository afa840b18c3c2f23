/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the host: receives frames, and queues frames to be sent, without blocking. */
#ifndef XSBX_AGENT_CORE_CONN_H
#define XSBX_AGENT_CORE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "loop.h"
#include "agent/link.h"
#include "agent/protocol.h"

/*
 * Invariants
 * 1. A frame that was partly sent is completed before any other.
 * 2. Urgent frames (cheap answers: PONG, READY ...) overtake bulk frames (OUTPUT,
 *    EXIT, FILE_REPLY, LOCKED, JOB_GONE, LOG, TRACED, CHANGED, PACKED, UNPACKED); frames of the same kind keep their order.
 * 3. Nothing is sent before the first HELLO, and frames of an older generation that were not started
 *    are dropped when a new one starts.
 * 4. Bulk frames in quick succession are held for CONN_HOLD_US, to be sent together, unless one of them
 *    ends something (EXIT, FILE_REPLY, LOCKED, JOB_GONE, PACKED, UNPACKED) or CONN_HOLD bytes are queued. The first one after a pause, or
 *    after standard input, is never held.
 * 5. Behind the frame of conn_send_last(), which goes out when no other is queued, nothing is sent until a frame is received.
 * 6. Producers that can wait check conn_full() first; input is not read while more than
 *    CONN_STALL bytes are queued, so the queues are bounded by what one more frame can add.
 */

#define CONN_FULL    (256u << 10)
#define CONN_STALL   (2u << 20)
#define CONN_STAGE   LINK_DATA_MAX
#define CONN_BATCH   5u /* records that a socket is given at once: a whole OUTPUT frame */
#define CONN_HOLD    (16u << 10)

#define CONN_HOLD_US 10000u

/* A frame to be sent. Its payload is written through `out`, which points after the header. */
struct frame {
	TAILQ_ENTRY(frame) link;
	struct proto_out out;
	uint16_t type;
	uint8_t flags;
	uint32_t id;
	uint8_t data[]; /* room for a link's header, then the frame's own, then out.cap bytes */
};

struct frame_queue {
	TAILQ_HEAD(frames, frame) frames;
	size_t bytes;
};

struct conn {
	struct loop *loop;
	struct loop_source src;
	bool local;	     /* a socket: end of file is final, the host does not reconnect */
	bool open;	     /* HELLO was received */
	uint32_t generation; /* frames carry its lowest eight bits */
	bool readable, writable;
	bool stalled; /* parsing stopped because of CONN_STALL */

	/* Called for each frame of the current generation, and for every HELLO. A negative return
	 * ends the agent. */
	int (*on_frame)(struct conn *c, const struct proto_header *h, const uint8_t *payload);

	struct frame_queue urgent, bulk;
	unsigned prompt;    /* frames in `bulk` that must not be held */
	bool flushing;	    /* `bulk` is being emptied */
	struct frame *last; /* of conn_send_last(), not sent yet; or NULL */
	bool silent;	    /* ... and it was the last */
	uint64_t held;	    /* now_us() until which new bulk frames are held */
	struct loop_timer hold;
	struct frame *current; /* being written */
	size_t sent;	       /* bytes of `current` that are in records */

	struct link_out to;
	struct link_in from;
	struct iovec piece[2 * CONN_BATCH]; /* what was not written yet of the last records, */
	size_t piece_at, npieces;	    /* in `stage`, or `heads` and `current` */
	uint8_t heads[CONN_BATCH][LINK_HEADER];
	uint8_t stage[LINK_HEADER + CONN_STAGE]; /* a record of small frames to be sent together */

	uint8_t *in;
	size_t in_first, in_end; /* bytes received and not yet parsed, without what is the link's */
};

/**
 * conn_init() - Initialize a connection on a descriptor
 * @c: Connection, zeroed, with on_frame set
 * @loop: Its event loop
 * @fd: virtio port or socket, made non-blocking here
 * @local: @fd is a socket whose end of file ends the agent
 *
 * Return: 0 or -errno.
 */
int conn_init(struct conn *c, struct loop *loop, int fd, bool local);

/** conn_fini() - Close it and free queued frames. */
void conn_fini(struct conn *c);

/**
 * conn_receive() - Read and handle frames, up to a bounded number of bytes
 * @c: Connection
 *
 * Return: 0, -EPROTO if the host violated the protocol, -EPIPE at the end of a local connection.
 */
int conn_receive(struct conn *c);

/** conn_transmit() - Write as much as the descriptor accepts. Return: 0 or -errno. */
int conn_transmit(struct conn *c);

/** conn_has_sent() - Was a record with this number sent? */
bool conn_has_sent(const struct conn *c, uint32_t number);

/** conn_more() - True if there is work to do without waiting for an event. */
bool conn_more(struct conn *c);

/** conn_holds() - True if queued frames are being held, and there is no other work. */
bool conn_holds(const struct conn *c);

/** conn_hurry() - Don't hold the next frame: the host is waiting for it. */
void conn_hurry(struct conn *c);

/** conn_full() - True if producers of bulk frames should wait. */
bool conn_full(const struct conn *c);

/** conn_renew() - Start a generation: frames queued for an older one are dropped. */
void conn_renew(struct conn *c, uint32_t generation);

/**
 * frame_new() - Allocate a frame to be filled through its `out`
 * @type: enum proto_type
 * @id: Run or request
 * @cap: Largest payload
 *
 * Return: the frame, or NULL if out of memory.
 */
struct frame *frame_new(enum proto_type type, uint32_t id, size_t cap);

/**
 * frame_trim() - Free unused payload space
 * @f: A filled frame
 *
 * Return: the frame, which may have moved.
 */
struct frame *frame_trim(struct frame *f);

/** conn_send() - Queue a frame; the connection owns it from now on. */
void conn_send(struct conn *c, struct frame *f);

/** conn_send_last() - Queue a frame behind all others; then nothing is sent before something is received. */
void conn_send_last(struct conn *c, struct frame *f);

/** conn_send_failed() - Answer request @id with FAILED: @error, positive, and what that is about. */
void conn_send_failed(struct conn *c, uint32_t id, int error, const char *what);

/**
 * conn_last_bulk() - Get the newest bulk frame, to append to it
 * @c: Connection
 *
 * Return: a frame that was not partly sent, or NULL. Call conn_grown() after appending.
 */
struct frame *conn_last_bulk(struct conn *c);

/** conn_grown() - @len bytes were appended to the frame of conn_last_bulk(). */
void conn_grown(struct conn *c, size_t len);

#endif
