/* SPDX-License-Identifier: Apache-2.0 */
/* What the files share that make jobs of orders. */
#ifndef XSBX_VM_POLICY_INTERNAL_H
#define XSBX_VM_POLICY_INTERNAL_H

#include "job.h"
#include "vm/spawn/policy_internal.h"
#include "vm/spawn/server.h"

/* Adds an argument or a variable; the string has to stay. */
void policy_arg(struct spawn_job *job, const char *arg);
void policy_env(struct spawn_job *job, const char *variable);

/* Likewise, made up; kept until the next job. */
const char *policy_text(struct spawn_job *job, const char *fmt, ...) printf_like(2, 3);

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
