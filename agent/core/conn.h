/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the host: frames in, queues of frames out, never blocking. */
#ifndef XSBX_AGENT_CORE_CONN_H
#define XSBX_AGENT_CORE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "loop.h"
#include "agent/protocol.h"

/*
 * Invariants
 * 1. A frame that has begun to go out is finished before any other.
 * 2. Urgent frames (answers that cost nothing: PONG, READY ...) overtake bulk frames (OUTPUT,
 *    EXIT, FILE_REPLY, LOCKED, LOG, TRACED); frames of one kind keep their order.
 * 3. Nothing leaves before the first HELLO, and frames of an older generation that were not begun
 *    are dropped when a new one starts.
 * 4. Bulk frames that keep coming are held for CONN_HOLD_US, to go out together, unless one of them
 *    ends something (EXIT, FILE_REPLY, LOCKED) or CONN_HOLD bytes are waiting. The first after a pause, or
 *    after standard input, is never held.
 * 5. Producers that can wait ask conn_full() first; input is not read while more than
 *    CONN_STALL bytes wait to go out, so the queues are bounded by what one more frame can add.
 */

#define CONN_FULL    (256u << 10)
#define CONN_STALL   (2u << 20)
#define CONN_STAGE   (32u << 10)
#define CONN_HOLD    (16u << 10)

#define CONN_HOLD_US 10000u

/* A frame to be sent. Payload is packed through `out`, which points behind the header. */
struct frame {
	TAILQ_ENTRY(frame) link;
	struct proto_out out;
	uint16_t type;
	uint8_t flags;
	uint32_t id;
	uint8_t data[]; /* header, then out.cap bytes */
};

struct frame_queue {
	TAILQ_HEAD(frames, frame) frames;
	size_t bytes;
};

struct conn {
	struct loop *loop;
	struct loop_source src;
	bool local;	     /* a socket: end of file is the end, not a host that comes back */
	bool open;	     /* HELLO was seen */
	uint32_t generation; /* of which frames carry the lowest eight bits */
	bool readable, writable;
	bool stalled; /* parsing stopped because of CONN_STALL */

	/* Called for each frame of the current generation, and for every HELLO. A negative return
	 * ends the agent. */
	int (*on_frame)(struct conn *c, const struct proto_header *h, const uint8_t *payload);

	struct frame_queue urgent, bulk;
	unsigned prompt; /* frames in `bulk` that are not to be held */
	bool flushing;	 /* `bulk` is being emptied */
	uint64_t held;	 /* now_us() until which new bulk frames are held */
	struct loop_timer hold;
	struct frame *current; /* being written; its wire form starts at data[] */
	size_t sent;	       /* bytes of `current` that went out or are staged */

	uint8_t stage[CONN_STAGE]; /* small frames on their way out together */
	size_t stage_first, stage_end;

	uint8_t *in;
	size_t in_first, in_end; /* bytes received and not yet parsed */
};

/**
 * conn_init() - Take over a descriptor
 * @c: Connection, zeroed, with on_frame set
 * @loop: Loop it lives in
 * @fd: virtio port or socket, made non-blocking here
 * @local: It is a socket whose end of file ends the agent
 *
 * Return: 0 or -errno.
 */
int conn_init(struct conn *c, struct loop *loop, int fd, bool local);

/** conn_fini() - Close it and free what is queued. */
void conn_fini(struct conn *c);

/**
 * conn_receive() - Read and handle frames, up to a bounded number of bytes
 * @c: Connection
 *
 * Return: 0, -EPROTO if the host broke the protocol, -EPIPE at the end of a local connection.
 */
int conn_receive(struct conn *c);

/** conn_transmit() - Write as much as the descriptor takes. Return: 0 or -errno. */
int conn_transmit(struct conn *c);

/** conn_more() - True if there is something to do without waiting for an event. */
bool conn_more(struct conn *c);

/** conn_holds() - True if what is queued waits for more, and nothing else is to be done. */
bool conn_holds(const struct conn *c);

/** conn_hurry() - What is queued next is not held: somebody waits for it. */
void conn_hurry(struct conn *c);

/** conn_full() - True if producers of bulk frames should wait. */
bool conn_full(const struct conn *c);

/** conn_renew() - Start a generation: what was queued for an older one is dropped. */
void conn_renew(struct conn *c, uint32_t generation);

/**
 * frame_new() - Make a frame to be filled through its `out`
 * @type: enum proto_type
 * @id: Run or request
 * @cap: Most bytes of payload
 *
 * Return: the frame, or NULL for want of memory.
 */
struct frame *frame_new(enum proto_type type, uint32_t id, size_t cap);

/**
 * frame_trim() - Give back payload space that was not used
 * @f: A filled frame
 *
 * Return: the frame, which may have moved.
 */
struct frame *frame_trim(struct frame *f);

/** conn_send() - Queue a frame, which belongs to the connection from now on. */
void conn_send(struct conn *c, struct frame *f);

/**
 * conn_last_bulk() - The newest bulk frame, to append to it
 * @c: Connection
 *
 * Return: a frame of which nothing was sent, or NULL. After appending, tell conn_grown().
 */
struct frame *conn_last_bulk(struct conn *c);

/** conn_grown() - @len bytes were appended to the frame of conn_last_bulk(). */
void conn_grown(struct conn *c, size_t len);

#endif
