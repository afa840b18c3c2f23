/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the policy. */
#ifndef XSBX_VM_ORDER_POLICY_INTERNAL_H
#define XSBX_VM_ORDER_POLICY_INTERNAL_H

#include <limits.h>

#include "policy.h"
#include "vm/base/util.h"
#include "vm/base/config.h"
#include "vm/base/spec.h"

#define POLICY_PLACES_MAX 64u

/* A view with strings of its own. */
struct sealed_view {
	struct vm_path path[VM_PATHS_MAX];
	size_t npaths;
	char *work;
	bool writes;		  /* it can write to the host, by `rw` or `work` */
	bool roots, roots_groups; /* all of that belongs to root, to root's group */
};

/* What a variable had: its place in `values`, with its zero. */
struct sealed_value {
	size_t at, len;
};

/* Paths are absolute. "": the program was not found, or is not wanted. */
struct policy {
	struct order_limits most;
	bool others, mitigate;
	char qemu[PATH_MAX], agent[PATH_MAX], store[PATH_MAX], trace[PATH_MAX], builder[PATH_MAX],
		prepare[PATH_MAX];
	char cache[PATH_MAX], images[PATH_MAX], layers[PATH_MAX], runtime[PATH_MAX];
	char *shared;	      /* what root has made for all, looked at when it is used; or NULL */
	char *ca, *offline;   /* or NULL */
	char *key_command;    /* likewise */
	uint64_t layer_bytes; /* limit for all layers together; 0: none */
	char *store_url, *store_region;
	char *trace_url;
	char *upstream; /* or NULL */
	unsigned store_timeout_s;
	bool store_read, store_write;
	char *python_index, *python_hosts, *npm_registry, *npm_hosts; /* or NULL */
	char *place[POLICY_PLACES_MAX]; /* besides `images`, where images were at the start */
	size_t nplaces;
	struct sealed_view *view;
	size_t nviews;
	char state[PATH_MAX], spool[PATH_MAX];
	struct vm_secrets secrets;  /* the administrator's */
	struct sealed_value *value; /* of each, in `values` */
	char *values;		    /* a mapping; or NULL */
	size_t values_size, values_used;
};

/* policy_secrets.c. The values of variables are taken out of the environment. */
void policy_seal_secrets(struct policy *p, const struct vm_secrets *from, bool *bad);
void policy_free_secrets(struct policy *p);

/* The administrator's secret of this name, or NULL. @ret_value: of one that came by the environment; or NULL. */
const struct vm_secret *policy_secret(const struct policy *p, const char *name,
				      const char **ret_value);

/**
 * policy_layer() - Find the files of a layer
 * @p: Policy
 * @key: Its key
 * @ret_path: Result: in the user's own cache, or of the shared directory if it is trusted
 */
void policy_layer(const struct policy *p, const char *key, char ret_path[PATH_MAX]);

/**
 * policy_tree() - Find the unpacked files of an image
 * @p: Policy
 * @image: Name
 * @ret_path: Result, without links
 *
 * Return: 0, -ENOENT if there are none, -EPERM if they are not in a directory for images.
 */
int policy_tree(const struct policy *p, const char *image, char ret_path[PATH_MAX]);

#endif
