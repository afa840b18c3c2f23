/* SPDX-License-Identifier: Apache-2.0 */
/* A seccomp filter for user code, made by hand: the agent has no library for it. */
#ifndef XSBX_AGENT_CORE_FILTER_H
#define XSBX_AGENT_CORE_FILTER_H

#define FILTER_AGENT 0x01u /* what is done to the agent as to a process of the same user */
#define FILTER_KERNEL \
	0x02u /* what a guest's kernel should not be asked; a jail has a filter for that */
#define FILTER_FILTERS 0x04u /* filters beside this one */
#define FILTER_LIMITS  0x08u /* limits of others, who may be a thread of the agent's */

/**
 * filter_confine() - Refuse system calls to this process and all that come from it, for ever
 * @what: Which, bits of FILTER_*
 *
 * Needs no_new_privs. Return: 0, or -1 with errno.
 */
int filter_confine(unsigned what);

#endif
