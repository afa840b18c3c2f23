/* SPDX-License-Identifier: Apache-2.0 */
/* What runs and jobs are called where somebody asks who wrote a file. See author.h. */
#include "author.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "session.h"

#define TAG_MAX 24u

/* Which session it is, whatever others were called. */
static void tag(const struct session *s, char ret[TAG_MAX])
{
	snprintf(ret, TAG_MAX, ":%" PRIx64,
		 (uint64_t)s->created.tv_sec * 1000000 + (uint64_t)s->created.tv_nsec / 1000);
}

struct author author_of_run(const struct session *s, uint32_t number)
{
	struct author a;
	char of[TAG_MAX];

	tag(s, of);
	snprintf(a.text, sizeof(a.text), "run %u of %s%s", number, s->name, of);
	return a;
}

struct author author_of_job(const struct session *s, const char *name)
{
	struct author a;
	char of[TAG_MAX];

	tag(s, of);
	snprintf(a.text, sizeof(a.text), "job %s of %s%s", name, s->name, of);
	return a;
}

/* Copies one word. Of "demo:18f3a2b04c" that is "demo"; or nothing, nor the " of" before it, if it is @own. */
static size_t show_word(const char *word, size_t len, const char *own, char *text, size_t at)
{
	static const char of[] = " of ";
	const char *colon = memchr(word, ':', len);
	const size_t name = colon ? (size_t)(colon - word) : len, tail = len - name;

	if (colon && tail == strlen(own) && memcmp(colon, own, tail) == 0 && at >= sizeof(of) - 1 &&
	    memcmp(text + at - (sizeof(of) - 1), of, sizeof(of) - 1) == 0)
		return at - (sizeof(of) - 1);
	memcpy(text + at, word, name);
	return at + name;
}

size_t author_show(const struct session *s, const char *said, size_t len, char *ret_text)
{
	char own[TAG_MAX];
	size_t at = 0;

	tag(s, own);
	for (size_t i = 0, n; i < len; i += n) {
		const char *blank = memchr(said + i, ' ', len - i);

		n = blank ? (size_t)(blank - (said + i)) : len - i;
		at = show_word(said + i, n, own, ret_text, at);
		if (blank)
			ret_text[at++] = said[i + n++];
	}
	ret_text[at] = '\0';
	return at;
}
