/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles: which of them have changed, and are to be written down anew. */
#include "handle.h"
#include "vm/base/turn.h"
#include "vm/base/util.h"

void handle_touch(struct handle *h)
{
	struct handles *hs = h->all;

	if (h->record.touched || !turn_is_on(hs->turn))
		return;
	h->record.touched = true;
	TAILQ_INSERT_TAIL(&hs->touched, h, record.link);
	turn_due(hs->turn);
}

void handle_rewrite(struct handle *h, size_t offset)
{
	h->record.same = MIN(h->record.same, offset);
	handle_touch(h);
}
