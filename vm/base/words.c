/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says for people. */
#include "words.h"

#include <ctype.h>

static void tell(struct words *w)
{
	w->text[w->len] = '\0';
	w->len = 0;
	w->line(w, w->text);
}

void words_add(struct words *w, const void *bytes, size_t len)
{
	const char *p = bytes;

	tail_add(&w->said, bytes, len);
	for (size_t i = 0; i < len; i++) {
		if (p[i] == '\n')
			tell(w);
		else if (isprint((unsigned char)p[i]) && w->len + 1 < sizeof(w->text))
			w->text[w->len++] = p[i];
	}
}

void words_end(struct words *w)
{
	if (w->len)
		tell(w);
}
