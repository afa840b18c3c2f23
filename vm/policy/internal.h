/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the policy share. */
#ifndef XSBX_VM_POLICY_INTERNAL_H
#define XSBX_VM_POLICY_INTERNAL_H

#include <limits.h>

#include "policy.h"
#include "vm/spawn/server.h"
#include "vm/base/util.h"
#include "vm/vm.h"

#define POLICY_PLACES_MAX 64u

/* A view with strings of its own. */
struct sealed_view {
	struct vm_path path[VM_PATHS_MAX];
	size_t npaths;
	char *work, *image;
	bool writes;		  /* something of the host, by `rw` or `work` */
	bool roots, roots_groups; /* all that it writes to belongs to root, to root's group */
};

/* Paths are absolute. "": there is no such program, or it is not wanted. */
struct policy {
	struct order_limits most;
	bool others, mitigate;
	char qemu[PATH_MAX], agent[PATH_MAX], store[PATH_MAX], builder[PATH_MAX], prepare[PATH_MAX];
	char cache[PATH_MAX], images[PATH_MAX], layers[PATH_MAX], runtime[PATH_MAX];
	char *ca, *offline;   /* or NULL */
	uint64_t layer_bytes; /* most of all layers; 0: no limit */
	char *store_url, *store_region;
	unsigned store_timeout_s;
	bool store_read, store_write;
	char *python_index, *python_hosts, *npm_registry, *npm_hosts; /* or NULL */
	char *place[POLICY_PLACES_MAX]; /* beside `images`, where images lay at the start */
	size_t nplaces;
	struct sealed_view *view;
	size_t nviews;
};

/* Adds an argument or a variable; the string has to stay. */
void policy_arg(struct spawn_job *job, const char *arg);
void policy_env(struct spawn_job *job, const char *variable);

/* Likewise, made up; kept until the next job. */
const char *policy_text(struct spawn_job *job, const char *fmt, ...) printf_like(2, 3);

/**
 * policy_tree() - Where an image's files are, unpacked
 * @p: Policy
 * @image: Name
 * @ret_path: Result, without links
 *
 * Return: 0, -ENOENT if they are not there, -EPERM if that is not where images lie.
 */
int policy_tree(const struct policy *p, const char *image, char ret_path[PATH_MAX]);

/* ---- tool.c: programs without a jail of the spawner's making ---- */

/**
 * policy_find_tool() - Find the program that installs packages for the host's interpreters
 * @p: Policy
 * @language: enum order_language
 * @ret_path: Where it really lies: on the host, or, where that has none, in the image of the language
 *
 * Return: 0, -ENOENT if there is none, -EPERM if the image's leads out of the image.
 */
int policy_find_tool(const struct policy *p, uint32_t language, char ret_path[PATH_MAX]);

int policy_store(const struct policy *p, const struct order_store *o, struct spawn_job *job);
int policy_image(const struct policy *p, const struct order_image *o, struct spawn_job *job);
int policy_packages(const struct policy *p, const struct order_packages *o, struct spawn_job *job);

/* ---- tests/unit/fixture/backend_local.c, only in the daemon for tests ---- */

int local_job(const struct policy *p, const struct order_local *o, struct spawn_job *job);

#endif
