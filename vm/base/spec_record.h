/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's specification in a record. */
#ifndef XSBX_VM_BASE_SPEC_RECORD_H
#define XSBX_VM_BASE_SPEC_RECORD_H

#include "record.h"
#include "spec.h"

/* Appends its fields, but for what only an installer's has, what it began from, and what is its template's. */
void spec_put(const struct sandbox_spec *s, struct buf *out);

/**
 * spec_take() - Make a spec of fields
 * @r: Fields
 * @dst: Result, as spec_copy() makes it; unchanged on failure
 *
 * Return: 0, -EBADMSG, or as spec_copy().
 */
int spec_take(struct record_reader r, struct sandbox_spec *dst);

#endif
