/* SPDX-License-Identifier: Apache-2.0 */
/* Left-over System V IPC objects. */
#ifndef XSBX_AGENT_RUN_IPC_H
#define XSBX_AGENT_RUN_IPC_H

/**
 * ipc_clear() - Remove all segments, queues and semaphores of this IPC namespace
 *
 * They outlive the processes that made them, with the memory they take. Only for an agent that owns
 * the namespace.
 */
void ipc_clear(void);

#endif
