/* SPDX-License-Identifier: Apache-2.0 */
/* Code that user code is to execute, in a file without a name that nobody can change. */
#ifndef XSBX_AGENT_CORE_CODE_H
#define XSBX_AGENT_CORE_CODE_H

#include "agent/protocol.h"

/** code_new() - Make an empty one. Return: a descriptor, or -1 with errno. */
int code_new(void);

/**
 * code_seal() - Put the code in, for ever
 * @fd: Of code_new()
 * @code: Its content
 *
 * Return: 0 or -errno; @fd stays the caller's.
 */
int code_seal(int fd, struct proto_str code);

/**
 * code_put() - Put something before it
 * @fd: Of code_new(), empty
 * @before: What; the code goes behind it
 *
 * Return: 0 or -errno.
 */
int code_put(int fd, struct proto_str before);

#endif
