/* SPDX-License-Identifier: Apache-2.0 */
/* File requests: answered from what is known, or by the agent. */
#ifndef XSBX_VM_GUEST_FILES_H
#define XSBX_VM_GUEST_FILES_H

#include "early.h"
#include "file.h"
#include "file_call.h"
#include "lease.h"

#define GUEST_FILE_HELD_MAX (64u << 20) /* bytes of requests that wait for their turn */

/* Embedded in a guest, zeroed and then guest_file_init(). */
struct guest_files {
	struct file_calls calls;
	struct guest_lease lease;
	struct early_table early;
	unsigned nopen;	   /* handles that the agent has made, or was asked for */
	unsigned nmoves;   /* new modes and names on their way */
	uint64_t owed_key; /* of records with what is owed, see files_record.c; 0: there are none */
};

void guest_file_init(struct guest_files *gf, struct channel *channel);

/* See sandbox_file(); @fn may be called at once. Return: 0, -ENOMEM, or -EINVAL or -ENAMETOOLONG
 * for an invalid request. */
int guest_file_request(struct guest_files *gf, const struct vm_file *req, vm_file_fn fn,
		       void *data);

/* Is anything asked for that changes files, and not answered yet? */
bool guest_file_changes(const struct guest_files *gf);

/* Something else than the host may soon change files: has the agent open all that the host has open. */
void guest_file_stir(struct guest_files *gf);

/* The caller is gone that wanted this answer: gives back what the agent has given. */
void guest_file_undo(struct guest_files *gf, enum vm_file_op op, const struct vm_file_reply *reply);

/* ---- what was asked by a process before this one, see file_call.h ---- */

/* All was read: what follows from it. Return: 0, -EBADMSG or -ENOMEM. */
int guest_file_inherit(struct guest_files *gf);

/* Is this request one of those, so that it is asked already? @ret_token: by which the agent knows a
 * LOCK. */
bool guest_file_asked(const struct guest_files *gf, const struct vm_file *req, uint64_t *ret_token);

/* All requests have been made again that will be. Return: 0 or -ENOMEM. */
int guest_file_give_up(struct guest_files *gf);

/* The agent is gone: answers all that is pending with @err. */
void guest_file_fail(struct guest_files *gf, int err);

#endif
