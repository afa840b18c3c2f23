/* SPDX-License-Identifier: Apache-2.0 */
/* File requests to an agent: encoded, split, pipelined; their answers validated and reassembled. */
#ifndef XSBX_VM_GUEST_FILES_H
#define XSBX_VM_GUEST_FILES_H

#include <stdint.h>
#include <sys/queue.h>

#include "channel.h"
#include "early.h"
#include "file.h"
#include "lease.h"

#define GUEST_FILE_REQUEST_MAX (1u << 20)  /* bytes of one read or write */
#define GUEST_FILE_HELD_MAX    (64u << 20) /* bytes of requests that wait for their turn */

struct file_call;

/*
 * - Embedded in a guest, zeroed and then guest_file_init().
 * - `slot[i].call` is the call with a piece in flight under the id `round << 8 | i`.
 * - `waiting` has pieces in the order of their calls; they are sent as slots become free.
 */
struct guest_files {
	struct channel *channel;
	struct {
		struct file_call *call;
		unsigned piece;
		uint32_t round;
	} slot[PROTO_FILES_INFLIGHT];
	uint8_t free[PROTO_FILES_INFLIGHT]; /* stack of free slots */
	unsigned nfree;
	STAILQ_HEAD(file_pieces, file_piece) waiting;
	size_t held;				 /* bytes in `waiting` */
	TAILQ_HEAD(file_calls, file_call) locks; /* calls that wait for a lock, without a slot */
	uint64_t read_handle, read_end; /* the last READ that was not short, and where it ended */
	struct guest_lease lease;
	struct early_table early;
	unsigned nopen; /* handles that the agent has made, or was asked for */
};

void guest_file_init(struct guest_files *gf, struct channel *channel);

/* See sandbox_file(); @fn may be called at once. Return: 0, -ENOMEM, or -EINVAL or -ENAMETOOLONG for an invalid request. */
int guest_file_request(struct guest_files *gf, const struct vm_file *req, vm_file_fn fn,
		       void *data);

/* Handles a FILE_REPLY. Return: 0, or -EPROTO if it violates the protocol. */
int guest_file_reply(struct guest_files *gf, uint32_t id, struct proto_in *in);

/* Handles a LOCKED. Return: likewise. */
int guest_file_locked(struct guest_files *gf, struct proto_in *in);

/* Something else than the host may soon change files: has the agent open all that the host has open. */
void guest_file_stir(struct guest_files *gf);

/* Answers all pending calls with @err. */
void guest_file_fail(struct guest_files *gf, int err);

#endif
