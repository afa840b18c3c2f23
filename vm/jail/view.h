/* SPDX-License-Identifier: Apache-2.0 */
/* What jails see of the host: its programs and libraries, and what a session's template shows. */
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

/* Is there anything in it that only the process backend has? */
bool view_wanted(const struct sandbox_spec *spec);

/* Which directories and files of the host have the names that it shows: another text when those are given to
 * others, which a jail that was made before then does not see. "" if it shows none. @spec may be NULL. */
void view_stamp(const struct sandbox_spec *spec, char ret[DIGEST_HEX]);

/* ---- parts of a jail's description ---- */

#define VIEW_LEADS_MAX 64u

/* Adds a mount; the strings have to live as long as @spec. One that is too much is left out. */
void view_show(struct jail_spec *spec, enum jail_mount_kind kind, uint32_t flags,
	       const char *source, const char *target);

/**
 * view_show_top() - Show a directory that may be a link, as /lib where everything lies below /usr
 * @spec: Gets the same link, or the directory, read-only
 * @tree: Where everything lies, "" for the host's root; below another one, only links are shown
 * @dir: Its path there
 * @leads: Room for where the link leads; has to live as long as @spec
 */
void view_show_top(struct jail_spec *spec, const char *tree, const char *dir,
		   char leads[VIEW_LEADS_MAX]);

/**
 * view_find_program() - Look for a program as the shell does
 * @name: A path, or a name to be looked for in PATH
 * @ret_path: Where it really lies: no link is left in it
 *
 * Return: 0 or -ENOENT.
 */
int view_find_program(const char *name, char ret_path[PATH_MAX]);

/* The same for a name, in the directories of @path, which is as PATH is. */
int view_find_program_in(const char *path, const char *name, char ret_path[PATH_MAX]);

#endif
