/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms of durations, in fixed buckets. */
#ifndef XSBX_VM_BASE_HISTOGRAM_H
#define XSBX_VM_BASE_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

/* Buckets of the widest scale, and the one for what is longer than all of them. */
#define HISTOGRAM_BUCKETS 18u

/* Upper limits of buckets in microseconds, each longer than the one before. */
struct histogram_scale {
	unsigned n; /* less than HISTOGRAM_BUCKETS */
	uint64_t upto_us[HISTOGRAM_BUCKETS - 1];
};

/* For what takes microseconds to seconds, and milliseconds to hours. */
extern const struct histogram_scale histogram_fast, histogram_slow;

/* All zeroes is an empty one. An observation costs no memory, and a few comparisons. */
struct histogram {
	uint64_t in
		[HISTOGRAM_BUCKETS]; /* of each bucket itself; the last one that is used has no limit */
	uint64_t sum_us;
};

/* @us: duration in microseconds; the sum stops at its largest value. */
void histogram_add(struct histogram *h, const struct histogram_scale *scale, uint64_t us);

/* Observations so far. */
uint64_t histogram_count(const struct histogram *h);

/**
 * histogram_text() - Write samples as Prometheus reads them (text format 0.0.4)
 * @h: Histogram
 * @scale: Its buckets
 * @name: Of the metric, without _bucket, _sum, _count
 * @labels: `a="b",c="d"`, or "" for none
 * @out: Gets NAME_bucket, cumulative, in seconds, with le="+Inf" as the last one; NAME_sum; NAME_count
 */
void histogram_text(const struct histogram *h, const struct histogram_scale *scale,
		    const char *name, const char *labels, struct buf *out);

/* From one daemon to the next: fields of @out. And there: into @h, which is empty. Counts of a version with other buckets are moved
 * to the bucket that all of theirs is in: nothing is shown as shorter than it was. Return: 0 or -EBADMSG. */
void histogram_put(const struct histogram *h, const struct histogram_scale *scale, struct buf *out);
int histogram_get(struct histogram *h, const struct histogram_scale *scale,
		  struct record_reader fields);

#endif
