/* SPDX-License-Identifier: Apache-2.0 */
/* Spans on their way to a collector: a queue with a limit, and bodies of requests made of it. */
#ifndef XSBX_VM_TRACE_SPANS_H
#define XSBX_VM_TRACE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vm/base/buf.h"

#define SPANS_MAX   8192u	/* that wait */
#define SPANS_BYTES (16u << 20) /* ... all together */
#define SPANS_BATCH 512u	/* in one request */

struct span;

struct spans {
	STAILQ_HEAD(span_list, span) list; /* oldest first */
	size_t n, bytes;
	char *resource; /* its attributes, a JSON array; or NULL: none */
	char *rest;	/* of a line that is not whole yet */
	size_t rest_len;
};

void spans_init(struct spans *q);
void spans_fini(struct spans *q);

/**
 * spans_read() - Take lines
 * @q: Queue
 * @data: Bytes: lines, which may be cut anywhere. `S` and a span as JSON, or `R` and the resource's attributes
 * @len: How many
 *
 * Return: how many spans there was no room for.
 */
size_t spans_read(struct spans *q, const char *data, size_t len);

/* The oldest ones, at most SPANS_BATCH, as ExportTraceServiceRequest in the JSON of OTLP 1.x. Return: how many, which stay in
 * the queue until spans_drop(). */
size_t spans_body(const struct spans *q, struct buf *out);
void spans_drop(struct spans *q, size_t n);

#endif
