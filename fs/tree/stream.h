/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes for a run's output and exit status: those that wait for it, and those that do not. */
#ifndef XSBX_FS_TREE_STREAM_H
#define XSBX_FS_TREE_STREAM_H

#include "fs/request/handle.h"
#include "fs/session/node.h"

/*
 * Theory of operation
 * -------------------
 * At the top of a session, `stdout`, `stderr`, `output` and `exit_code` belong to the run that was the
 * newest when they were opened, and a read at the end of the present output waits until there is more or
 * the run has ended. Which run that is may only be known at the first read: if code is
 * about to become a run (its writer has flushed, but not yet released `in`), the read
 * waits for that first.
 *
 * Below runs/N/ the same nodes never wait; only `wait` does.
 *
 * The size is exact once the run has ended. Until then the waiting nodes show 0, not the present size:
 * a program that reads as many bytes as st_size would otherwise stop short (as node's readFileSync
 * does). Those of runs/N/ show the present size.
 *
 * But copying programs take a size of 0 for an empty file, without a single read. So while a waiting node
 * of unknown size is open, the size shown is larger than any output can be: programs that read to the end work,
 * and programs that expect that many bytes fail, instead of making an empty copy. Such an open file is not seekable,
 * or programs would look for its end there, and sendfile(2) would stop at the end of the page cache.
 */

extern const struct handle_ops stream_ops;	/* output, at the top */
extern const struct handle_ops run_stream_ops;	/* output, below runs/N/ */
extern const struct handle_ops status_wait_ops; /* exit_code at the top, runs/N/wait */

/* The sizes of these nodes. */
int stream_size(const struct node *n, uint64_t *ret_size);
int run_stream_size(const struct node *n, uint64_t *ret_size);
int status_wait_size(const struct node *n, uint64_t *ret_size);

/* "0\n"; @r has a status. Return: its length. */
size_t stream_status_text(const struct run *r, char text[8]);

#endif
