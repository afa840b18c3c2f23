/* SPDX-License-Identifier: Apache-2.0 */
/* Removing directories. */
#ifndef XSBX_VM_BASE_REMOVE_H
#define XSBX_VM_BASE_REMOVE_H

/* Removes a directory tree, without following links or crossing into other file systems.
 * Return: 0, or -errno of the first entry that could not be removed. */
int remove_tree(const char *path);

/* The same, but renames it first, so that the name is free at once, and a new directory of that name
 * is not affected. Who is killed meanwhile leaves what is named so, with REMOVE_GONE and a number
 * behind it, for remove_abandoned(). */
#define REMOVE_GONE ".gone-"
int remove_tree_at_once(const char *path);

/* Removes the directories in @dir whose names begin with @prefix, that nobody has locked, and that were not changed for
 * @age_s seconds, with 0 at any time: what was begun and never finished. */
void remove_abandoned(const char *dir, const char *prefix, unsigned age_s);

#endif
