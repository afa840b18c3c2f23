/* SPDX-License-Identifier: Apache-2.0 */
/* What files.c and files_answer.c share: calls, and the checking of answers. */
#ifndef XSBX_VM_GUEST_FILES_INTERNAL_H
#define XSBX_VM_GUEST_FILES_INTERNAL_H

#include "files.h"

#define PIECES_MAX (GUEST_FILE_REQUEST_MAX / PROTO_DATA_MAX)

struct file_call {
	TAILQ_ENTRY(file_call) link; /* of those that wait for a lock */
	enum vm_file_op op;
	vm_file_fn fn;
	void *data;
	size_t size; /* bytes asked for, or to be written */
	unsigned npieces, unanswered;
	uint64_t token; /* LOCK */
	bool may_wait, waits;
	int32_t result[PIECES_MAX]; /* bytes, or -errno */
	uint8_t *bytes;		    /* READ of several pieces: where they are put together */
};

/* An error number that any file system might give. */
int guest_file_errno(uint32_t err);

/*
 * Answer a call from what the agent sent: a directory, and everything but directories, reads and
 * writes.
 *
 * Return: 0, or -EPROTO, and the call is not answered, if no honest agent sends this.
 */
int guest_file_answer_dir(struct file_call *call, struct proto_in *in);
int guest_file_answer(struct file_call *call, struct proto_in *in);

#endif
