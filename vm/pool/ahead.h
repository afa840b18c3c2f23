/* SPDX-License-Identifier: Apache-2.0 */
/* Which packages a template's snapshot is to have imported. */
#ifndef XSBX_VM_POOL_AHEAD_H
#define XSBX_VM_POOL_AHEAD_H

#include <stdbool.h>

#include "vm/base/buf.h"
#include "vm/base/spec.h"

/* All zeroes: nothing has failed. */
struct ahead {
	struct buf without; /* names of packages whose import failed, one a line */
	unsigned nfailed;
	bool off; /* none are imported */
	struct buf list;
};

/**
 * ahead_list() - The packages to be imported: those that @spec names, but for those that failed
 * @a: Of its template
 *
 * Return: their names, one a line, "" for none, valid until the next call; NULL without memory.
 */
const char *ahead_list(struct ahead *a, const struct sandbox_spec *spec);

/* An import has failed: that of @culprit, or of nobody knows which if that is "". */
void ahead_failed(struct ahead *a, const char *culprit);

void ahead_clear(struct ahead *a);

#endif
