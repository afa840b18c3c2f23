/* SPDX-License-Identifier: Apache-2.0 */
/* File requests and their answers on the wire: packed, and checked. */
#ifndef XSBX_VM_GUEST_FILE_WIRE_H
#define XSBX_VM_GUEST_FILE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file.h"

/*
 * What an answer holds is the guest's word. It is checked against the question (never more bytes than asked for),
 * numbers are brought into the range that a file system may show, and names that cannot be are left out of a
 * directory.
 */

struct channel_frame;
struct sheets;

enum file_answer {
	FILE_ANSWER_NONE,
	FILE_ANSWER_TRANSFER, /* of READ and WRITE */
	FILE_ANSWER_LISTING,
	FILE_ANSWER_OTHER,
};

/* What kind of answer there is to a request. */
enum file_answer file_wire_answer(enum vm_file_op op);

/* The frame of a request; and the operation of such a frame, or VM_NFILEOPS if it is none. */
enum proto_type file_wire_type(enum vm_file_op op);
enum vm_file_op file_wire_op(uint64_t type);

/**
 * file_wire_pack() - Make the frame of a request, or of a piece of one
 * @req: Request
 * @skip: Of a READ or WRITE, so many bytes come before this piece
 * @size: So many are of it
 * @sheets: On which bytes to be written may stay; or NULL
 *
 * Return: the frame, or NULL if out of memory.
 */
struct channel_frame *file_wire_pack(const struct vm_file *req, size_t skip, size_t size,
				     struct sheets *sheets);

/* An error number of the agent's, as -errno that a file system may return. */
int file_wire_errno(uint32_t err);

/* Return: 0, or -EIO for attributes that no file can have. */
int file_wire_attr(struct proto_in *in, struct vm_attr *ret);

/**
 * file_wire_listing() - Read the answer to READDIR, behind its errno
 * @in: Answer
 * @max: Bytes that were asked for
 * @ret_reply: Entries; those with impossible names are left out, the others have terminated copies
 * @ret_memory: What they are in, to be freed
 *
 * Return: 0, -EPROTO if it violates the protocol, -ENOMEM.
 */
int file_wire_listing(struct proto_in *in, size_t max, struct vm_file_reply *ret_reply,
		      void **ret_memory);

/**
 * file_wire_reply() - Read another answer, behind its errno
 * @op: What was asked
 * @in: Answer
 * @ret_reply: Zeroed; filled in. Its data points into the answer
 * @ret_waits: For LOCK: it is not there yet
 *
 * Return: 0, -EIO if a value is one that no file system may return, -EPROTO if it violates the protocol.
 */
int file_wire_reply(enum vm_file_op op, struct proto_in *in, struct vm_file_reply *ret_reply,
		    bool *ret_waits);

#endif
