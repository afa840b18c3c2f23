/* SPDX-License-Identifier: Apache-2.0 */
/* Changes that a sandbox has made to its copy of a host directory. Part of vm.h. */
#ifndef XSBX_VM_SANDBOX_WORKDIR_H
#define XSBX_VM_SANDBOX_WORKDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct fdbag;
struct record_reader;
struct sandbox;
struct vm;
struct workdir;

/**
 * workdir_of() - Keep the changes that a sandbox makes to its working directory
 * @s: Sandbox, READY
 *
 * They outlive the sandbox, with the memory they take.
 *
 * Return: to be freed with workdir_free(), before vm_close() completes; NULL if there are none, or
 * out of memory.
 */
struct workdir *workdir_of(const struct sandbox *s);
void workdir_free(struct workdir *w);

enum workdir_op {
	WORKDIR_LIST, /* a line for each: "SUM A PATH", "SUM M PATH" or "SUM D PATH", or "SUM ? PATH" if it
			 * can't be read; "!" after the letter marks a change that needs review; names
			 * escaped */
	WORKDIR_COMMIT, /* apply them, with the owner's rights; lines "PATH: reason" for failures */
};

#define WORKDIR_SUM \
	33u /* bytes of a line before the letter: a checksum of the result in 32 digits */

struct vm_changes {
	const char *text; /* not terminated */
	size_t len;
	uint64_t changes, failures;
	const char *why; /* if it failed as a whole */
};

/* @err: 0 or -errno; -EFBIG if the list is too long. */
typedef void (*workdir_fn)(void *data, int err, const struct vm_changes *c);

/* Called before a commit: may these changes, listed as above, be made? No others will be. */
typedef bool (*workdir_judge_fn)(void *data, const struct vm_changes *c);

/**
 * workdir_do() - List or commit the changes
 * @w: Changes; may be freed while this is under way
 * @op: Which
 * @judge: Called once before a commit, from the loop, unless it fails earlier; NULL for a list
 * @fn: Called once, from the loop; with -ECANCELED if @judge refused; -ESTALE if changes were made
 *	by a process that was taken over, and what it has said of that is lost
 * @data: Their first argument
 *
 * Return: 0 or -errno; @fn is only called if 0.
 */
int workdir_do(struct workdir *w, enum workdir_op op, workdir_judge_fn judge, workdir_fn fn,
	       void *data);

/* Is a commit being applied now? */
bool workdir_under_way(const struct vm *vm);

/* ---- from one daemon to the next ---- */

/* Appends the fields of a record by which another process can go on with the changes. */
void workdir_put(const struct workdir *w, struct buf *out, struct fdbag *fds);

/* Goes on with what another process has put; orders keep their numbers of views, which are the
 * spawner's. Return: 0, -EBADMSG or -ENOMEM. */
int workdir_take(struct vm *vm, const struct record_reader *fields, struct fdbag *fds,
		 struct workdir **ret_workdir);

/* If a commit with this @data is being applied: appends its fields likewise. Return: whether it is. */
bool workdir_put_commit(const struct vm *vm, const void *data, struct buf *out, struct fdbag *fds);

/* Goes on with such a one; @fn and @data as of workdir_do(). Return: 0, -EBADMSG, -EPIPE, -ENOMEM. */
int workdir_take_commit(struct vm *vm, const struct record_reader *fields, struct fdbag *fds,
			workdir_fn fn, void *data);

#endif
