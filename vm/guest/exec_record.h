/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and jobs in a record. */
#ifndef XSBX_VM_GUEST_EXEC_RECORD_H
#define XSBX_VM_GUEST_EXEC_RECORD_H

#include "vm/base/record.h"

struct guest;
struct record_field;

/* Each appends fields under a tag of the caller's, if there is something: the run; each job. */
void exec_put(const struct guest *g, struct buf *out, unsigned tag);
void jobs_put(const struct guest *g, struct buf *out, unsigned tag);

/* Takes such a field. Return: 0, -EBADMSG or -ENOMEM. */
int exec_take(struct guest *g, const struct record_field *f);
int job_take(struct guest *g, const struct record_field *f);

#endif
