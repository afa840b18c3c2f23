/* SPDX-License-Identifier: Apache-2.0 */
/* Spans on their way to a collector. See spans.h. */
#include "spans.h"

#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 65536u /* longer ones are of nobody who knows what he does */

struct span {
	STAILQ_ENTRY(span) link;
	size_t len;
	char json[];
};

void spans_init(struct spans *q)
{
	*q = (struct spans){.n = 0};
	STAILQ_INIT(&q->list);
}

void spans_drop(struct spans *q, size_t n)
{
	struct span *s;

	while (n-- && (s = STAILQ_FIRST(&q->list))) {
		STAILQ_REMOVE_HEAD(&q->list, link);
		q->n--;
		q->bytes -= s->len;
		free(s);
	}
}

void spans_fini(struct spans *q)
{
	spans_drop(q, q->n);
	free(q->resource);
	free(q->rest);
}

/* Return: whether there was room. */
static bool add(struct spans *q, const char *json, size_t len)
{
	struct span *s =
		q->n < SPANS_MAX && q->bytes + len <= SPANS_BYTES ? malloc(sizeof(*s) + len) : NULL;

	if (!s)
		return false;
	memcpy(s->json, json, len);
	s->len = len;
	STAILQ_INSERT_TAIL(&q->list, s, link);
	q->n++;
	q->bytes += len;
	return true;
}

static size_t take_line(struct spans *q, const char *line, size_t len)
{
	if (len > 1 && *line == 'R') {
		free(q->resource);
		q->resource = strndup(line + 1, len - 1);
	}
	return len > 1 && *line == 'S' && !add(q, line + 1, len - 1);
}

/* Keeps what is no line yet. */
static void keep(struct spans *q, const char *data, size_t len)
{
	char *more = q->rest_len + len <= LINE_MAX_BYTES ? realloc(q->rest, q->rest_len + len + 1)
							 : NULL;

	if (!more) {
		q->rest_len = 0;
		return;
	}
	memcpy(more + q->rest_len, data, len);
	q->rest = more;
	q->rest_len += len;
}

size_t spans_read(struct spans *q, const char *data, size_t len)
{
	const char *end;
	size_t lost = 0;

	while ((end = memchr(data, '\n', len))) {
		const size_t n = (size_t)(end - data);

		if (q->rest_len) {
			keep(q, data, n);
			lost += take_line(q, q->rest, q->rest_len);
			q->rest_len = 0;
		} else {
			lost += take_line(q, data, n);
		}
		len -= n + 1;
		data = end + 1;
	}
	keep(q, data, len);
	return lost;
}

size_t spans_body(const struct spans *q, struct buf *out)
{
	const struct span *s;
	size_t n = 0;

	buf_printf(
		out,
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":%s},\"scopeSpans\":[{\"scope\":"
		"{\"name\":\"xsbxfs\",\"version\":\"" XSBX_VERSION "\"},\"spans\":[",
		q->resource ? q->resource : "[]");
	STAILQ_FOREACH(s, &q->list, link)
	{
		if (n == SPANS_BATCH)
			break;
		if (n++)
			buf_append(out, ",", 1);
		buf_append(out, s->json, s->len);
	}
	buf_append(out, "]}]}]}", 6);
	return n;
}
