/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the allow list: what it accepts, it finds again. */
/* modules: vm/base/allow.c */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "vm/base/allow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[128] = "", below[ALLOW_NAME_MAX + 8];
	struct allow a;

	if (allow_parse((const char *)data, size, &a, why) < 0) {
		assert(why[0] && strlen(why) < sizeof(why));
		return 0;
	}
	for (size_t i = 0; i < a.nentries; i++) {
		const struct allow_entry *e = &a.entries[i];
		const uint16_t port = e->port ? e->port : 443;

		if (e->kind == ALLOW_NAME)
			assert(allow_name(&a, e->name, port) != ALLOW_REFUSED);
		if (e->kind == ALLOW_ADDRESS)
			assert(allow_literal(&a, e->address, port));
		if (e->kind == ALLOW_ALL)
			assert(allow_everything(&a, port));
		if (e->kind != ALLOW_BELOW)
			continue;
		snprintf(below, sizeof(below), "x.%s", e->name);
		assert(allow_name(&a, below, port) != ALLOW_REFUSED);
	}
	allow_fini(&a);
	return 0;
}
