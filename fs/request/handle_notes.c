/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles: which of them have changed, and are to be written down anew. */
#include "handle.h"
#include "vm/base/util.h"

void handle_touch(struct handle *h)
{
	if (h->all->touched)
		touched_add(h->all->touched, TOUCHED_HANDLE, &h->record.touch);
}

void handle_rewrite(struct handle *h, size_t offset)
{
	h->record.same = MIN(h->record.same, offset);
	handle_touch(h);
}
