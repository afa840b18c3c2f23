/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes paths of requests: what is accepted has no dot segments left in either reading, and reads the same again. */
/* modules: vm/base/http_path.c */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "vm/base/http_path.h"
#include "vm/base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *reading)
{
	assert(reading[0] == '/' || !strcmp(reading, "*"));
	assert(!strstr(reading, "//") && !strstr(reading, "/../") && !strstr(reading, "/./"));
	for (size_t i = 0; reading[i]; i++)
		assert((unsigned char)reading[i] >= 0x20);
}

/* A path is a pattern, too, if there is nothing in it on which servers differ; then it fits itself. */
static void check_pattern(const char *text, size_t len, const struct http_path *path)
{
	static char plain[HTTP_PATTERN_PLAIN_SIZE(HTTP_PATTERN_MAX)];
	static char bare[HTTP_PATTERN_BARE_SIZE(HTTP_PATTERN_MAX)];

	if (len > HTTP_PATTERN_MAX || http_pattern_parse(text, len, plain, bare))
		return;
	assert(http_pattern_fits(plain, path->plain, false));
	assert(http_pattern_fits(bare, path->bare, false));
	assert(http_pattern_fits(plain, path->plain, true));
	assert(http_pattern_fits(bare, path->bare, true));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_path path, again;
	const char *const text = (const char *)data;
	const char *const query = size ? memchr(text, '?', size) : NULL;

	if (http_path_read(text, size, &path) < 0)
		return 0;
	check(path.plain);
	check(path.bare);
	assert(http_path_read(path.plain, strlen(path.plain), &again) == 0);
	assert(!strcmp(path.plain, again.plain) && !strcmp(path.bare, again.bare));
	check_pattern(text, query ? (size_t)(query - text) : size, &path);
	return 0;
}
