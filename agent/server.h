/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatches frames from the host. */
#ifndef XSBX_AGENT_SERVER_H
#define XSBX_AGENT_SERVER_H

struct agent;

/**
 * server_run() - Serve the host until the end
 * @a: From agent_init()
 *
 * Return: 0 after SHUTDOWN, the end of a local connection or a signal; -EPROTO if the host violated
 * the protocol; or another -errno.
 */
int server_run(struct agent *a);

#endif
