/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the process behind a request, from /proc. */
#ifndef XSBX_FS_REQUEST_CALLER_H
#define XSBX_FS_REQUEST_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* For all: @pid is of struct req_ctx; of 0, a process that this daemon cannot see, nothing is known. */

/* Reads a file of it in /proc, as much as there is room for, with a NUL behind it. Return: its bytes; 0: there are none to be had. */
size_t caller_read(pid_t pid, const char *name, char *text, size_t size);

/* Is it being killed by a signal? */
bool caller_killed(pid_t pid);

/*
 * Does it seek before each read, also where it only reads on, and never for the end of a file? So does an SFTP server,
 * whose protocol has an offset in each request: that of OpenSSH, as a program of its own or in sshd.
 */
bool caller_seeks(pid_t pid);

#endif
