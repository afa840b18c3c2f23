/* SPDX-License-Identifier: Apache-2.0 */
/* Text of HTML, from bytes that nobody trusts. See html.h. */
#include "html.h"

#include <stdint.h>
#include <string.h>

#include "vm/base/buf.h"

#define REPLACEMENT 0xfffdu

/* From one to another: what is not seen, or changes how the rest is. */
static const struct range {
	uint32_t first, last;
} hidden[] = {
	{0x0080, 0x009f}, /* C1 controls */
	{0x00ad, 0x00ad}, /* soft hyphen */
	{0x034f, 0x034f}, /* combining grapheme joiner */
	{0x061c, 0x061c}, /* Arabic letter mark */
	{0x115f, 0x1160}, /* Hangul fillers */
	{0x17b4, 0x17b5}, /* Khmer vowels that are not seen */
	{0x180b, 0x180f}, /* Mongolian selectors */
	{0x200b, 0x200b}, /* space without width; joiners (200c, 200d) belong to words and emoji */
	{0x200e, 0x200f}, /* direction marks */
	{0x2028, 0x202e}, /* line and paragraph separators; embeddings and overrides */
	{0x2060, 0x206f}, /* word joiner, isolates, deprecated format characters */
	{0x3164, 0x3164}, /* Hangul filler */
	{0xfeff, 0xfeff}, /* byte order mark */
	{0xffa0, 0xffa0}, /* Hangul filler */
	{0xfff0, 0xfffb}, /* specials, interlinear annotation */
	{0x1bca0, 0x1bca3}, /* shorthand format controls */
	{0x1d173, 0x1d17a}, /* musical format controls */
	{0xe0000, 0xe0fff}, /* tags and selectors */
};

/* Decodes one character of UTF-8 (RFC 3629). Return: its bytes; 0: there is none at @s. */
static size_t decode(const unsigned char *s, size_t len, uint32_t *ret_c)
{
	const unsigned char c = *s;
	const size_t n = c < 0x80   ? 1
			 : c < 0xc2 ? 0
			 : c < 0xe0 ? 2
			 : c < 0xf0 ? 3
			 : c < 0xf5 ? 4
				    : 0;
	uint32_t code = n < 2 ? c : c & (0x7fu >> n);

	if (!n || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	/* Too long for what they are, surrogates, beyond the end. */
	if ((n == 3 && code < 0x800) || (n == 4 && code < 0x10000) ||
	    (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff)
		return 0;
	*ret_c = code;
	return n;
}

static bool is_hidden(uint32_t c)
{
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
		if (c >= hidden[i].first && c <= hidden[i].last)
			return true;
	}
	return false;
}

/* Are these no characters, in any version of Unicode to come? */
static bool is_no_character(uint32_t c)
{
	return (c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c <= 0xfdef);
}

/* An ASCII character. */
static void put_ascii(struct buf *out, char c, bool lines)
{
	switch (c) {
	case '&': buf_append(out, "&amp;", 5); return;
	case '<': buf_append(out, "&lt;", 4); return;
	case '>': buf_append(out, "&gt;", 4); return;
	case '"': buf_append(out, "&#34;", 5); return;
	case '\'': buf_append(out, "&#39;", 5); return;
	default: break;
	}
	if (c == 0x7f)
		buf_append(out, "\xe2\x90\xa1", 3); /* U+2421 */
	else if ((unsigned char)c < ' ' && !(lines && (c == '\n' || c == '\t')))
		buf_append(out, (const char[]){'\xe2', '\x90', (char)(0x80 | c)},
			   3); /* U+2400 + c */
	else
		buf_append(out, &c, 1);
}

void html_bytes(struct buf *out, const void *data, size_t len, size_t max, bool lines)
{
	const unsigned char *s = data;
	const size_t shown = MIN(len, max);
	size_t n;

	for (size_t i = 0; i < shown; i += n) {
		uint32_t c = REPLACEMENT;

		/* What the end cuts in two is not shown, and no damage. */
		n = decode(s + i, len - i, &c);
		if (i + n > shown)
			break;
		n = MAX(n, (size_t)1);
		if (c < 0x80)
			put_ascii(out, (char)c, lines);
		else if (is_hidden(c))
			buf_printf(out, "[U+%04X]", (unsigned)c);
		else if (c == REPLACEMENT || is_no_character(c))
			buf_append(out, "\xef\xbf\xbd", 3);
		else
			buf_append(out, s + i, n);
	}
	if (shown < len)
		buf_append(out, "\xe2\x80\xa6", 3);
}

void html_text(struct buf *out, const char *text, size_t max)
{
	if (text)
		html_bytes(out, text, strlen(text), max, false);
}

void html_tail(struct buf *out, const void *data, size_t len, size_t max)
{
	const char *s = data, *line;

	if (len > max) {
		s += len - max;
		buf_append(out, "\xe2\x80\xa6\n", 4);
		line = max ? memchr(s, '\n', max - 1) : NULL;
		s = line ? line + 1 : s;
		/* Else from a character on, which has four bytes at most. */
		for (int i = 0; !line && i < 3 && i < (int)max && (*s & 0xc0) == 0x80; i++)
			s++;
		len -= (size_t)(s - (const char *)data);
	}
	html_bytes(out, s, len, len, true);
}
