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

/* ---- tests/unit/fixture/backend_local.c, only in the daemon for tests ---- */

int local_job(const struct policy *p, const struct order_local *o, struct spawn_job *job);

#endif
