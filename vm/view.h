/* SPDX-License-Identifier: Apache-2.0 */
/* What a process sandbox sees of the host: what a session's template says, and kept as long as it is needed. */
#ifndef XSBX_VIEW_H
#define XSBX_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sandbox_spec;
struct vm_path;

/* Owns its strings; one of all zeroes shows nothing. */
struct view {
	struct vm_path *path;
	size_t npaths;
	/* Whose rights code in the sandbox has below what it may write to. */
	uid_t owner;
	gid_t group;
};

/* Return: 0, -E2BIG, -ENOMEM; on failure @dst is empty. */
int view_copy(struct view *dst, const struct sandbox_spec *spec);
void view_free(struct view *v);

/* Is there anything in it that only the process backend has? */
bool view_wanted(const struct sandbox_spec *spec);

/* May a sandbox that was made with @v be used for @spec? */
bool view_serves(const struct view *v, const struct sandbox_spec *spec);

#endif
