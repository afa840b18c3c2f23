/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory. */
#ifndef XSBX_VM_BASE_MEMORY_H
#define XSBX_VM_BASE_MEMORY_H

#include <stdbool.h>

/* @name: for who looks into /proc. Return: a descriptor of an empty one, or -errno. */
int memory_new(const char *name);

/* Nobody changes it any more. Return: 0; -EBUSY if somebody has mapped it to write; or -errno. */
int memory_seal(int fd);

/* Is it one that nobody can change? Whoever gave us this descriptor may say what he wants. */
bool memory_is_sealed(int fd);

#endif
