/* SPDX-License-Identifier: Apache-2.0 */
/* How much user code may store. */
#ifndef XSBX_AGENT_GUEST_QUOTA_H
#define XSBX_AGENT_GUEST_QUOTA_H

#include <stdint.h>

struct guest_env;

/**
 * quota_set() - Set the limits of the file systems user code can write to
 * @env: Where they are; nothing is done outside a guest
 * @files_bytes: Working directory; 0: half of the memory
 * @tmp_bytes: /tmp, and as much again for /dev/shm; 0: half of the memory
 * @files_inodes: Files in the one; 0: a default
 * @tmp_inodes: In each of the others
 *
 * Return: 0 or -errno.
 */
int quota_set(const struct guest_env *env, uint64_t files_bytes, uint64_t tmp_bytes,
	      uint32_t files_inodes, uint32_t tmp_inodes);

/**
 * quota_wipe() - Remove what is in /tmp and /dev/shm, because it takes memory that nobody has
 * @env: Where they are; nothing is done outside a guest
 */
void quota_wipe(const struct guest_env *env);

#endif
