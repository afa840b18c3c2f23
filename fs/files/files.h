/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: the sandbox's working directory, through the agent. */
#ifndef XSBX_FS_FILES_FILES_H
#define XSBX_FS_FILES_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "vm/vm.h"
#include "filenode.h"
#include "fs/session/node.h"

/*
 * Theory of operation
 * -------------------
 * Every request becomes one request to the agent, and is answered when the agent has answered; many
 * are in flight. Nothing is kept here: changes made in the sandbox are visible at once. What vm/
 * knows while nothing in the sandbox can change files (vm/guest/known.h), it answers before
 * sandbox_file() returns.
 *
 * Of a session that is asleep, or whose sandbox is not up yet that begins from what was saved, it
 * is answered from that what only reads (packed.h), and locks there are the daemon's; what would write waits for the
 * sandbox. Files that are open when it is up are opened there before all else (reopen.c). Other nodes are others then: what is
 * about a file ends with ESTALE, and the kernel looks
 * up such a path again, and finds the sandbox's; directories are found again here (follow.c), and whoever reads one goes on where
 * he is (listing.c). While a sandbox is being saved, what
 * would change its files is held back. The files of checkpoints are read like that as well.
 *
 * While a session has no sandbox, its `files/` is an empty directory, and reading it starts
 * nothing; whoever has it open and begins anew later (rewinddir(3)), finds what there is then. The first request that would write requests a sandbox and waits for it in `pending`, and
 * later requests wait behind it. When the sandbox ends, requests of its epoch, files and handles
 * fail with ESTALE.
 *
 * A path walk asks for the attributes of everything on its way. During a lease the kernel may keep
 * those for a moment; kept.c knows which, and has it drop them before the sandbox is sent anything
 * that makes code run.
 *
 * The sandbox is hostile: names are validated by vm/, link targets are rewritten by filelink.h, and
 * filenode.h keeps track of where the kernel finds them; only files, directories and links can be
 * opened, and the sandbox can't choose owners or set-id bits. See also the agent's file server,
 * which never follows a path.
 *
 * An interrupted caller is released at once while its request waits for a sandbox. A request that was
 * sent to the agent gets another second, because an interrupted write(2) that has taken effect is worse
 * than a short delay; then the caller gets EINTR, and the effects are undone when the answer arrives.
 */

struct fs;
struct handle;
struct lock_ask;
struct req;
struct session;
struct session_watch;
struct file_op;

/* A request about a link, answered by the agent; the kernel is answered when the link's target is
 * there. */
struct files_linked {
	uint64_t claim; /* of the request, see struct vm_file */
	enum vm_file_op op;
	struct vm_file_reply reply; /* node and attributes */
};

struct files {
	struct session *s;
	struct filenodes nodes;
	struct filenodes saved; /* of its checkpoints; the epoch is a checkpoint's number */
	TAILQ_HEAD(file_ops, file_op) pending, loading, sent;
	struct file_ops anew; /* listings that begin anew when this turn is over */
	TAILQ_HEAD(file_kept, filenode)
	kept; /* the kernel may keep their attributes; oldest first */
	unsigned nkept;
	uint64_t root_kept_until; /* 0: it may not keep those of `files/` */
	uint64_t last_token;	  /* of a lock request that may wait */
	SLIST_HEAD(, linked)
	linked; /* of a daemon before this one, until its requests were made again */
	const struct file_op *asking; /* while sandbox_file() is called for it */
	struct reopening *reopening;  /* while it wakes, see reopen.h; or NULL */
	struct touch touch;	      /* see files_touch() */
};

/* What its own record says changes, or its nodes do, as they note: it is written down anew at the
 * end of this turn. */
void files_touch(struct files *f);

/* Keeps a session's `files`. */
extern const struct session_watch files_watch;

/* Return: the next uv_now() at which to call it again, or UINT64_MAX. */
uint64_t files_tick(struct files *f, uint64_t now);

/**
 * files_request() - Carry out a request of the kernel
 * @n: NODE_FILES or NODE_FILE, or those of checkpoints: the node, or the parent directory of the name
 * @h: Open handle, or NULL
 * @req: Answered now or later
 * @rq: Operation, names, flags, offset, data; node and handle are filled in here
 * @newparent: For RENAME and LINK: the other directory; else NULL
 * @open_flags: For OPEN, CREATE, OPENDIR: the caller's flags, for the handle
 */
void files_request(const struct node *n, struct handle *h, struct req *req, struct vm_file *rq,
		   const struct node *newparent, int open_flags);

/* @n: NODE_FILE or NODE_CHECKPOINT_FILE. */
void files_forget(const struct node *n, uint64_t lookups);
/* Releases the handle in the agent, after it was closed. */
void files_release(struct handle *h);

/**
 * files_lock() - Lock, unlock, or test for a conflicting lock
 * @n: NODE_FILE
 * @h: Open handle
 * @req: Answered now or later
 * @ask: The request; its file is ignored
 * @op: VM_LOCK or VM_TEST_LOCK
 * @wait: Wait until it is granted
 */
void files_lock(const struct node *n, struct handle *h, struct req *req, const struct lock_ask *ask,
		enum vm_file_op op, bool wait);
/* A process has closed a descriptor: releases its ranges of the file. */
void files_flush(const struct node *n, struct handle *h, struct req *req, uint64_t owner);
/* Ends with EAGAIN all waits for locks, and requests that have waited for an answer since @before
 * (uv_now()). */
void files_renew(struct files *f, uint64_t before);

/* Those that there are, for the next daemon; and there: one of them. Return: 0 or -ENOMEM. */
void files_each_linked(const struct files *f, void (*fn)(void *data, const struct files_linked *l),
		       void *data);
int files_link_again(struct files *f, const struct files_linked *of);

/* All requests that the daemon before this one had not answered were handled again, if they live:
 * what nobody asks for any more is given up. */
void files_replayed(struct fs *fs);

/* access(2) with R_OK, W_OK, X_OK by the owner, who is not root. A VM_GETATTR with these in `flags`
 * is answered accordingly. Return: 0 or -EACCES. */
int files_access(mode_t mode, uint32_t mask);

/* The root's attributes, without asking the agent. */
void files_root_stat(const struct session *s, struct stat *st);

#endif
