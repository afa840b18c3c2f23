/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by files.c and files_answer.c: calls, and validation of answers. */
#ifndef XSBX_VM_GUEST_FILES_INTERNAL_H
#define XSBX_VM_GUEST_FILES_INTERNAL_H

#include "files.h"

#define PIECES_MAX (GUEST_FILE_REQUEST_MAX / PROTO_DATA_MAX)

struct file_call {
	TAILQ_ENTRY(file_call) link; /* of those that wait for a lock */
	enum vm_file_op op;
	vm_file_fn fn;
	void *data;
	size_t size; /* bytes to be read or written */
	unsigned npieces, unanswered;
	uint64_t token; /* LOCK */
	bool may_wait, waits;
	int32_t result[PIECES_MAX]; /* bytes, or -errno */
	uint8_t *bytes;		    /* READ of several pieces: where they are reassembled */
};

/* Maps an error number from the agent to one that a file system may return. */
int guest_file_errno(uint32_t err);

/*
 * Answer a call from what the agent sent: READDIR, and everything except READDIR, reads and
 * writes.
 *
 * Return: 0, or -EPROTO if it violates the protocol; the call is not answered then.
 */
int guest_file_answer_dir(struct file_call *call, struct proto_in *in);
int guest_file_answer(struct file_call *call, struct proto_in *in);

#endif
