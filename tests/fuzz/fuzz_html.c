/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes text of HTML: whatever is shown, a browser finds nothing in it but text, in UTF-8, and no more than there may be. */
/* modules: fs/tree/html.c vm/base/buf.c */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "fs/tree/html.h"
#include "vm/base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The references that there may be. */
static size_t reference(const char *s, size_t len)
{
	static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const size_t n = strlen(known[i]);

		if (n <= len && memcmp(s, known[i], n) == 0)
			return n;
	}
	return 0;
}

/* A character of more than one byte, none of those that are not seen or turn others around. */
static size_t character(const unsigned char *s, size_t len)
{
	const size_t n = *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;
	uint32_t c = *s & (0x7fu >> n);

	assert(n && n <= len);
	for (size_t i = 1; i < n; i++) {
		assert((s[i] & 0xc0) == 0x80);
		c = c << 6 | (s[i] & 0x3f);
	}
	assert(c >= (n == 2 ? 0xa0u : n == 3 ? 0x800u : 0x10000u) && c <= 0x10ffff);
	assert((c < 0xd800 || c > 0xdfff) && (c < 0x2028 || c > 0x202e) &&
	       (c < 0x2066 || c > 0x2069));
	assert(c != 0x200e && c != 0x200f && c != 0x61c && c != 0xfeff && (c & 0xfffe) != 0xfffe);
	return n;
}

static void check(const struct buf *b, bool lines)
{
	size_t n;

	for (size_t i = 0; i < b->len; i += n) {
		const unsigned char c = (unsigned char)b->data[i];

		n = 1;
		if (c == '&')
			n = reference(b->data + i, b->len - i);
		else if (c >= 0x80)
			n = character((const unsigned char *)b->data + i, b->len - i);
		else
			assert(c != '<' && c != '>' && c != '"' && c != '\'' && c != 0x7f &&
			       (c >= ' ' || (lines && (c == '\n' || c == '\t'))));
		assert(n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* The first byte says how much of it is shown. */
	const size_t max = size ? (size_t)data[0] * 4 : 0;
	struct buf b = {0};

	if (size) {
		data++;
		size--;
	}
	for (int lines = 0; lines < 2; lines++) {
		html_bytes(&b, data, size, max, lines);
		assert(b.len <= (size < max ? size : max) * HTML_WORST + 3);
		check(&b, lines);
		buf_clear(&b);
	}
	html_tail(&b, data, size, max);
	assert(b.len <= (size < max ? size : max) * HTML_WORST + 4);
	check(&b, true);
	buf_clear(&b);
	return 0;
}
