/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parser of a job's `config`: what it takes must come back the same through its own text. */
/* modules: fs/config/job.c fs/config/words.c fs/config/settings.c fs/config/key.c fs/config/value.c vm/base/upstream.c vm/base/spec.c fs/config/paths.c vm/base/path.c fs/config/network.c fs/config/ruleset.c vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/words.c vm/base/secret_use.c vm/base/secret_list.c vm/base/problem.c vm/base/buf.c vm/net/allow_check.c fs/config/entry.c vm/base/exact.c */
/* modules: vm/base/allow.c vm/base/address.c */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs/config/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const languages[] = {"python", NULL};
static const struct settings session = {.timeout_s = 30};

static void check_words(const struct buf *words)
{
	assert(!words->len || !words->data[words->len - 1]);
	assert(words->len <= JOB_ARGV_MAX);
}

/* Renders @js, reads that back, and wants the same settings and the same text. */
static void check_round_trip(const struct job_settings *js)
{
	static const struct settings_limits none;
	struct buf text = {0}, text2 = {0};
	struct problem why = {.code = PROBLEM_NONE};
	struct job_settings again;
	const char *key;

	assert(job_settings_render(js, &text) == 0);
	assert(text.len <= JOB_TEXT_MAX);
	assert(job_settings_init(&again, &session) == 0);
	assert(job_settings_parse(&again, text.data, text.len, 0, &none, languages, &why) == 0);
	assert(!job_settings_frozen_change(js, &again, &key));
	assert(job_settings_render(&again, &text2) == 0);
	assert(text.len == text2.len && memcmp(text.data, text2.data, text.len) == 0);
	job_settings_clear(&again);
	buf_clear(&text);
	buf_clear(&text2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct settings_limits none;
	const struct settings_limits some = {.max_timeout_s = 60};
	struct problem why = {.code = PROBLEM_NONE};
	struct buf before = {0}, after = {0};
	struct job_settings js;
	int r;

	assert(job_settings_init(&js, &session) == 0);
	assert(job_settings_render(&js, &before) == 0);
	r = job_settings_parse(&js, (const char *)data, size, 0, size % 2 ? &some : &none,
			       languages, &why);
	assert(r == 0 || r == -EINVAL);
	check_words(&js.argv);
	check_words(&js.env);
	if (r == 0) {
		check_round_trip(&js);
	} else {
		assert(why.code && *why.cause && *why.fix);
		assert(job_settings_render(&js, &after) == 0);
		assert(before.len == after.len && memcmp(before.data, after.data, after.len) == 0);
	}
	job_settings_clear(&js);
	buf_clear(&before);
	buf_clear(&after);
	return 0;
}
