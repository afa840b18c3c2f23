/* SPDX-License-Identifier: Apache-2.0 */
/* Where the control groups of this process can be seen, in version 2 or 1. */
#ifndef XSBX_VM_BASE_CGROUPS_H
#define XSBX_VM_BASE_CGROUPS_H

#include <stdbool.h>

/* @own is our group's path below @point, where a hierarchy is mounted: "/a/b", or "" for the top of
 * it. That also stands for a group that can't be named there: in a container a part is mounted, in
 * which the group need not lie. Return: 0 to go on, else cgroups_find() ends with it. */
typedef int (*cgroups_fn)(void *data, const char *point, const char *own);

/**
 * cgroups_find() - Look at all mounts of a hierarchy
 * @prefix: Put before every path; "" for this host
 * @controller: Of version 1, e.g. "memory"; "" for version 2
 * @found: Called for each mount
 * @data: Its first argument
 *
 * Return: what @found has returned; 0 also if there is none.
 */
int cgroups_find(const char *prefix, const char *controller, cgroups_fn found, void *data);

/* Is @word one of those in @list? */
bool cgroups_has_word(const char *list, const char *word, const char *separators);

#endif
