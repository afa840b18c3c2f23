/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of files/: a pending request below `files/`. */
#ifndef XSBX_FS_FILES_INTERNAL_H
#define XSBX_FS_FILES_INTERNAL_H

#include "agent/files/lockbook.h"
#include "files.h"
#include "fs/request/reply.h"
#include "vm/base/wait.h"

/* Offsets after "." and "..", which are inserted before the agent's entries. */
#define OFFSET_DOT	 1u
#define OFFSET_DOTDOT	 2u
#define DOTS_SIZE	 64u   /* bytes of "." and ".." in the answer to READDIR */
#define FILES_GIVE_UP_MS 1000u /* after the agent was told to end a wait */

struct file_op {
	TAILQ_ENTRY(file_op) link;
	struct file_ops *list;
	struct session *s; /* reference */
	struct req *req;   /* NULL: the caller has given up */
	struct vm_file rq;
	char *name, *newname;
	void *data; /* of a WRITE that is held back, or waits for something else than its answer; else NULL */
	uint32_t epoch;
	struct filenodes *nodes; /* that it is about; and their kind */
	enum node_kind kind;
	unsigned place;	 /* of the checkpoint, see struct checkpoint; 0: of none */
	bool packed;	 /* it is answered from what was saved */
	bool unnumbered; /* ... which does not have inode numbers */
	uint64_t ino;
	uint32_t index;	    /* of the node or directory; 0: the root */
	uint32_t newparent; /* of the other directory of a LINK or RENAME */
	int open_flags;
	uint64_t since;		     /* uv_now() */
	uint64_t began;		     /* uv_hrtime() */
	bool asked;		     /* the agent was; what vm/ knows itself, it answers at once */
	uint64_t give_up;	     /* uv_now(); 0: neither interrupted nor being renewed */
	struct vm_file_reply linked; /* the answer, while its link's target is requested */
	bool measuring;
	/* While a directory is looked up for it, see files_follow(): its index; and what came of it, if that is known at once. */
	uint32_t followed;
	bool asking;
	int found;
	void (*go_on)(struct file_op *op);
	uint64_t fh;	      /* id of the handle that it is about, if `rq` has one */
	struct file_was *was; /* of a saved file that is opened, for the handle */
	uint64_t file;	      /* likewise */
	/* While a directory is read whole for it, see listing.h: the kernel's room; so many bytes of the handle's text; how often it
	 * has begun anew. */
	bool listing;
	size_t room, listed;
	unsigned begun;
	bool renew;   /* a wait for a lock that is ended because the kernel needs it */
	bool resumed; /* it was asked by a daemon before this one */
	/* While what was saved is being read from a disk, see packed_load(): */
	struct wait wait;
	struct saved *saved; /* reference, or NULL */
	void (*loaded)(struct file_op *op, const struct problem *why);
};

/* Moves it to another list, or with NULL to none. */
void files_op_list(struct file_op *op, struct file_ops *list);
void files_op_free(struct file_op *op);
/* Answers the request, if its process has not given up, and frees it. */
void files_op_fail(struct file_op *op, int err);

/* Before it is kept behind the turn of the loop: what it writes lies in the kernel's request, which is gone then. Return: 0,
 * -ENOMEM, or -EDQUOT: that is its user's memory. */
int files_own_data(struct file_op *op);

/* Is it one of a checkpoint's files? */
bool files_is_saved(const struct node *n);

/* What waits goes to the sandbox, which is there; or wherever it belongs now. */
void files_send_held(struct session *s);
void files_route_held(struct session *s);

/* Takes the request, which the caller will answer. Return: NULL if its process has given up. */
struct req *files_op_req(struct file_op *op);

/* Inode numbers, modes and offsets as they are shown, of those that the agent, or a pack, has. */
uint64_t files_shown_ino(const struct file_op *op, uint64_t ino);
uint32_t files_shown_mode(uint32_t mode);
uint64_t files_shown_offset(uint64_t offset);
/* "." and "..", at the head of fs->io, as far as they are behind the kernel's @offset. Return:
 * their bytes. */
size_t files_put_dots(struct file_op *op, struct req *req, size_t cap, uint64_t offset);

/**
 * files_follow() - Find directories that the kernel knows of another sandbox in the one that there is now
 * @op: Its node and other directory are filled in
 * @go_on: Called when one of them was looked up, to try it again
 *
 * Return: 0; 1: it is asked for; -ESTALE: one is not there any more, or can't be found by its name, as files can't; -errno.
 */
int files_follow(struct file_op *op, void (*go_on)(struct file_op *op));
/* The same in what was saved of the session. Return: 0 or -ESTALE. */
int files_follow_saved(struct file_op *op, const struct pack *pack);
/* ... all that the kernel knows of the session, as far as they are there. */
void files_follow_all(struct session *s, const struct pack *pack);

/* Answers a request, unless its process has given up. */
void files_answer(struct file_op *op, const struct vm_file_reply *reply);
void files_answer_open(struct file_op *op, const struct vm_file_reply *reply);
/* @reply NULL: no entries. @offset: the kernel's. */
void files_answer_readdir(struct file_op *op, const struct vm_file_reply *reply, uint64_t offset);
void files_answer_statfs(struct file_op *op, const struct vm_statfs *a);

/* The agent is told: for filenodes_init(), with the session. */
void files_node_gone(void *data, struct filenode *fn);
/* The directories and names of a RENAME. */
struct filenode_move files_move_of(const struct file_op *op);

/**
 * files_measure_link() - Determine the size of a link that an answer describes
 * @op: Request
 * @reply: Its answer
 * @fn: Called with the answer to a second request, to be passed to files_link_measured()
 *
 * Return: true if the second request was sent.
 */
bool files_measure_link(struct file_op *op, const struct vm_file_reply *reply, vm_file_fn fn);
/* Return: the answer to @op, with the size of the link's target as shown on the host. */
const struct vm_file_reply *files_link_measured(struct file_op *op, int err,
						const struct vm_file_reply *reply);

/* Was it asked by a daemon before this one? Then it goes on with that: files_resume(). @fn: called
 * with the answer. */
bool files_is_asked(struct file_op *op);
void files_resume(struct file_op *op, vm_file_fn fn);
void files_drop_linked(struct files *f);

/* The process has given up: returns what the agent has granted. */
void files_undo(struct file_op *op, const struct vm_file_reply *reply);
/* It was to be asked of a sandbox that did not come to be: it is asked here, of what was saved. Frees it. */
void files_lock_saved(struct file_op *op);
/* Is it a request for a lock that may wait? */
bool files_waits_for_lock(const struct file_op *op);
/* Ends the wait of a request that was sent to the agent. */
void files_cancel_lock(const struct file_op *op);
/* Likewise, and revokes a lock that was granted. */
void files_undo_lock(const struct file_op *op);
/* Translates @err for the caller. */
int files_lock_error(const struct file_op *op, int err);

/* What the kernel may keep of an answer about @fn (or NULL), which was given during a lease or not. */
enum reply_keep files_keep(struct files *f, struct filenode *fn, bool leased);
void files_unkeep(struct files *f, struct filenode *fn);
/* Likewise of `files/` itself, whose owner and mode are the session's. */
enum reply_keep files_keep_root(struct files *f, bool leased);
/* Nothing of that is true any more. */
void files_drop_kept(struct files *f);

void files_tell_release(struct session *s, uint64_t handle);
void files_tell_forget(struct session *s, uint64_t remote, uint64_t lookups);

#endif
