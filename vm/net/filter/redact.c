/* SPDX-License-Identifier: Apache-2.0 */
/* Takes secrets out of a stream of bytes, wherever it is cut into pieces. */
#include "redact.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "secret_value.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * As many bytes are held back as the longest form has, less one, whatever they are. To hold back only what may become a secret
 * would be faster, and an oracle: with a server that repeats what it is told, the guest could say the first characters of a
 * secret and see by the delay whether they are right, one character after the other.
 *
 *	raw	|  looked at  |  a form may begin here and end in what has not come yet  |
 *			      ^done
 *
 * At each place the longest form that stands there counts, and a byte goes on when all places up to its own were looked at. So
 * what comes out does not depend on where the stream was cut. (But for redact_flush(), for those who wait for an answer before
 * they go on.)
 */

#define PIECE_MAX 16384

/* ---- what is looked for ---- */

static unsigned pair_of(const uint8_t *p)
{
	return (p[0] ^ (unsigned)p[1] << 5) & 4095;
}

static void note_pair(struct redact_set *set, const uint8_t *form)
{
	const unsigned n = pair_of(form);

	set->pairs[n >> 3] |= (uint8_t)(1u << (n & 7));
}

/* Return: 1 or 0. */
static unsigned may_begin(const struct redact_set *set, const uint8_t *p)
{
	const unsigned n = pair_of(p);

	return (unsigned)set->pairs[n >> 3] >> (n & 7) & 1;
}

int redact_set_add(struct redact_set *set, struct secret_value *value)
{
	for (unsigned i = 0; i < set->n; i++)
		if (set->value[i] == value)
			return 0;
	if (set->n == REDACT_VALUES_MAX)
		return -ENOSPC;
	set->value[set->n++] = secret_value_ref(value);
	for (unsigned i = 0; i < value->nforms; i++) {
		set->longest = MAX(set->longest, value->form[i].len);
		note_pair(set, value->form[i].bytes);
	}
	return 0;
}

void redact_set_fini(struct redact_set *set)
{
	for (unsigned i = 0; i < set->n; i++)
		secret_value_unref(set->value[i]);
	*set = (struct redact_set){0};
}

/* The longest form that stands at the beginning of @p. Return: its length, or 0. */
static size_t find(const struct redact_set *set, const uint8_t *p, size_t len,
		   const char **ret_label)
{
	size_t best = 0;

	for (unsigned i = 0; i < set->n; i++) {
		const struct secret_value *v = set->value[i];

		for (unsigned k = 0; k < v->nforms; k++) {
			const struct secret_form *f = &v->form[k];

			if (f->len > best && f->len <= len && f->bytes[0] == p[0] &&
			    !memcmp(f->bytes, p, f->len)) {
				best = f->len;
				*ret_label = v->label;
			}
		}
	}
	return best;
}

/* The first place from @at on at which a form may begin; most are none, so they are looked at by fours. Return: @end: none. */
static size_t next_place(const struct redact_set *set, const uint8_t *raw, size_t at, size_t end)
{
	for (; at + 4 <= end; at += 4)
		if (may_begin(set, raw + at) | may_begin(set, raw + at + 1) |
		    may_begin(set, raw + at + 2) | may_begin(set, raw + at + 3))
			break;
	while (at < end && !may_begin(set, raw + at))
		at++;
	return at;
}

static void cover(uint8_t *out, size_t len, const char *label)
{
	for (size_t i = 0; i < len; i++)
		out[i] = *label ? (uint8_t)*label++ : '*';
}

/* Looks for forms that begin in @raw from @at to @end, and may reach to @len. Return: was there one? */
static bool search(const struct redact_set *set, const uint8_t *raw, uint8_t *out, size_t at,
		   size_t end, size_t len)
{
	const char *label = "";
	bool found = false;

	/* None is as short as a byte. */
	end = MIN(end, len ? len - 1 : 0);
	for (; (at = next_place(set, raw, at, end)) < end; at++) {
		const size_t n = find(set, raw + at, len - at, &label);

		if (n == 0)
			continue;
		cover(out + at, n, label);
		found = true;
	}
	return found;
}

bool redact_text(const struct redact_set *set, void *text, size_t len)
{
	uint8_t *copy;
	bool found;

	if (set->n == 0 || len == 0)
		return false;
	copy = malloc(len);
	if (!copy) { /* nothing of it may go on */
		memset(text, '*', len);
		return true;
	}
	memcpy(copy, text, len);
	found = search(set, copy, text, 0, len, len);
	explicit_bzero(copy, len);
	free(copy);
	return found;
}

/* ---- streams ---- */

static int make_room(struct redact *r, size_t more)
{
	const size_t cap = MAX(2 * r->cap, r->len + more);
	uint8_t *raw, *out;

	if (r->len + more <= r->cap)
		return 0;
	raw = malloc(cap);
	out = malloc(cap);
	if (!raw || !out) {
		free(raw);
		free(out);
		return -ENOMEM;
	}
	if (r->len) {
		memcpy(raw, r->raw, r->len);
		memcpy(out, r->out, r->len);
		explicit_bzero(r->raw, r->len);
	}
	free(r->raw);
	free(r->out);
	r->raw = raw;
	r->out = out;
	r->cap = cap;
	return 0;
}

/* What is before @to goes on, if it has not. */
static void emit(struct redact *r, size_t to)
{
	const size_t from = r->sent;

	if (to <= from)
		return;
	r->sent = to;
	r->emit(r->data, r->out + from, to - from);
}

/* Forgets what was looked at. */
static void drop(struct redact *r)
{
	const size_t n = r->done;

	if (n == 0)
		return;
	memmove(r->raw, r->raw + n, r->len - n);
	memmove(r->out, r->out + n, r->len - n);
	explicit_bzero(r->raw + r->len - n, n);
	r->len -= n;
	r->sent -= n;
	r->done = 0;
}

static int take(struct redact *r, const uint8_t *bytes, size_t len)
{
	size_t end;

	if (make_room(r, len) < 0)
		return -ENOMEM;
	memcpy(r->raw + r->len, bytes, len);
	memcpy(r->out + r->len, bytes, len);
	r->len += len;
	end = r->len - MIN(r->len, r->set->longest ? r->set->longest - 1 : 0);
	if (end <= r->done)
		return 0;
	search(r->set, r->raw, r->out, r->done, end, r->len);
	r->done = end;
	emit(r, end);
	drop(r);
	return 0;
}

int redact_feed(struct redact *r, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	int n = 0;

	if (r->set->n == 0 && r->len == 0) {
		if (len)
			r->emit(r->data, bytes, len);
		return 0;
	}
	for (size_t at = 0; at < len && n == 0; at += PIECE_MAX)
		n = take(r, p + at, MIN(len - at, (size_t)PIECE_MAX));
	return n;
}

void redact_flush(struct redact *r)
{
	search(r->set, r->raw, r->out, r->done, r->len, r->len);
	emit(r, r->len);
}

void redact_finish(struct redact *r)
{
	redact_flush(r);
	if (r->len)
		explicit_bzero(r->raw, r->len);
	r->len = r->done = r->sent = 0;
}

void redact_fini(struct redact *r)
{
	if (r->len)
		explicit_bzero(r->raw, r->len);
	free(r->raw);
	free(r->out);
	r->raw = r->out = NULL;
	r->len = r->cap = r->done = r->sent = 0;
}
