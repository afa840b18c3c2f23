/* SPDX-License-Identifier: Apache-2.0 */
/* Formats lines of the log, as text and as JSON. */
#include "log_line.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define JSON_LEAST 512u /* room in which the fields before the message fit */
#define NAME_MAX_  160u /* bytes of a session's or part's name */

/* A string that is being written; what does not fit is left out. */
struct text {
	char *at, *end; /* behind the end there is room for the terminator */
};

static void put(struct text *t, const char *fmt, ...) printf_like(2, 3);
static void put(struct text *t, const char *fmt, ...)
{
	const size_t room = (size_t)(t->end - t->at);
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->at, room + 1, fmt, ap);
	va_end(ap);
	t->at += MIN((size_t)MAX(n, 0), room);
}

static bool has_name(const struct log_line *l)
{
	return l->label && l->label->who && *l->label->who;
}

/* Return: false if it is not known. */
static bool elapsed_us(const struct log_line *l, uint64_t *ret_us)
{
	if (!l->at || !l->label || !l->label->began)
		return false;
	*ret_us = l->at > l->label->began ? (l->at - l->label->began) / 1000 : 0;
	return true;
}

size_t log_line_text(const struct log_line *l, char *out, size_t size)
{
	struct text t = {out, out + size - 1};
	uint64_t us;

	*out = '\0';
	if (l->named)
		;
	else if (has_name(l) && l->label->run)
		put(&t, "%s#%" PRIu32 " ", l->label->who, l->label->run);
	else if (has_name(l))
		put(&t, "%s ", l->label->who);
	if (elapsed_us(l, &us))
		put(&t, "+%" PRIu64 ".%" PRIu64 " ms ", us / 1000, us / 100 % 10);
	if (l->part)
		put(&t, "%s: ", l->part);
	put(&t, "%s", l->text);
	return (size_t)(t.at - out);
}

/* ---- JSON ---- */

/* Return: bytes of the character of UTF-8 at @s, or 0 if there is none. */
static size_t utf8_len(const unsigned char *s)
{
	const unsigned char c = *s;
	size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	/* Too long for what they are, surrogates, beyond the end. */
	if ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) ||
	    (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

/* A string, of which at most @most bytes are written between the quotes. */
static void put_string(struct text *t, const char *text, size_t most)
{
	const char *stop = t->at + 1 + MIN(most, (size_t)(t->end - t->at) - 2);
	const unsigned char *s = (const unsigned char *)text;

	*t->at++ = '"';
	while (*s) {
		const size_t n = utf8_len(s);
		char one[8];

		if (n == 0 || (*s < ' ' && *s != '\t') || *s == 0x7f)
			snprintf(one, sizeof(one), "?");
		else if (*s == '\t')
			snprintf(one, sizeof(one), "\\t");
		else
			snprintf(one, sizeof(one), "%s%.*s", *s == '"' || *s == '\\' ? "\\" : "",
				 (int)n, (const char *)s);
		if (t->at + strlen(one) > stop)
			break;
		put(t, "%s", one);
		s += MAX(n, (size_t)1);
	}
	*t->at++ = '"';
	*t->at = '\0';
}

/* Years, months and days from days since 1970, as the calendar has them since 1582, without asking for time zones. */
static void put_time(struct text *t, int64_t time_us)
{
	const int64_t s = time_us / 1000000;
	const int64_t z = s / 86400 + 719468; /* days since March 1st of the year 0 */
	const int64_t era = z / 146097, day = z % 146097;
	const int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	const int64_t in_year = day - (365 * year + year / 4 - year / 100);
	const int64_t m = (5 * in_year + 2) / 153; /* 0: March */
	const int64_t month = m < 10 ? m + 3 : m - 9;

	put(t, "\"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ\"", (int)(year + era * 400 + (month <= 2)),
	    (int)month, (int)(in_year - (153 * m + 2) / 5 + 1), (int)(s / 3600 % 24),
	    (int)(s / 60 % 60), (int)(s % 60), (int)(time_us % 1000000));
}

static const char *const level_names[] = LOG_LEVEL_NAMES;

size_t log_line_json(const struct log_line *l, char *out, size_t size)
{
	struct text t = {out, out + size - 2}; /* room for the brace */
	uint64_t us;

	assert(size >= JSON_LEAST);
	put(&t, "{\"time\":");
	put_time(&t, l->time_us);
	put(&t, ",\"level\":\"%s\"", level_names[l->level]);
	if (has_name(l)) {
		put(&t, strchr(l->label->who, '/') ? ",\"session\":" : ",\"template\":");
		put_string(&t, l->label->who, NAME_MAX_);
	}
	if (l->label && l->label->run)
		put(&t, ",\"run\":%" PRIu32, l->label->run);
	if (l->part) {
		put(&t, ",\"part\":");
		put_string(&t, l->part, NAME_MAX_ / 4);
	}
	if (l->code) {
		put(&t, ",\"code\":");
		put_string(&t, l->code, NAME_MAX_ / 4);
	}
	if (elapsed_us(l, &us))
		put(&t, ",\"elapsed_ms\":%" PRIu64 ".%03" PRIu64, us / 1000, us % 1000);
	put(&t, ",\"message\":");
	put_string(&t, l->text, SIZE_MAX);
	*t.at++ = '}';
	*t.at = '\0';
	return (size_t)(t.at - out);
}
