/* SPDX-License-Identifier: Apache-2.0 */
/* From an order to what is done for it. */
#ifndef XSBX_VM_POLICY_JOB_H
#define XSBX_VM_POLICY_JOB_H

#include <stddef.h>

struct spawn_job;

/**
 * policy_job() - In the spawner: what is to be done for an order, if it is allowed
 * @policy: struct policy
 * @order: Bytes from the daemon
 * @len: How many
 * @nfds: How many descriptors came with them
 * @ret_job: Filled in, but for the descriptors; its strings are good until the next call
 *
 * Return: 0, -EBADMSG if it is no order, -EPERM if it is not allowed, -ENOENT if what it needs is not
 * there, or -errno.
 */
int policy_job(const void *policy, const void *order, size_t len, size_t nfds,
	       struct spawn_job *ret_job);

#endif
