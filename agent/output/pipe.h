/* SPDX-License-Identifier: Apache-2.0 */
/* Private to outputs: pipes between the agent and user code. */
#ifndef XSBX_AGENT_OUTPUT_PIPE_H
#define XSBX_AGENT_OUTPUT_PIPE_H

struct guest_env;

/**
 * pipe_make() - Make one
 * @env: Its user will own it
 * @ours: 0 or 1: the agent's end, which never blocks
 * @ret_fds: Its ends
 *
 * Return: 0 or -errno.
 */
int pipe_make(const struct guest_env *env, int ours, int ret_fds[2]);

#endif
