/* SPDX-License-Identifier: Apache-2.0 */
/* File requests to an agent: packed, split, pipelined; their answers checked and put together. */
#ifndef XSBX_VM_GUEST_FILES_H
#define XSBX_VM_GUEST_FILES_H

#include <stdint.h>
#include <sys/queue.h>

#include "channel.h"
#include "file.h"

#define GUEST_FILE_REQUEST_MAX (1u << 20)  /* bytes of one read or write */
#define GUEST_FILE_HELD_MAX    (64u << 20) /* bytes of requests that wait for their turn */

struct file_call;

/*
 * - Embedded in a guest, zeroed and then guest_file_init().
 * - `slot[i].call` is the request whose piece is in flight under the id `round << 8 | i`.
 * - `waiting` are pieces in the order of their calls; they go out as slots become free.
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
};

void guest_file_init(struct guest_files *gf, struct channel *channel);

/* See sandbox_file(). Return: 0, -ENOMEM, -EINVAL or -ENAMETOOLONG for what can't be asked. */
int guest_file_request(struct guest_files *gf, const struct vm_file *req, vm_file_fn fn,
		       void *data);

/* A FILE_REPLY. Return: 0, or -EPROTO if no honest agent sends this. */
int guest_file_reply(struct guest_files *gf, uint32_t id, struct proto_in *in);

/* A LOCKED. Return: likewise. */
int guest_file_locked(struct guest_files *gf, struct proto_in *in);

/* Answers everything with @err. */
void guest_file_fail(struct guest_files *gf, int err);

#endif
