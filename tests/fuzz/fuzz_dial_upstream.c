/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what an upstream proxy answers, in pieces: however it is cut, it is the same, and what is behind it is left. */
/* modules: vm/net/dial/upstream.c vm/base/upstream.c */
/* libs: http_parser */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/upstream.h"
#include "vm/net/dial/upstream.h"
#include "vm/base/net_reason.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In pieces of @piece bytes. Return: what upstream_hear() says last; @ret_used: of all. */
static int hear(struct upstream *u, const char *bytes, size_t len, size_t piece, size_t *ret_used)
{
	int r = -EAGAIN;

	*ret_used = 0;
	upstream_init(u);
	while (r == -EAGAIN && *ret_used < len) {
		const size_t left = len - *ret_used;
		const size_t part = piece < left ? piece : left;
		size_t used;

		r = upstream_hear(u, bytes + *ret_used, part, &used);
		assert(used <= part && (r != -EAGAIN || used == part));
		*ret_used += used;
	}
	return r;
}

/* An input is the size of a piece, and an answer; or a URL. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct upstream whole, cut;
	struct upstream_proxy proxy;
	size_t used_whole, used_cut;
	char *text;
	int r;

	if (size < 2)
		return 0;
	r = hear(&whole, (const char *)data + 1, size - 1, size, &used_whole);
	if (r == 0) {
		assert(whole.status == 101 || whole.status >= 200);
		r = hear(&cut, (const char *)data + 1, size - 1, data[0] % 64 + 1u, &used_cut);
		assert(r == 0 && used_cut == used_whole && cut.status == whole.status);
		assert(upstream_reason(whole.status) < NET_NREASONS);
	}
	text = strndup((const char *)data + 1, size - 1);
	assert(text);
	if (upstream_parse(text, &proxy) == 0)
		assert(*proxy.host && proxy.port && !strpbrk(proxy.host, "\r\n :/@"));
	free(text);
	return 0;
}
