/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to an agent's files: split, pipelined, their answers reassembled. */
#ifndef XSBX_VM_GUEST_FILE_CALL_H
#define XSBX_VM_GUEST_FILE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "file.h"

/*
 * Theory of operation
 * -------------------
 * A call is one request that the agent is asked; it goes out as one piece, or, if it reads or
 * writes more than PROTO_DATA_MAX, as several. A piece is a frame that is ready to go. Pieces wait
 * in one queue, in order, until one of PROTO_FILES_INFLIGHT slots is free, so that a megabyte is on
 * its way as a whole instead of one round trip at a time. The slot is the lower part of the frame's
 * id, the upper part counts how often the slot was used: an answer to a slot that has moved on is
 * told from a real one.
 *
 * Pieces are answered in their order, but for locks. Each leaves its result in the call; once the
 * last is there, the result of the whole is what a single read or write would have given:
 * everything up to the first piece that came out short, or its error if nothing came before it.
 *
 * Programs read small files with large buffers. So of a read whose length nobody knows, the first
 * piece is sent alone, and the others if that comes back full; not if the read goes on where
 * another one ended that was full.
 *
 * A lock may have to be waited for, for as long as somebody likes. Its first answer says so; the
 * call then gives its slot back, and ends with a LOCKED that has its token.
 *
 * An urgent call goes ahead of all that waits, and finds a slot: so many as may be needed are kept
 * free.
 *
 * Another process may go on with all that, from a record (file_call_record.c): answers come to the
 * slots that are in it. Of a call it has neither the request nor who wants its answer; the call is
 * an orphan, until the same request is made there, which has the same number, and claims it. So
 * nothing is asked for twice. What of a call was waiting to be sent keeps its place in the queue,
 * without a frame, and nothing behind it is sent. When no more requests can come, what was not
 * claimed is given up: what waits of it is dropped, and its answer goes to the owner. Of a read
 * only the answers to come are known: it is asked for again, in other slots.
 *
 * What an answer holds is the guest's word: file_wire.c checks it. What is asked at all, and what
 * an answer teaches, is up to files.c.
 */

#define GUEST_FILE_REQUEST_MAX (1u << 20) /* bytes of one read or write */

struct buf;
struct channel;
struct file_call;
struct record_reader;

/* The end of a call: @err is 0 or -errno; @reply is NULL unless it is 0. */
typedef void (*file_call_fn)(void *data, int err, struct vm_file_reply *reply);

/* Likewise, of one that nobody has claimed. */
typedef void (*file_orphan_fn)(void *owner, enum vm_file_op op, int err,
			       const struct vm_file_reply *reply);

/*
 * - Embedded by its owner, zeroed and then file_calls_init().
 * - `slot[i].call` is the call with a piece in flight under the id `round << 8 | i`.
 * - `waiting` has pieces in the order of their calls, urgent ones first; they are sent as slots
 *   become free.
 * - `all` has each call from its beginning to its end, oldest first.
 */
struct file_calls {
	struct channel *channel;
	file_orphan_fn orphan_done;
	void *owner;
	TAILQ_HEAD(file_call_list, file_call) all;
	uint64_t last; /* number of the newest call */
	unsigned norphans;
	struct {
		struct file_call *call;
		unsigned piece;
		uint32_t round;
		uint64_t ticket; /* of its frame */
	} slot[PROTO_FILES_INFLIGHT];
	uint8_t free[PROTO_FILES_INFLIGHT]; /* stack of free slots */
	unsigned nfree;
	const unsigned
		*reserved; /* slots that are kept free for urgent calls, as the owner counts them */
	STAILQ_HEAD(file_pieces, file_piece) waiting;
	size_t held;			/* bytes in `waiting` */
	uint64_t read_handle, read_end; /* the last READ that was not short, and where it ended */
};

/* @reserved is read whenever a slot is wanted. @fn is called with @owner. */
void file_calls_init(struct file_calls *calls, struct channel *channel, const unsigned *reserved,
		     file_orphan_fn fn, void *owner);

/* Return: 0, or -EINVAL or -ENAMETOOLONG for what the protocol can't carry. */
int file_call_check(const struct vm_file *req);

/* Is there a slot for a call that is not urgent? */
bool file_calls_have_slot(const struct file_calls *calls);

/* Is there one on its way? A lock that is waited for is not. */
bool file_calls_under_way(const struct file_calls *calls);

/* Is there one that changes files, and is not answered yet? */
bool file_calls_change(const struct file_calls *calls);

/* How a call is made. */
#define FILE_CALL_URGENT 1u /* ahead of all that is not on its way yet */
#define FILE_CALL_EXACT	 2u /* READ: the file is known to have so many bytes there */

/**
 * file_call_send() - Ask the agent
 * @calls: Calls
 * @req: Request that has an answer, after file_call_check()
 * @how: FILE_CALL_*
 * @fn: Called with the answer, once and not before this returns 0
 * @data: For @fn
 *
 * Return: 0 or -ENOMEM.
 */
int file_call_send(struct file_calls *calls, const struct vm_file *req, unsigned how,
		   file_call_fn fn, void *data);

/* Tells the agent what has no answer. Return: 0 or -ENOMEM. */
int file_call_tell(struct file_calls *calls, const struct vm_file *req);

/* Handles a FILE_REPLY. Return: 0, or -EPROTO if it violates the protocol. */
int file_calls_on_reply(struct file_calls *calls, uint32_t id, struct proto_in *in);

/* Handles a LOCKED. Return: likewise. */
int file_calls_on_locked(struct file_calls *calls, struct proto_in *in);

/* ---- from one process to another ---- */

/* All calls, as fields of a record. */
void file_calls_put(const struct file_calls *calls, struct buf *out);

/* Into ones that were initialized. Return: 0, -EBADMSG or -ENOMEM; file_calls_fail() ends what is
 * there. */
int file_calls_take(struct file_calls *calls, struct record_reader r);

/* The operation of each. */
void file_calls_each(const struct file_calls *calls, void (*fn)(void *data, enum vm_file_op op),
		     void *data);

/* Is there an orphan that this request would claim? Return: it, or NULL. */
const struct file_call *file_calls_orphan(const struct file_calls *calls,
					  const struct vm_file *req);
/* By which the agent knows it, if it is a LOCK. */
uint64_t file_call_token(const struct file_call *call);

/* As file_call_send(), for a request that has an orphan: it claims it. Nothing is sent before
 * file_calls_give_up(). Return: 1, 0 if there is none, or -ENOMEM. */
int file_call_claim(struct file_calls *calls, const struct vm_file *req, file_call_fn fn,
		    void *data);

/* No requests come any more that could claim: gives up those that are left. What is behind them
 * goes on. Return: 0 or -ENOMEM. */
int file_calls_give_up(struct file_calls *calls);

/* Ends all calls with @err. */
void file_calls_fail(struct file_calls *calls, int err);

#endif
