/* SPDX-License-Identifier: Apache-2.0 */
/* A template and the store that hosts share: its snapshot is fetched from there, and offered. */
#include <string.h>

#include "vm/build/store_client.h"
#include "pool.h"
#include "vm/host/tsc.h"

void template_offer(struct template *t)
{
	store_client_put(t->pool->store, STORE_SNAPSHOT, t->key, t->snapshot.tsc_khz, t->damaged);
	t->asked = true;
}

/* What was not got is made here, as if there were no store. */
static void on_fetched(void *data, const char *key, enum store_end end, const char *why)
{
	struct template *t = data;

	(void)why;
	t->fetching = false;
	t->refs--;
	if (t->pool->ctx->closing)
		return;
	if (strcmp(key, t->key) == 0) {
		t->damaged = end == STORE_DAMAGED;
		if (end == STORE_DONE && t->state == TEMPLATE_NONE)
			t->state = TEMPLATE_UNKNOWN;
		t->fetched = end == STORE_DONE;
		template_load(t);
	}
	context_work(t->pool->ctx);
}

bool template_fetch(struct template *t)
{
	if (t->fetching || t->asked)
		return t->fetching;
	t->asked = true;
	t->fetching = store_client_get(t->pool->store, STORE_SNAPSHOT, t->key,
				       strcmp(t->pool->backends->probe.accel, "kvm") == 0
					       ? 0
					       : tsc_khz(&t->pool->backends->tsc),
				       t->pool->snapshot_bytes, on_fetched, t);
	if (t->fetching)
		t->refs++;
	return t->fetching;
}
