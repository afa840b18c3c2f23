/* SPDX-License-Identifier: Apache-2.0 */
/* What a server says on a connection with secrets, cut anywhere: nothing of a value passes, and nothing depends on the cuts. */
/* modules: vm/net/filter/redact.c vm/net/filter/secret_value.c vm/base/buf.c */
/* libs: crypto */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/buf.h"
#include "vm/net/filter/redact.h"
#include "vm/net/filter/secret_value.h"

/* The first byte: how long the first value is, which follows; then that of the second; then cuts and text. */

static void emit(void *data, const void *bytes, size_t len)
{
	if (buf_append(data, bytes, len) < 0)
		abort();
}

static void add(struct redact_set *set, const uint8_t **at, size_t *len)
{
	const size_t n = *len ? (*at)[0] % 64 : 0;
	struct secret_value *v;

	if (*len < n + 1)
		return;
	if (secret_value_new("fuzz", *at + 1, n, &v) == 0) {
		if (redact_set_add(set, v) < 0)
			abort();
		secret_value_unref(v);
	}
	*at += n + 1;
	*len -= n + 1;
}

/* In pieces of @step; 0: of what the text says. */
static void run(const struct redact_set *set, const uint8_t *text, size_t len, size_t step,
		struct buf *out)
{
	struct redact r = {.set = set, .emit = emit, .data = out};

	for (size_t at = 0; at < len;) {
		const size_t n = MIN(step ? step : text[at] % 17 + 1u, len - at);

		if (redact_feed(&r, text + at, n) < 0)
			abort();
		at += n;
	}
	redact_finish(&r);
	redact_fini(&r);
	if (out->len != len)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct redact_set set = {0};
	struct buf one = {0}, whole = {0}, odd = {0};

	add(&set, &data, &size);
	add(&set, &data, &size);
	run(&set, data, size, 1, &one);
	run(&set, data, size, 100000, &whole);
	run(&set, data, size, 0, &odd);
	if (size &&
	    (memcmp(one.data, whole.data, size) != 0 || memcmp(odd.data, whole.data, size) != 0))
		abort();
	for (unsigned i = 0; i < set.n; i++) {
		const struct secret_form *f = &set.value[i]->form[0];
		static const char label[] = "xsbx-secret-fuzz*";

		/* A label, and what is beside one, may happen to be a value. */
		if (f->len <= size && !strchr(label, f->bytes[0]) &&
		    !strchr(label, f->bytes[f->len - 1]) &&
		    memmem(whole.data, size, f->bytes, f->len))
			abort();
	}
	redact_set_fini(&set);
	buf_clear(&one);
	buf_clear(&whole);
	buf_clear(&odd);
	return 0;
}
