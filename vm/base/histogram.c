/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms of durations, in fixed buckets. See histogram.h. */
#include "histogram.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define MS 1000u
#define S  (1000u * MS)

const struct histogram_scale histogram_fast = {
	.n = 15,
	.upto_us = {10, 25, 50, 100, 250, 500, 1 * MS, 5 * MS / 2, 5 * MS, 10 * MS, 25 * MS,
		    100 * MS, 250 * MS, 1 * S, 10 * S},
};

const struct histogram_scale histogram_slow = {
	.n = 17,
	.upto_us = {1 * MS, 5 * MS / 2, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS,
		    500 * MS, 1 * S, 5 * S / 2, 5 * S, 10 * S, 30 * S, 60 * S, 300 * S,
		    3600ull * S},
};

/* Adds without going round. */
static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The first bucket that has room for @us. */
static unsigned bucket_of(const struct histogram_scale *scale, uint64_t us)
{
	unsigned i = 0;

	while (i < scale->n && us > scale->upto_us[i])
		i++;
	return i;
}

void histogram_add(struct histogram *h, const struct histogram_scale *scale, uint64_t us)
{
	h->in[bucket_of(scale, us)]++;
	h->sum_us = add(h->sum_us, us);
}

uint64_t histogram_count(const struct histogram *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		n = add(n, h->in[i]);
	return n;
}

/* Seconds without zeroes at the end, so that a limit has one spelling: "0.0025", "60". Return: @text. */
static const char *seconds(uint64_t us, char *text, size_t size)
{
	int len = snprintf(text, size, "%" PRIu64 ".%06u", us / S, (unsigned)(us % S));

	while (len > 0 && text[len - 1] == '0')
		text[--len] = '\0';
	if (len > 0 && text[len - 1] == '.')
		text[--len] = '\0';
	return text;
}

void histogram_text(const struct histogram *h, const struct histogram_scale *scale,
		    const char *name, const char *labels, struct buf *out)
{
	const char *comma = *labels ? "," : "", *open = *labels ? "{" : "",
		   *close = *labels ? "}" : "";
	uint64_t n = 0;
	char text[32];

	for (unsigned i = 0; i < scale->n; i++) {
		n = add(n, h->in[i]);
		buf_printf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels, comma,
			   seconds(scale->upto_us[i], text, sizeof(text)), n);
	}
	n = add(n, h->in[scale->n]);
	buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, n);
	buf_printf(out, "%s_sum%s%s%s %s\n", name, open, labels, close,
		   seconds(h->sum_us, text, sizeof(text)));
	buf_printf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, n);
}

/* ---- for the next daemon ---- */

/* Never reuse. */
enum histogram_tag {
	TAG_SUM = 1,
	TAG_UPTO, /* the limit of the count that follows; none: of the one without a limit */
	TAG_COUNT,
};

void histogram_put(const struct histogram *h, const struct histogram_scale *scale, struct buf *out)
{
	record_u64(out, TAG_SUM, h->sum_us);
	for (unsigned i = 0; i <= scale->n; i++) {
		if (!h->in[i])
			continue;
		record_u64(out, TAG_UPTO, i < scale->n ? scale->upto_us[i] : UINT64_MAX);
		record_u64(out, TAG_COUNT, h->in[i]);
	}
}

int histogram_get(struct histogram *h, const struct histogram_scale *scale,
		  struct record_reader fields)
{
	uint64_t upto = UINT64_MAX, n;
	struct record_field f;
	unsigned to;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum histogram_tag)f.tag) {
		case TAG_SUM: r = record_get(&f, 0, UINT64_MAX, &h->sum_us); break;
		case TAG_UPTO: r = record_get(&f, 0, UINT64_MAX, &upto); break;
		case TAG_COUNT:
			r = record_get(&f, 0, UINT64_MAX, &n);
			to = bucket_of(scale, upto);
			if (r == 0)
				h->in[to] = add(h->in[to], n);
			break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	return r;
}
