/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by file_call.c and file_call_record.c: a call, and what of it waits. */
#ifndef XSBX_VM_GUEST_FILE_CALL_INTERNAL_H
#define XSBX_VM_GUEST_FILE_CALL_INTERNAL_H

#include <assert.h>

#include "file_call.h"

#define FILE_PIECES_MAX (GUEST_FILE_REQUEST_MAX / PROTO_DATA_MAX)
static_assert(FILE_PIECES_MAX < 32, "a bit for each");
#define FILE_ROUND_MAX 0xffffffu

struct channel_frame;

struct file_call {
	TAILQ_ENTRY(file_call) link; /* of all */
	struct file_calls *calls;
	uint64_t number, claim;
	enum vm_file_op op;
	file_call_fn fn; /* NULL: nobody has claimed it */
	void *data;
	bool orphan;		 /* it may be claimed */
	uint64_t handle, offset; /* READ */
	size_t size;		 /* bytes to be read or written */
	unsigned npieces, unanswered, in_flight;
	unsigned kept_back; /* READ: pieces that are sent when the first is not short */
	uint64_t token;	    /* LOCK */
	bool may_wait, urgent;
	bool changes;			 /* vm_file_changes(), or it may */
	bool waits;			 /* for a lock, without a slot */
	unsigned answered;		 /* bits of pieces */
	int32_t result[FILE_PIECES_MAX]; /* bytes, or -errno */
	uint8_t *bytes;			 /* READ of several pieces: where they are reassembled */
};

struct file_piece {
	STAILQ_ENTRY(file_piece) link;
	struct file_call *call; /* NULL: there is no answer */
	unsigned number;
	struct channel_frame *frame; /* NULL: of an orphan */
};

/* Puts it behind all others. And: takes it out, and frees it. */
void file_call_add(struct file_calls *calls, struct file_call *call);
void file_call_free(struct file_call *call);
void file_piece_free(struct file_piece *p);

/* How many pieces a call has, and the bytes of one of a read or write. */
unsigned file_call_pieces(enum vm_file_op op, size_t size);
size_t file_piece_size(const struct file_call *call, unsigned number);

/* Sends what may be in flight. */
void file_calls_pump(struct file_calls *calls);

#endif
