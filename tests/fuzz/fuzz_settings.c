/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parser of `config`: what it takes must come back the same through its own text. */
/* modules: fs/config/settings.c fs/config/key.c fs/config/value.c vm/base/upstream.c vm/base/spec.c vm/base/exact.c fs/config/paths.c vm/base/path.c fs/config/network.c fs/config/ruleset.c vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/words.c vm/base/secret_use.c vm/base/secret_list.c vm/base/problem.c vm/base/buf.c vm/net/allow_check.c fs/config/entry.c fs/config/words.c */
/* modules: vm/base/allow.c vm/base/address.c */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs/config/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Renders @s, reads that back, and wants the same settings and the same text. */
static void check_round_trip(const struct settings *s)
{
	static const struct settings_limits none;
	struct buf text = {0}, text2 = {0};
	struct problem why = {.code = PROBLEM_NONE};
	struct settings_key key;
	struct settings again;

	assert(settings_render(s, &text) == 0);
	assert(text.len <= SETTINGS_TEXT_MAX);
	assert(settings_init(&again) == 0);
	assert(settings_parse(&again, text.data, text.len, 0, &none, &why) == 0);
	assert(!settings_frozen_change(s, &again, &key));
	assert(settings_render(&again, &text2) == 0);
	assert(text.len == text2.len && memcmp(text.data, text2.data, text.len) == 0);
	settings_clear(&again);
	buf_clear(&text);
	buf_clear(&text2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char most[] = "*.example.org 10.0.0.1:9";
	static const struct settings_limits none;
	const struct settings_limits some = {.max_memory_mb = 256,
					     .max_cpus = 2,
					     .max_timeout_s = 60,
					     .max_idle_timeout_s = 60,
					     .max_allow = most};
	struct problem why = {.code = PROBLEM_NONE};
	struct buf before = {0}, after = {0};
	struct settings s;
	int r;

	assert(settings_init(&s) == 0);
	assert(settings_render(&s, &before) == 0);
	r = settings_parse(&s, (const char *)data, size, 0, size % 2 ? &some : &none, &why);
	assert(r == 0 || r == -EINVAL);
	if (r == 0) {
		check_round_trip(&s);
	} else {
		assert(why.code && *why.cause && *why.fix);
		assert(settings_render(&s, &after) == 0);
		assert(before.len == after.len && memcmp(before.data, after.data, after.len) == 0);
	}
	settings_clear(&s);
	buf_clear(&before);
	buf_clear(&after);
	return 0;
}
