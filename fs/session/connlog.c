/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a session's connections. See connlog.h. */
#include "connlog.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "network.h"
#include "quota.h"
#include "session.h"
#include "touch.h"
#include "vm/base/log.h"

#define QUOTA_STEP (16u << 10) /* bytes after which it is asked again whether there may be more */

/* ---- lines ---- */

/* It may be what code in the sandbox has written. */
static json_t *foreign(const char *words)
{
	_cleanup_free_ char *copy = *words ? strdup(words) : NULL;
	json_t *text;

	if (!copy)
		return json_null();
	log_printable(copy, strlen(copy), false);
	text = json_string(copy);
	return text ? text : json_string("(not UTF-8)");
}

static json_t *who_json(const struct session *s, int64_t ms)
{
	struct buf who = {0};
	json_t *o = network_who(s, ms, ", ", &who) >= 0 ? foreign(buf_str(&who)) : json_null();

	buf_clear(&who);
	return o;
}

static json_t *number_or_null(uint64_t n)
{
	return n ? json_integer((json_int_t)n) : json_null();
}

static json_t *line_object(const struct session *s, const struct sandbox_logged *w)
{
	const bool first = w->rule & SANDBOX_RULE_FIRST;
	const unsigned rule = w->rule & ~SANDBOX_RULE_FIRST;
	json_t *o = json_pack(
		"{s:f, s:I, s:o, s:o, s:i, s:o, s:o, s:o, s:o}", "time", (double)w->time_ms / 1000,
		"took_ms", (json_int_t)w->took_ms, "who", who_json(s, w->time_ms), "name",
		foreign(w->host), "port", (int)w->port, "method", foreign(w->method), "scheme",
		foreign(w->scheme), "version", foreign(w->version), "path", foreign(w->path));
	json_t *more = json_pack("{s:o, s:I, s:I, s:b, s:o, s:o, s:o}", "status",
				 number_or_null(w->status), "bytes_in", (json_int_t)w->bytes_in,
				 "bytes_out", (json_int_t)w->bytes_out, "refused", w->refused,
				 first ? "first_rule" : "rule", number_or_null(rule), "secret",
				 foreign(w->secret), "reason", foreign(w->reason));

	if (o && more)
		(void)json_object_update(o, more);
	json_decref(more);
	return o;
}

/* Return: text of the caller's, or NULL. */
static char *make_line(const struct session *s, const struct sandbox_logged *w)
{
	json_t *o = line_object(s, w);
	char *text = o ? json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER |
					       JSON_REAL_PRECISION(REAL_DIGITS))
		       : NULL;

	json_decref(o);
	return text;
}

/* ---- what is kept ---- */

/* The line above the others. Return: its length without blanks, 0 for none. */
static size_t write_head(const struct connlog *log, char text[64])
{
	if (!log->gone) {
		text[0] = '\0';
		return 0;
	}
	return (size_t)snprintf(text, 64, "{\"dropped\":%" PRIu64 "}", log->gone);
}

static void measure(struct connlog *log)
{
	char head[64];
	const size_t n = write_head(log, head);

	log->shown = MAX(log->shown, log->log.len + n + (n > 0));
}

static void drop_first(struct connlog *log)
{
	const char *end = memchr(log->log.data, '\n', log->log.len);
	const size_t n = end ? (size_t)(end - log->log.data) + 1 : log->log.len;

	memmove(log->log.data, log->log.data + n, log->log.len - n);
	log->log.len -= n;
	log->start += n;
	log->gone++;
	log->n--;
}

/* Asked only where it is longer than ever, for all that the owner has is summed up then. */
static bool fits_quota(struct session *s, size_t more)
{
	struct connlog *log = &s->connlog;

	while (log->log.len + more > log->granted) {
		if (!quota_fits(s->fs, s, QUOTA_STEP))
			return false;
		log->granted += QUOTA_STEP;
	}
	return true;
}

void connlog_add(struct session *s, const struct sandbox_logged *what)
{
	struct connlog *log = &s->connlog;
	_cleanup_free_ char *line = make_line(s, what);
	const size_t len = line ? strlen(line) : 0;

	touch_rest(s);
	network_count(s, what);
	log->mtime = clock_now();
	log->gone += what->lost;
	while (log->n && (log->n >= CONNLOG_LINES || log->log.len + len + 1 > CONNLOG_BYTES))
		drop_first(log);
	while (log->n && !fits_quota(s, len + 1))
		drop_first(log);
	if (line && fits_quota(s, len + 1) && buf_reserve(&log->log, log->log.len + len + 1) == 0 &&
	    buf_printf(&log->log, "%s\n", line) >= 0)
		log->n++;
	else
		log->gone++;
	measure(log);
	keeping_changed(s);
}

void connlog_fini(struct connlog *log)
{
	log->start += log->log.len;
	buf_clear(&log->log);
	log->n = 0;
}

/* ---- reading ---- */

uint64_t connlog_size(const struct connlog *log)
{
	return log->shown;
}

int connlog_open(struct handle *h)
{
	const struct connlog *log = &h->s->connlog;
	char head[64];
	const size_t n = write_head(log, head), len = (size_t)(log->shown - log->log.len);
	char *blanks = len ? malloc(len) : NULL;
	int r = 0;

	h->cursor = log->start;
	if (!len)
		return 0;
	if (!blanks)
		return -ENOMEM;
	memset(blanks, ' ', len);
	memcpy(blanks, head, MIN(n, len));
	blanks[len - 1] = '\n';
	r = buf_append(&h->text, blanks, len);
	free(blanks);
	return r;
}

const char *connlog_text(const struct handle *h, uint64_t offset, size_t size, size_t *ret_n)
{
	const struct connlog *log = &h->s->connlog;
	uint64_t at;

	*ret_n = 0;
	if (offset < h->text.len) {
		*ret_n = MIN(size, h->text.len - (size_t)offset);
		return h->text.data + offset;
	}
	if (offset - h->text.len > UINT64_MAX / 2)
		return "";
	at = h->cursor + (offset - h->text.len);
	if (at < log->start)
		return NULL;
	if (at - log->start >= log->log.len)
		return "";
	*ret_n = MIN(size, log->log.len - (size_t)(at - log->start));
	return log->log.data + (at - log->start);
}

int connlog_join(struct connlog *log)
{
	char head[64];
	const size_t n = write_head(log, head);

	if (log->log.len && log->log.data[log->log.len - 1] != '\n')
		return -EBADMSG;
	log->n = 0;
	for (size_t i = 0; i < log->log.len; i++)
		log->n += log->log.data[i] == '\n';
	log->granted = log->log.len;
	return log->n <= CONNLOG_LINES && log->log.len <= CONNLOG_BYTES &&
			       log->start <= UINT64_MAX / 2 &&
			       log->shown >= log->log.len + n + (n > 0) &&
			       log->shown <= CONNLOG_BYTES + sizeof(head)
		       ? 0
		       : -EBADMSG;
}

int connlog_check(const struct handle *h)
{
	const struct connlog *log = &h->s->connlog;

	return h->cursor <= log->start + log->log.len ? 0 : -EBADMSG;
}
