/* SPDX-License-Identifier: Apache-2.0 */
/* Files that secrets are in. */
#ifndef XSBX_VM_BASE_SECRET_FILE_H
#define XSBX_VM_BASE_SECRET_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#define SECRET_FILE_WHY 1024 /* bytes of a reason, which names a path */

/**
 * secret_file_open() - Open a file that nobody but its owner may use
 * @path: Path; what it names is no link
 * @owner: Whose it has to be
 * @root: It may be root's, too
 * @ret_why: Human-readable reason if it fails
 *
 * Never waits, neither for a FIFO nor for a terminal.
 *
 * Return: its descriptor, to be read, which the caller closes; -errno.
 */
int secret_file_open(const char *path, uid_t owner, bool root,
		     char ret_why[static SECRET_FILE_WHY]);

#endif
