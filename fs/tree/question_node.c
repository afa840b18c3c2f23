/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for leave, and what was decided: net/pending/N, net/allowed/N, net/denied/N. */
#include "question_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/config/network.h"
#include "fs/session/fs.h"
#include "fs/session/session.h"
#include "fs/tree/json.h"
#include "nodes.h"
#include "vm/base/allow.h"
#include "vm/base/problem.h"

static enum question_state state_of(enum node_kind dir)
{
	switch ((int)dir) {
	case NODE_NET_ALLOWED: return QUESTION_ALLOWED;
	case NODE_NET_DENIED: return QUESTION_DENIED;
	default: return QUESTION_OPEN;
	}
}

/* ---- names ---- */

/* "7", not "07" nor "+7". Return: 0 if it is no number of one. */
static uint32_t number_of(const char *name)
{
	unsigned long v;
	char *end;

	if (name[0] < '1' || name[0] > '9')
		return 0;
	errno = 0;
	v = strtoul(name, &end, 10);
	return *end || errno || v > UINT32_MAX ? 0 : (uint32_t)v;
}

int questions_find(const struct node *dir, const char *name, uint64_t *ret_ino)
{
	const struct question *q = question_find(dir->s, number_of(name));

	if (!q || q->state != state_of(dir->kind))
		return -ENOENT;
	*ret_ino = ino_of_session(dir->s, NODE_QUESTION, q->number);
	return 0;
}

void questions_list(const struct node *dir, node_put_fn put, void *data)
{
	const struct question *q;
	char name[16];

	TAILQ_FOREACH(q, &dir->s->questions.list, link) {
		if (q->state != state_of(dir->kind))
			continue;
		snprintf(name, sizeof(name), "%u", q->number);
		put(data, ino_of_session(dir->s, NODE_QUESTION, q->number), S_IFDIR, name);
	}
}

struct timespec questions_time(const struct node *n)
{
	const struct timespec *t = &n->s->questions.mtime[state_of(n->kind)];

	return t->tv_sec ? *t : n->s->created;
}

/* ---- texts ---- */

/* "2026-11-22T05:10:11Z" */
static void write_time(int64_t ms, char ret_text[32])
{
	const time_t s = (time_t)(ms / 1000);
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(ret_text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

int text_question_who(const struct node *n, struct buf *out)
{
	const char *const who = n->question->who;

	return buf_printf(out, "%s\n", *who ? who : "nothing that runs");
}

int text_question_what(const struct node *n, struct buf *out)
{
	const int r = question_what(n->question, out);

	return r < 0 ? r : buf_append(out, "\n", 1);
}

int text_question_why(const struct node *n, struct buf *out)
{
	const int r = question_why(n->s, n->question, out);

	return r < 0 ? r : buf_append(out, "\n", 1);
}

int text_question_until(const struct node *n, struct buf *out)
{
	char time[32];

	write_time(n->question->until_ms, time);
	return buf_printf(out, "%s\n", time);
}

int text_question_decision(const struct node *n, struct buf *out)
{
	return buf_printf(out, "%s\n", n->question->always ? "always" : "once");
}

int text_question_decided(const struct node *n, struct buf *out)
{
	const struct question *q = n->question;
	char time[32];

	write_time(q->decided_ms, time);
	return buf_printf(out, "%s %s\n", time, q->decided ? q->decided : "");
}

bool question_is_decided(const struct node *n)
{
	return n->question->state != QUESTION_OPEN;
}

static json_t *text_or_null(const char *text)
{
	return text && *text ? status_string(text) : json_null();
}

static json_t *number_or_null(unsigned n)
{
	return n ? json_integer(n) : json_null();
}

int status_question(const struct node *n, struct buf *out)
{
	const struct question *q = n->question;
	const bool first = q->rule & SANDBOX_RULE_FIRST;
	const unsigned rule = q->rule & ~SANDBOX_RULE_FIRST;
	struct buf what = {0}, why = {0};
	json_t *o;

	if (question_what(q, &what) < 0 || question_why(n->s, q, &why) < 0) {
		buf_clear(&what);
		buf_clear(&why);
		return -ENOMEM;
	}
	o = json_pack(
		"{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:f, s:f, s:s, s:o, "
		"s:o}",
		"number", (int)q->number, "state", question_state_str(q->state), "who",
		events_lines(q->who), "what", status_string(buf_str(&what)), "why",
		status_string(buf_str(&why)), "method", text_or_null(q->method), "scheme",
		status_string(q->scheme), "host", status_string(q->host), "port", (int)q->port,
		"path", text_or_null(q->path), "rule", number_or_null(first ? 0 : rule),
		"first_rule", number_or_null(first ? rule : 0), "asked", (double)q->asked_ms / 1000,
		"until", (double)q->until_ms / 1000, "decision", q->always ? "always" : "once",
		"decided", text_or_null(q->decided), "decided_at",
		q->decided_ms ? json_real((double)q->decided_ms / 1000) : json_null());
	buf_clear(&what);
	buf_clear(&why);
	return status_put(out, o);
}

/* ---- deciding ---- */

static int refuse(struct session *s, int err, const char *fix, const char *cause)
{
	session_problemf(s, PROBLEM_INVALID, fix, "%s", cause);
	return err;
}

/* Return: 0, or -errno; the session's `error` says why. */
static int check_rule(struct session *s, const struct question *q, bool allowed, struct buf *rule)
{
	const int r = question_rule(q, allowed, rule);

	if (r == -EINVAL)
		return refuse(s, -EINVAL,
			      "Decide it once: echo once > decision; or write a rule "
			      "yourself, into net/rules.",
			      "no rule can name this path alone");
	return r;
}

/* What was written to `decision`. Return: 0, or -errno; the session's `error` says why. */
static int set_decision(struct session *s, struct question *q, const char *text, size_t len)
{
	struct buf rule = {0};
	bool always;
	int e = 0;

	while (len && strchr(" \t\r\n", text[len - 1]))
		len--;
	if (q->state != QUESTION_OPEN)
		return refuse(s, -EPERM, "Change net/rules for what comes.",
			      "it was decided already");
	always = len == 6 && !memcmp(text, "always", 6);
	if (!always && (len != 4 || memcmp(text, "once", 4) != 0))
		return refuse(
			s, -EINVAL, "Write once or always.",
			"a decision counts once or always; which it is, is said by moving the "
			"directory to net/allowed or net/denied");
	if (always)
		e = check_rule(s, q, true, &rule);
	buf_clear(&rule);
	if (e == 0)
		question_set_always(s, q, always);
	return e;
}

static int decision_write(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	struct question *q = question_find(h->s, (uint32_t)h->ino);

	(void)offset; /* each write is all of it */
	return q ? set_decision(h->s, q, data, size) : -ESTALE;
}

const struct handle_ops decision_ops = {
	.read = text_read,
	.write = decision_write,
	.truncate = truncate_handle,
};

/* May the session reach this host at all? Where a rule of the administrator's asks, he has said so. */
static int check_host(struct session *s, const struct question *q)
{
	char place[ALLOW_NAME_MAX + 8];
	struct problem why;
	int e;

	if (q->rule & SANDBOX_RULE_FIRST)
		return 0;
	snprintf(place, sizeof(place), "%s:%u", q->host, q->port);
	e = netset_check_hosts("net/pending", place, &s->fs->conf->limits, &why);
	if (e < 0 && e != -ENOMEM)
		session_problem(s, &why);
	return e;
}

/* The rule first: if that can't be, nothing is decided. */
static int decide(struct session *s, struct question *q, bool allowed)
{
	struct buf rule = {0};
	const uint32_t number = q->number;
	int e = allowed ? check_host(s, q) : 0;

	if (e == 0 && q->always)
		e = check_rule(s, q, allowed, &rule);
	if (e == 0 && q->always)
		e = config_list_begin(s, NODE_NET_RULES, buf_str(&rule));
	buf_clear(&rule);
	if (e < 0)
		return e;
	q = question_find(s, number);
	if (q && q->state == QUESTION_OPEN)
		question_decide(s, q, allowed, s->fs->caller);
	return 0;
}

bool question_moves(enum node_kind dir)
{
	return dir == NODE_NET_PENDING || dir == NODE_NET_ALLOWED || dir == NODE_NET_DENIED;
}

int question_rename(const struct node *dir, const char *name, const struct node *newdir,
		    const char *newname, unsigned flags)
{
	struct session *s = dir->s;
	struct question *q;
	uint64_t ino;
	int e;

	if (dir->s != newdir->s || !question_moves(dir->kind) || !question_moves(newdir->kind))
		return -EXDEV;
	e = questions_find(dir, name, &ino);
	if (e < 0)
		return e;
	if (flags & ~(unsigned)RENAME_NOREPLACE)
		return -EINVAL;
	q = question_find(s, (uint32_t)ino);
	if (!q || (dir->kind == newdir->kind && strcmp(name, newname) == 0))
		return q ? 0 : -ENOENT;
	if (strcmp(name, newname) != 0)
		return refuse(s, -EINVAL, "mv net/pending/N net/allowed/, or net/denied/.",
			      "what is asked keeps its number");
	if (q->state != QUESTION_OPEN)
		return refuse(s, -EPERM, "Change net/rules for what comes; rmdir forgets it.",
			      "it was decided already");
	if (newdir->kind == NODE_NET_PENDING)
		return -EPERM;
	return decide(s, q, newdir->kind == NODE_NET_ALLOWED);
}

/* ---- net/log ---- */

static int connlog_node_open(struct handle *h)
{
	return connlog_open(h);
}

static void connlog_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
			 bool nonblock)
{
	const char *text;
	size_t n;

	(void)nonblock;
	text = connlog_text(h, offset, size, &n);
	if (text)
		reply_buf(req, text, n);
	else
		reply_err(req, h->s->dead ? -ESTALE : -EIO);
}

const struct handle_ops connlog_ops = {
	.open = connlog_node_open,
	.read = connlog_read,
};

uint64_t connlog_node_size(const struct node *n)
{
	return connlog_size(&n->s->connlog);
}
