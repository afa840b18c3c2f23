/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner may start: settled by the configuration before there is a spawner, and never changed. */
#ifndef XSBX_VM_POLICY_POLICY_H
#define XSBX_VM_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vm/spawn/order.h"

struct spawn_job;
struct view;
struct vm_config;
struct vm_path;

/* Paths of the host that a template shows. */
struct policy_view {
	const struct vm_path *path;
	size_t npaths;
	const char *work;  /* or NULL */
	const char *image; /* whose programs are seen instead of the host's, or NULL */
};

struct policy_config {
	const struct vm_config *vm;
	unsigned max_memory_mb, max_cpus,
		max_processes; /* of a sandbox; 0: as much as can be asked for */
	bool others;	       /* users other than the one who mounts have sessions */
	const struct policy_view *view;
	size_t nviews;
};

struct policy;

/* Makes what the daemon has of its own in the cache. To be called before policy_new(), which looks where that
 * really lies, through whatever links there are on the way: later, none is followed any more. */
void policy_prepare(const char *cache_dir);

/* Copies what it needs, and finds the programs. Return: 0 or -ENOMEM. */
int policy_new(const struct policy_config *cfg, struct policy **ret_policy);
void policy_free(struct policy *p);

/**
 * policy_find_view() - The number of a view, for an order
 * @p: Policy
 * @v: What a sandbox is to see
 * @image: Its image
 *
 * Return: enum order_view, or -ENOENT if no template has such a one.
 */
int policy_find_view(const struct policy *p, const struct view *v, const char *image);

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
