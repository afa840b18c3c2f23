/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox has changed in its copy of a directory of the host: listed, and taken over. */
#ifndef XSBX_TREE_H
#define XSBX_TREE_H

#define TREE_BEGIN_FD 0	      /* a byte comes when it is to begin */
#define TREE_WORDS_FD 1	      /* what it has to say */
#define TREE_UPPER_FD 3	      /* the changes */
#define TREE_BASE     "/base" /* the directory of the host, in the jail */
#define TREE_LIST     "list"
#define TREE_COMMIT   "commit"
#define TREE_DONE     "done"

/**
 * tree_serve() - The whole life of a process that looks through changes
 * @what: TREE_LIST or TREE_COMMIT
 *
 * Lists them as lines "A PATH", "M PATH", "D PATH": added, modified, deleted, with "?"
 * for what could not be looked into; or makes them in the
 * directory, and says "PATH: REASON" for each of the first that can't be made. At the end of both comes
 * "done CHANGES FAILURES". Without that line, it did not come to an end.
 */
__attribute__((noreturn)) void tree_serve(const char *what);

#endif
