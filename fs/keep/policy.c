/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what a session's network was used for: its log of connections, questions to who may allow something, what was used. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "internal.h"

/* Never reuse a number. */
enum {
	CONN_START = 1,
	CONN_GONE,
	CONN_SHOWN,
	CONN_MTIME,
	CONN_LINES, /* at rest */
	CONN_TEXT,  /* live */
};

enum {
	ASK_LAST = 1,
	ASK_QUESTION,
	ASK_OPEN_MTIME,
	ASK_ALLOWED_MTIME,
	ASK_DENIED_MTIME,
	ASK_QUIET, /* live, as those that follow */
	ASK_LEFT,
	ASK_REFILLED,
};

enum {
	Q_NUMBER = 1,
	Q_ID,
	Q_STATE,
	Q_ALWAYS,
	Q_ASKED,
	Q_UNTIL,
	Q_DECIDED_AT,
	Q_WHO,
	Q_METHOD,
	Q_SCHEME,
	Q_HOST,
	Q_PATH,
	Q_DECIDED,
	Q_PORT,
	Q_RULE,
	Q_MTIME,
	Q_LAPSED,
};

enum { USED_BYTES = 1, USED_REQUESTS, USED_CONNECTIONS, NOW_BYTES, NOW_REQUESTS, NOW_CONNECTIONS };

#define Q_TEXT_MAX (64u << 10)

/* ---- net/log ---- */

void keep_put_connlog(struct keep_out *o, unsigned tag)
{
	struct connlog *log = &((struct session *)o->s)->connlog; /* its trail is noted there */
	size_t at;

	if (!log->gone && !log->log.len && !log->start)
		return;
	at = record_open(o->out, tag);
	record_u64(o->out, CONN_START, log->start);
	keep_put_u64(o->out, CONN_GONE, log->gone);
	keep_put_u64(o->out, CONN_SHOWN, log->shown);
	record_time(o->out, CONN_MTIME, &log->mtime);
	if (o->io->live)
		keep_put_text(o, CONN_TEXT, &log->trail, log->start, log->log.data, log->log.len);
	else
		keep_put_buf(o->out, CONN_LINES, &log->log);
	record_close(o->out, at);
}

static int connlog_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct connlog *log = to;

	switch (f->tag) {
	case CONN_START: return record_get(f, 0, UINT64_MAX / 2, &log->start);
	case CONN_GONE: return record_get(f, 0, UINT64_MAX / 2, &log->gone);
	case CONN_SHOWN: return record_get(f, 0, UINT64_MAX / 2, &log->shown);
	case CONN_MTIME: return record_get_time(f, &log->mtime);
	case CONN_LINES: return keep_get_buf(f, &log->log, CONNLOG_BYTES);
	case CONN_TEXT:
		return keep_get_text_of(in, f, &log->trail, &log->log, CONNLOG_BYTES, &log->start);
	default: return 0;
	}
}

int keep_get_connlog(struct keep_in *in, const struct record_field *f)
{
	struct connlog *log = &in->s->connlog;
	const int e = keep_inside(in, f, connlog_field, log);

	return e < 0 ? e : connlog_join(log);
}

/* ---- net/learned ---- */

/* As text: it reads as the same. */
void keep_put_lessons(struct keep_out *o, unsigned tag)
{
	struct buf text = {0};

	if (lessons_render(&o->s->lessons, &text) == 0 && text.len)
		record_bytes(o->out, tag, text.data, text.len);
	buf_clear(&text);
}

int keep_get_lessons(struct keep_in *in, const struct record_field *f)
{
	struct buf text = {0};
	int r = keep_get_buf(f, &text, LESSONS_BYTES);

	if (r == 0)
		r = lessons_parse(&in->s->lessons, buf_str(&text));
	buf_clear(&text);
	return r;
}

/* ---- net/pending, net/allowed, net/denied ---- */

/* At rest nobody waits for an answer any more. */
static void put_question(struct buf *out, const struct question *q, bool live)
{
	const bool gone = !live && q->state == QUESTION_OPEN;
	const size_t at = record_open(out, ASK_QUESTION);

	record_u64(out, Q_NUMBER, q->number);
	keep_put_u64(out, Q_ID, q->id);
	keep_put_u64(out, Q_STATE, gone ? QUESTION_DENIED : q->state);
	keep_put_u64(out, Q_ALWAYS, q->always);
	keep_put_u64(out, Q_ASKED, (uint64_t)q->asked_ms);
	keep_put_u64(out, Q_UNTIL, (uint64_t)q->until_ms);
	keep_put_u64(out, Q_DECIDED_AT, (uint64_t)q->decided_ms);
	record_str(out, Q_WHO, q->who);
	record_str(out, Q_METHOD, q->method);
	record_str(out, Q_SCHEME, q->scheme);
	record_str(out, Q_HOST, q->host);
	record_str(out, Q_PATH, q->path);
	record_str(out, Q_DECIDED, gone ? QUESTION_SANDBOX_GONE : q->decided);
	keep_put_u64(out, Q_PORT, q->port);
	keep_put_u64(out, Q_RULE, q->rule);
	record_time(out, Q_MTIME, &q->mtime);
	keep_put_u64(out, Q_LAPSED, gone || q->lapsed);
	record_close(out, at);
}

void keep_put_questions(struct keep_out *o, unsigned tag)
{
	const struct questions *qs = &o->s->questions;
	const struct question *q;
	size_t at;

	if (!qs->last)
		return;
	at = record_open(o->out, tag);
	record_u64(o->out, ASK_LAST, qs->last);
	record_time(o->out, ASK_OPEN_MTIME, &qs->mtime[QUESTION_OPEN]);
	record_time(o->out, ASK_ALLOWED_MTIME, &qs->mtime[QUESTION_ALLOWED]);
	record_time(o->out, ASK_DENIED_MTIME, &qs->mtime[QUESTION_DENIED]);
	if (o->io->live) {
		keep_put_u64(o->out, ASK_QUIET, qs->events.quiet);
		keep_put_u64(o->out, ASK_LEFT, qs->events.rate.left);
		record_u64(o->out, ASK_REFILLED, qs->events.rate.filled_ms);
	}
	TAILQ_FOREACH(q, &qs->list, link)
		put_question(o->out, q, o->io->live);
	record_close(o->out, at);
}

static int get_ms(const struct record_field *f, int64_t *ret_ms)
{
	uint64_t v;
	const int r = record_get(f, 0, INT64_MAX, &v);

	if (r == 0)
		*ret_ms = (int64_t)v;
	return r;
}

static int question_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct question *q = to;
	uint32_t v;
	int r;

	(void)in;
	switch (f->tag) {
	case Q_NUMBER: return record_get_u32(f, UINT32_MAX, &q->number);
	case Q_ID: return record_get_u32(f, UINT32_MAX, &q->id);
	case Q_STATE:
		r = record_get_u32(f, QUESTION_NSTATES - 1, &v);
		q->state = r == 0 ? (enum question_state)v : q->state;
		return r;
	case Q_ALWAYS: return record_get_bool(f, &q->always);
	case Q_ASKED: return get_ms(f, &q->asked_ms);
	case Q_UNTIL: return get_ms(f, &q->until_ms);
	case Q_DECIDED_AT: return get_ms(f, &q->decided_ms);
	case Q_WHO: return keep_get_text(f, &q->who, Q_TEXT_MAX);
	case Q_METHOD: return keep_get_text(f, &q->method, Q_TEXT_MAX);
	case Q_SCHEME: return keep_get_text(f, &q->scheme, Q_TEXT_MAX);
	case Q_HOST: return keep_get_text(f, &q->host, Q_TEXT_MAX);
	case Q_PATH: return keep_get_text(f, &q->path, Q_TEXT_MAX);
	case Q_DECIDED: return keep_get_text(f, &q->decided, Q_TEXT_MAX);
	case Q_PORT:
		r = record_get_u32(f, UINT16_MAX, &v);
		q->port = r == 0 ? (uint16_t)v : q->port;
		return r;
	case Q_RULE: return record_get_u32(f, UINT32_MAX, &q->rule);
	case Q_MTIME: return record_get_time(f, &q->mtime);
	case Q_LAPSED: return record_get_bool(f, &q->lapsed);
	default: return 0;
	}
}

static int get_question(struct keep_in *in, const struct record_field *f)
{
	struct question *q = calloc(1, sizeof(*q));
	int e = q ? keep_inside(in, f, question_field, q) : -ENOMEM;

	if (e == 0 && q->state == QUESTION_OPEN && !in->io->live)
		e = -EBADMSG;
	return q ? question_revive(in->s, q, e) : e;
}

static int questions_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct questions *qs = to;

	switch (f->tag) {
	case ASK_LAST: return record_get_u32(f, UINT32_MAX, &qs->last);
	case ASK_OPEN_MTIME: return record_get_time(f, &qs->mtime[QUESTION_OPEN]);
	case ASK_ALLOWED_MTIME: return record_get_time(f, &qs->mtime[QUESTION_ALLOWED]);
	case ASK_DENIED_MTIME: return record_get_time(f, &qs->mtime[QUESTION_DENIED]);
	case ASK_QUIET: return record_get_u32(f, UINT32_MAX, &qs->events.quiet);
	case ASK_LEFT: return record_get_u32(f, UINT32_MAX, &qs->events.rate.left);
	case ASK_REFILLED: return record_get(f, 0, UINT64_MAX, &qs->events.rate.filled_ms);
	case ASK_QUESTION: return get_question(in, f);
	default: return 0;
	}
}

int keep_get_questions(struct keep_in *in, const struct record_field *f)
{
	return keep_inside(in, f, questions_field, &in->s->questions);
}

/* ---- what was used ---- */

void keep_put_net_used(struct keep_out *o, unsigned tag)
{
	struct net_budget used = o->s->net_used, now = o->s->net_now;
	size_t at;

	if (!o->io->live) { /* its sandbox will not be there */
		used = network_sum(&used, &now);
		now = (struct net_budget){0};
	}
	at = record_open(o->out, tag);
	keep_put_u64(o->out, USED_BYTES, used.bytes);
	keep_put_u64(o->out, USED_REQUESTS, used.requests);
	keep_put_u64(o->out, USED_CONNECTIONS, used.connections);
	keep_put_u64(o->out, NOW_BYTES, now.bytes);
	keep_put_u64(o->out, NOW_REQUESTS, now.requests);
	keep_put_u64(o->out, NOW_CONNECTIONS, now.connections);
	record_close(o->out, at);
}

static int used_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct net_budget *used = &in->s->net_used, *now = to;

	switch (f->tag) {
	case USED_BYTES: return record_get(f, 0, NETWORK_USED_MAX, &used->bytes);
	case USED_REQUESTS: return record_get(f, 0, NETWORK_USED_MAX, &used->requests);
	case USED_CONNECTIONS: return record_get(f, 0, NETWORK_USED_MAX, &used->connections);
	case NOW_BYTES: return record_get(f, 0, NETWORK_USED_MAX, &now->bytes);
	case NOW_REQUESTS: return record_get(f, 0, NETWORK_USED_MAX, &now->requests);
	case NOW_CONNECTIONS: return record_get(f, 0, NETWORK_USED_MAX, &now->connections);
	default: return 0;
	}
}

int keep_get_net_used(struct keep_in *in, const struct record_field *f)
{
	return keep_inside(in, f, used_field, &in->s->net_now);
}
