/* SPDX-License-Identifier: Apache-2.0 */
/* Turns an order into a job. */
#ifndef XSBX_VM_POLICY_JOB_H
#define XSBX_VM_POLICY_JOB_H

#include <stddef.h>

#include "vm/base/util.h"

struct order_local;
struct order_secret;
struct policy;
struct spawn_job;

/**
 * policy_job() - In the spawner: make the job of an order, if it is allowed
 * @policy: struct policy
 * @order: Bytes from the daemon
 * @len: Number of bytes
 * @nfds: Number of descriptors that came with them
 * @ret_job: Filled in, except the descriptors; its strings are valid until the next call
 *
 * Return: 0, -EBADMSG if it is malformed, -EPERM if it is not allowed, -ENOENT if something it needs is
 * missing, or -errno.
 */
int policy_job(const void *policy, const void *order, size_t len, size_t nfds,
	       struct spawn_job *ret_job);

/* ---- for those that make jobs ---- */

int secret_job(const struct policy *p, const struct order_secret *o, struct spawn_job *job);

/* Adds arguments, up to NULL, or a variable; the strings have to stay. */
void policy_add_args(struct spawn_job *job, const char *const *args);
#define policy_args(job, ...) policy_add_args(job, (const char *const[]){__VA_ARGS__, NULL})
void policy_env(struct spawn_job *job, const char *variable);

/* A string for these, made up; kept until the next job. */
const char *policy_text(const char *fmt, ...) printf_like(1, 2);

/* tests/unit/fixture/backend_local.c, only in the daemon for tests */
int local_job(const struct policy *p, const struct order_local *o, struct spawn_job *job);

#endif
