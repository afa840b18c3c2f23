/* SPDX-License-Identifier: Apache-2.0 */
/* A seccomp filter for user code, made by hand: the agent has no library for it. */
#ifndef XSBX_AGENT_FILTER_H
#define XSBX_AGENT_FILTER_H

#include <stdbool.h>

/**
 * filter_confine() - Refuse system calls to this process and all that come from it, for ever
 * @guest: Also what the kernel of a guest should not be asked; a jail has a filter of its own for that
 *
 * Needs no_new_privs. Return: 0, or -1 with errno.
 */
int filter_confine(bool guest);

#endif
