/* SPDX-License-Identifier: Apache-2.0 */
/* A request below `files/` on its way; shared by the files here. */
#ifndef XSBX_FS_FILES_INTERNAL_H
#define XSBX_FS_FILES_INTERNAL_H

#include "agent/files/lockbook.h"
#include "files.h"

/* Offsets behind "." and "..", which are put before the agent's entries. */
#define OFFSET_DOT	 1u
#define OFFSET_DOTDOT	 2u
#define DOTS_SIZE	 64u   /* what "." and ".." take of the answer to a READDIR */
#define FILES_GIVE_UP_MS 1000u /* after the agent was told to end a wait */

struct file_op {
	TAILQ_ENTRY(file_op) link;
	struct file_ops *list;
	struct session *s; /* reference */
	struct req *req;   /* NULL: the caller has given up */
	struct vm_file rq;
	char *name, *newname;
	uint32_t epoch;
	uint64_t ino;
	uint32_t index;	    /* of the node or directory, 0: the root */
	uint32_t newparent; /* of the other directory of a LINK or RENAME */
	int open_flags;
	uint64_t since;		     /* uv_now() */
	uint64_t give_up;	     /* uv_now(); 0: neither interrupted nor to be renewed */
	struct vm_file_reply linked; /* the answer, while its link's target is asked for */
	bool measuring;
	bool renew; /* a wait for a lock that is ended for the kernel's sake */
};

/* Puts it on another list, or (NULL) on none. */
void files_op_list(struct file_op *op, struct file_ops *list);
void files_op_free(struct file_op *op);

/* The request is about to be answered, by the caller. Return: it, or NULL if the caller gave up. */
struct req *files_op_req(struct file_op *op);

/* Answers a request that somebody still waits for. */
void files_answer(struct file_op *op, const struct vm_file_reply *reply);
void files_answer_open(struct file_op *op, const struct vm_file_reply *reply);
/* @reply NULL: no entries. @offset: the kernel's. */
void files_answer_readdir(struct file_op *op, const struct vm_file_reply *reply, uint64_t offset);
void files_answer_statfs(struct file_op *op, const struct vm_statfs *a);

/* The agent is told: for filenodes_init(), with the session. */
void files_node_gone(void *data, const struct filenode *fn);
/* The names of a RENAME. */
struct filenode_move files_move_of(const struct file_op *op);

/**
 * files_measure_link() - Find out how long a link is that an answer describes
 * @op: Request
 * @reply: Answer to it
 * @fn: Called with the answer to one more request, which files_link_measured() then reads
 *
 * Return: true if that has been asked for.
 */
bool files_measure_link(struct file_op *op, const struct vm_file_reply *reply, vm_file_fn fn);
/* Return: the answer to @op, with the size of the target that the host is shown. */
const struct vm_file_reply *files_link_measured(struct file_op *op, int err,
						const struct vm_file_reply *reply);

/* Nobody waits any more: what the agent gave is given back. */
void files_undo(struct file_op *op, const struct vm_file_reply *reply);
/* Is it a lock that may have to be waited for? */
bool files_waits_for_lock(const struct file_op *op);
/* Ends the wait of a request that the agent has. */
void files_cancel_lock(const struct file_op *op);
/* Likewise, and takes back what was granted. */
void files_undo_lock(const struct file_op *op);
/* What the caller gets for @err. */
int files_lock_error(const struct file_op *op, int err);
void files_tell_release(struct session *s, uint64_t handle);

#endif
