/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox changes in the directory of the host that it began with. Part of vm.h. */
#ifndef XSBX_VM_SANDBOX_WORKDIR_H
#define XSBX_VM_SANDBOX_WORKDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sandbox;
struct vm;
struct workdir;

/**
 * workdir_of() - Hold on to what a sandbox changes in the directory that it began with
 * @s: Sandbox, READY
 *
 * It stays when the sandbox is gone, with the memory it takes.
 *
 * Return: To be freed with workdir_free(), before vm_close() is done; NULL if there is none, or no memory.
 */
struct workdir *workdir_of(const struct sandbox *s);
void workdir_free(struct workdir *w);

enum workdir_op {
	WORKDIR_LIST, /* a line for each: "SUM A PATH", "SUM M PATH" or "SUM D PATH", or "SUM ? PATH" for what
			 * can't be looked into, "!" behind the letter of what deserves a second look; names
			 * escaped */
	WORKDIR_COMMIT, /* make them, with the owner's rights; lines "PATH: why not" */
};

#define WORKDIR_SUM \
	33u /* bytes of a line before the letter: 32 digits that stand for what is made */

struct vm_changes {
	const char *text; /* not terminated */
	size_t len;
	uint64_t changes, failures;
	const char *why; /* if all of it failed */
};

/* @err: 0 or -errno; -EFBIG for a list that is too long. */
typedef void (*workdir_fn)(void *data, int err, const struct vm_changes *c);

/* Before a commit: may these changes be made, which are listed as above? Nothing else is made then. */
typedef bool (*workdir_judge_fn)(void *data, const struct vm_changes *c);

/**
 * workdir_do() - List or make the changes
 * @w: Changes; may be freed while this is on its way
 * @op: Which
 * @judge: Called once before a commit, from the loop, unless it fails before; NULL for a list
 * @fn: Called once, from the loop; with -ECANCELED if @judge refused
 * @data: Their first argument
 *
 * Return: 0 or -errno; @fn is only called if 0.
 */
int workdir_do(struct workdir *w, enum workdir_op op, workdir_judge_fn judge, workdir_fn fn,
	       void *data);

/* Is anything being made in a directory now? */
bool workdir_under_way(const struct vm *vm);

#endif
