/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner may start: fixed by the configuration before the spawner is forked, and never
 * changed. */
#ifndef XSBX_VM_ORDER_POLICY_H
#define XSBX_VM_ORDER_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "order.h"
#include "vm/base/digest.h"

struct sandbox_spec;
struct vm_config;
struct vm_path;

/* Paths of the host that a template makes visible; what shows nothing is none, and has no number. Which image's programs there are
 * is no part of it: each image may be used, and they come and go while the mount is there. */
struct policy_view {
	const struct vm_path *path;
	size_t npaths;
	const char *work; /* or NULL */
};

struct policy_config {
	const struct vm_config *vm;
	const char *state_dir, *spool_dir; /* where the daemon writes, besides; or NULL */
	/* Of a sandbox; 0: no limit below the built-in one. */
	unsigned max_memory_mb, max_cpus, max_processes;
	bool others; /* users other than the mounting one have sessions */
	const struct policy_view *view;
	size_t nviews;
};

struct policy;

/* Creates the daemon's own directories in the cache, for others to read with @publish. Call it before
 * policy_new(), which resolves symbolic links in their paths: later, none is followed any more. */
void policy_prepare(const char *cache_dir, bool publish);

/* Copies what it needs, and locates the programs. Return: 0 or -ENOMEM. */
int policy_new(const struct policy_config *cfg, struct policy **ret_policy);
void policy_free(struct policy *p);

/**
 * policy_find_view() - Find the number of a view, for an order
 * @p: Policy
 * @spec: What a sandbox is to see; NULL: nothing
 *
 * Return: enum order_view, or -ENOENT if no template has it.
 */
int policy_find_view(const struct policy *p, const struct sandbox_spec *spec);

/* Called in the spawner when it begins: what secrets came by the environment is nowhere else from then on. @policy: struct
 * policy. */
void policy_settle(const void *policy);

/* Wipes these values, in a process that needs no spawner. */
void policy_forget(struct policy *p);

/* A checksum of what it permits: views have the same numbers in policies of which it is the same.
 * Return: 0 or -ENOMEM. */
int policy_sum(const struct policy *p, char ret_sum[DIGEST_HEX]);

#endif
