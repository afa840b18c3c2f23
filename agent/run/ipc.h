/* SPDX-License-Identifier: Apache-2.0 */
/* What System V's calls made and nobody removed. */
#ifndef XSBX_AGENT_RUN_IPC_H
#define XSBX_AGENT_RUN_IPC_H

/**
 * ipc_clear() - Remove all segments, queues and semaphores of this IPC namespace
 *
 * They outlive the processes that made them, with the memory they take. Only for an agent whose
 * namespace it is.
 */
void ipc_clear(void);

#endif
