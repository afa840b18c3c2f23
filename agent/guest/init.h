/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1 of a guest: sets the machine up, from the first program to a running agent. */
#ifndef XSBX_AGENT_GUEST_INIT_H
#define XSBX_AGENT_GUEST_INIT_H

struct guest_env;

/**
 * init_guest() - Load modules, mount everything, lock down, find the host's port
 * @ret_env: Filled in
 * @ret_step: On failure, what failed, as a static string
 *
 * Return: descriptor of the port, or -errno.
 */
int init_guest(struct guest_env *ret_env, const char **ret_step);

/** init_reboot() - End the machine. */
void init_reboot(void) __attribute__((noreturn));

#endif
