/* SPDX-License-Identifier: Apache-2.0 */
/* A template and the store that hosts share: its snapshot is fetched from there, and offered. */
#include <string.h>

#include "vm/build/store_client.h"
#include "template.h"
#include "vm/host/tsc.h"
#include "vm/vm_internal.h"

void template_offer(struct template *t)
{
	fetcher_put(&t->vm->fetcher, STORE_SNAPSHOT, t->key, t->snapshot.tsc_khz, t->damaged);
	t->asked = true;
}

/* What was not got is made here, as if there were no store. */
static void on_fetched(void *data, const char *key, enum store_end end, const char *why)
{
	struct template *t = data;

	(void)why;
	t->fetching = false;
	t->refs--;
	if (t->vm->ctx.closing)
		return;
	if (strcmp(key, t->key) == 0) {
		t->damaged = end == STORE_DAMAGED;
		if (end == STORE_DONE && t->state == TEMPLATE_NONE)
			t->state = TEMPLATE_UNKNOWN;
		t->fetched = end == STORE_DONE;
		template_load(t);
	}
	context_work(&t->vm->ctx);
}

bool template_fetch(struct template *t)
{
	if (t->fetching || t->asked)
		return t->fetching;
	t->asked = true;
	t->fetching = fetcher_get(
		&t->vm->fetcher, STORE_SNAPSHOT, t->key,
		strcmp(t->vm->backends.probe.accel, "kvm") == 0 ? 0 : tsc_khz(&t->vm->backends.tsc),
		t->vm->snapshot_bytes, on_fetched, t);
	if (t->fetching)
		t->refs++;
	return t->fetching;
}
