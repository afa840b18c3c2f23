/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a program: split into lines, and the last bytes kept. */
#include "lines.h"

#include <ctype.h>
#include <string.h>

#include "util.h"

#define LINE_END " / "

void tail_add(struct tail *t, const void *bytes, size_t len)
{
	const char *b = bytes;

	if (len > TAIL_SIZE) {
		b += len - TAIL_SIZE;
		t->total += len - TAIL_SIZE;
		len = TAIL_SIZE;
	}
	while (len) {
		size_t at = t->total % TAIL_SIZE, part = MIN(len, TAIL_SIZE - at);

		memcpy(t->bytes + at, b, part);
		t->total += part;
		b += part;
		len -= part;
	}
}

/* The tail in order, terminated. Return: its length. */
size_t tail_copy(const struct tail *t, char out[TAIL_SIZE + 1])
{
	size_t len = MIN(t->total, (size_t)TAIL_SIZE), start = t->total - len;

	for (size_t i = 0; i < len; i++)
		out[i] = t->bytes[(start + i) % TAIL_SIZE];
	out[len] = '\0';
	return len;
}

/* Puts lines in a row, without escape sequences and control bytes. Return: new length. */
static size_t one_line(char *s, size_t len, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == 0x1b && i + 1 < len && s[i + 1] == '[') {
			for (i += 2; i < len && ((unsigned char)s[i] < 0x40); i++)
				;
			continue;
		}
		if (c == '\n') {
			if (n > 0 && !(n >= 3 && memcmp(out + n - 3, LINE_END, 3) == 0)) {
				memcpy(out + n, LINE_END, 3);
				n += 3;
			}
			continue;
		}
		if (c == '\t')
			c = ' ';
		if (c >= 0x20 && c != 0x7f)
			out[n++] = (char)c;
	}
	while (n >= 3 && memcmp(out + n - 3, LINE_END, 3) == 0)
		n -= 3;
	out[n] = '\0';
	return n;
}

/* Where the last @size - 1 bytes of a line begin: with a whole line of old if one begins soon, never
 * inside a UTF-8 sequence. */
static const char *last_part(const char *line, size_t len, size_t size)
{
	const char *start = line + len - (size - 1), *next = strstr(start, LINE_END);

	if (next && (size_t)(next - start) < size / 3)
		start = next + strlen(LINE_END);
	while (start < line + len && ((unsigned char)*start & 0xc0) == 0x80)
		start++;
	return start;
}

const char *tail_quote(const struct tail *t, const char *from, char *out, size_t size)
{
	char linear[TAIL_SIZE + 1], line[3 * TAIL_SIZE + 1];
	const char *start = line, *found;
	size_t len = tail_copy(t, linear);

	len = one_line(linear, len, line);
	found = from ? strstr(line, from) : NULL;
	if (found)
		start = found;
	else if (len >= size)
		start = last_part(line, len, size);
	snprintf(out, size, "%s", start);
	return out;
}

bool tail_contains(const struct tail *t, const char *word)
{
	char linear[TAIL_SIZE + 1];
	size_t len = tail_copy(t, linear);

	return memmem(linear, len, word, strlen(word)) != NULL;
}

/* ---- line by line ---- */

static void tell(struct lines *w)
{
	w->text[w->len] = '\0';
	w->len = 0;
	w->line(w, w->text);
}

void lines_add(struct lines *w, const void *bytes, size_t len)
{
	const char *p = bytes;

	tail_add(&w->said, bytes, len);
	if (!w->line)
		return;
	for (size_t i = 0; i < len; i++) {
		if (p[i] == '\n')
			tell(w);
		else if (isprint((unsigned char)p[i]) && w->len + 1 < sizeof(w->text))
			w->text[w->len++] = p[i];
	}
}

void lines_end(struct lines *w)
{
	if (w->len)
		tell(w);
}
