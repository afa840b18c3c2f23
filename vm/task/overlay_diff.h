/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox has changed in its copy of a host directory: lists and commits it. */
#ifndef XSBX_VM_TASK_OVERLAY_DIFF_H
#define XSBX_VM_TASK_OVERLAY_DIFF_H

#define OVERLAY_BEGIN_FD 0	 /* a byte arrives when it is to begin */
#define OVERLAY_WORDS_FD 1	 /* its output */
#define OVERLAY_UPPER_FD 3	 /* the changes */
#define OVERLAY_BASE	 "/base" /* the directory of the host, in the jail */
#define OVERLAY_LIST	 "list"
#define OVERLAY_COMMIT	 "commit"
#define OVERLAY_LISTED	 "listed"
#define OVERLAY_DONE	 "done"

/**
 * overlay_diff_serve() - Main function of a process that lists or commits changes
 * @what: OVERLAY_LIST or OVERLAY_COMMIT
 *
 * Lists them as lines "SUM A PATH", "SUM M PATH", "SUM D PATH": added, modified, deleted, with "?"
 * for what could not be read, and "!" after the letter for changes that need review. The sum covers
 * the result of the change: equal lists mean equal changes. The last line is "done CHANGES
 * FAILURES"; without it, the list is incomplete.
 *
 * To commit, it lists them, with "listed" instead of "done" at the end, and waits for another byte.
 * Then it applies to the directory exactly the changes with the sums listed, prints "PATH: REASON"
 * for the first ones that fail, syncs to the disk, and prints "done".
 */
__attribute__((noreturn)) void overlay_diff_serve(const char *what);

#endif
