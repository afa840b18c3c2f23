/* SPDX-License-Identifier: Apache-2.0 */
/* A problem as a field of a record. */
#ifndef XSBX_VM_BASE_PROBLEM_RECORD_H
#define XSBX_VM_BASE_PROBLEM_RECORD_H

#include "problem.h"
#include "record.h"

/* Appends it, unless there is none. */
void problem_put(struct buf *out, unsigned tag, const struct problem *p);

/* Return: 0, or -EBADMSG with nothing stored. */
int problem_get(const struct record_field *f, struct problem *ret_p);

#endif
