/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of other processes, whose calls the kernel tells us of. */
#ifndef XSBX_AGENT_CORE_REACH_H
#define XSBX_AGENT_CORE_REACH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * reach_read() - Read another process's memory
 * @pid: One of its threads, which must be known to stay what it is
 * @at: Address there
 * @bytes: Where to put it
 * @len: How much
 *
 * An interpreter lets nobody open its memory as a file who is not root (PR_SET_DUMPABLE), which in an ordinary user's jail nobody
 * is; by process_vm_readv(2) CAP_SYS_PTRACE is enough. User code has neither.
 *
 * Return: how much, as far as it is mapped; 0 if nothing is; -1 if we may not.
 */
ssize_t reach_read(pid_t pid, uint64_t at, void *bytes, size_t len);

/* Likewise, writes it. */
ssize_t reach_write(pid_t pid, uint64_t at, const void *bytes, size_t len);

#endif
