/* SPDX-License-Identifier: Apache-2.0 */
/* Removing directories. */
#ifndef XSBX_VM_BASE_REMOVE_H
#define XSBX_VM_BASE_REMOVE_H

/* Removes a directory and all in it, without following links or leaving the file system.
 * Return: 0, or -errno of the first thing that could not be removed. */
int remove_tree(const char *path);

/* The same, but first gives it another name, so that its own is free at once: nobody who makes
 * a directory of that name meanwhile finds things missing from it. */
int remove_tree_at_once(const char *path);

#endif
