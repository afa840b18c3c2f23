/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of the host are visible in jails: programs and libraries, and paths of a session's
 * template. */
#ifndef XSBX_VM_JAIL_VIEW_H
#define XSBX_VM_JAIL_VIEW_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vm/base/digest.h"
#include "jail.h"

struct sandbox_spec;

/* ---- what a sandbox is to see, as its spec says it ---- */

/* Does it need anything that only the process backend supports? */
bool view_wanted(const struct sandbox_spec *spec);

/**
 * view_stamp() - Which directories and files of the host have the names that a sandbox shows
 * @spec: Its spec; may be NULL
 * @ret: Result: another text when those names are given to others, which a jail that was made
 *	before then does not see; "" if it shows none
 *
 * Never waits. Return: 0, or -errno if that is not known: a path is not there, or (-EAGAIN) it lies
 * on a server that would have to be asked.
 */
int view_stamp(const struct sandbox_spec *spec, char ret[DIGEST_HEX]);

/* ---- parts of a jail's description ---- */

#define VIEW_LEADS_MAX 64u

/* Adds a mount; the strings have to live as long as @spec. Ignored if there are too many. */
void view_show(struct jail_spec *spec, enum jail_mount_kind kind, uint32_t flags,
	       const char *source, const char *target);

/**
 * view_show_top() - Show a directory that may be a link, such as /lib on a merged-/usr system
 * @spec: Gets the same link, or the directory, read-only
 * @tree: Root of the tree, "" for the host's; from another tree, only links are shown
 * @dir: Its path in the tree
 * @leads: Buffer for the link's target; has to live as long as @spec
 */
void view_show_top(struct jail_spec *spec, const char *tree, const char *dir,
		   char leads[VIEW_LEADS_MAX]);

/**
 * view_find_program() - Find a program as the shell does
 * @name: A path, or a name to look up in PATH
 * @ret_path: Its real path, without links
 *
 * Return: 0 or -ENOENT.
 */
int view_find_program(const char *name, char ret_path[PATH_MAX]);

/* The same for a name, in the directories of @path, which has the format of PATH. */
int view_find_program_in(const char *path, const char *name, char ret_path[PATH_MAX]);

#endif
