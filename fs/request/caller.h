/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the process behind a request, from /proc. */
#ifndef XSBX_FS_REQUEST_CALLER_H
#define XSBX_FS_REQUEST_CALLER_H

#include <stdbool.h>
#include <sys/types.h>

/* For both: @pid is of struct req_ctx; of 0, a process that this daemon cannot see, nothing is known. */

/* Is it being killed by a signal? */
bool caller_killed(pid_t pid);

/*
 * Does it seek before each read, also where it only reads on, and never for the end of a file? So does an SFTP server,
 * whose protocol has an offset in each request: that of OpenSSH, as a program of its own or in sshd.
 */
bool caller_seeks(pid_t pid);

#endif
