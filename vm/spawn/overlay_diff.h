/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox has changed in its copy of a directory of the host: listed, and taken over. */
#ifndef XSBX_VM_SPAWN_OVERLAY_DIFF_H
#define XSBX_VM_SPAWN_OVERLAY_DIFF_H

#define OVERLAY_BEGIN_FD 0	 /* a byte comes when it is to begin */
#define OVERLAY_WORDS_FD 1	 /* what it has to say */
#define OVERLAY_UPPER_FD 3	 /* the changes */
#define OVERLAY_BASE	 "/base" /* the directory of the host, in the jail */
#define OVERLAY_LIST	 "list"
#define OVERLAY_COMMIT	 "commit"
#define OVERLAY_LISTED	 "listed"
#define OVERLAY_DONE	 "done"

/**
 * overlay_diff_serve() - The whole life of a process that looks through changes
 * @what: OVERLAY_LIST or OVERLAY_COMMIT
 *
 * Lists them as lines "SUM A PATH", "SUM M PATH", "SUM D PATH": added, modified, deleted, with "?" for what
 * could not be looked into, and "!" behind the letter for what deserves a second look. The sum is of
 * what would be made: two lists that are the same stand for the same changes. At the end comes
 * "done CHANGES FAILURES"; without that line, it did not come to an end.
 *
 * To commit, it lists them, ends with "listed" in the place of "done", and waits for another byte. Then it makes
 * in the directory what has the sums that it has told and nothing else, says "PATH: REASON" for each of the
 * first that can't be made, has it written to the disk, and says "done".
 */
__attribute__((noreturn)) void overlay_diff_serve(const char *what);

#endif
