/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on what user code may store. */
#ifndef XSBX_AGENT_GUEST_QUOTA_H
#define XSBX_AGENT_GUEST_QUOTA_H

#include <stdint.h>

struct guest_env;

/**
 * quota_set() - Set the limits of the file systems that user code can write to
 * @env: Where they are; nothing is done outside a guest
 * @files_bytes: Working directory; 0: half of the memory
 * @tmp_bytes: /tmp, and as much again for /dev/shm; 0: half of the memory
 * @files_inodes: Files in the working directory; 0: a default
 * @tmp_inodes: Files in each of the others
 *
 * Return: 0 or -errno.
 */
int quota_set(const struct guest_env *env, uint64_t files_bytes, uint64_t tmp_bytes,
	      uint32_t files_inodes, uint32_t tmp_inodes);

/**
 * quota_wipe() - Empty /tmp and /dev/shm, because memory is exhausted
 * @env: Where they are; does nothing outside a guest
 */
void quota_wipe(const struct guest_env *env);

#endif
