/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and requests that wait for somebody's leave, and what was decided of others. See question.h. */
#include "question.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "session.h"
#include "touch.h"
#include "vm/base/egress.h"
#include "vm/base/http_path.h"
#include "vm/base/rules.h"

/*
 * Theory of operation
 * -------------------
 * The filter of the sandbox holds a connection back and asks; the question is a directory in net/pending until somebody moves it
 * to net/allowed or net/denied, which sandbox_decide() tells the filter. The deadline is the filter's: it refuses by itself, and says
 * so, so that nothing is let through because this daemon is late, or dead. A daemon that takes the sandbox over is asked
 * again, under the same ids, and finds the questions of those in its records.
 */

#define EVENTS_BURST 64u /* lines in `events` that are told at once, and then one a second */
#define REFILL_MS    1000u

static const char *const states[] = {
	[QUESTION_OPEN] = "pending", [QUESTION_ALLOWED] = "allowed", [QUESTION_DENIED] = "denied"};
static_assert(ARRAY_SIZE(states) == QUESTION_NSTATES, "a name for each state");

const char *question_state_str(enum question_state state)
{
	return states[state];
}

static void question_free(struct question *q)
{
	free(q->who);
	free(q->method);
	free(q->scheme);
	free(q->host);
	free(q->path);
	free(q->decided);
	free(q);
}

static void drop(struct session *s, struct question *q)
{
	struct questions *qs = &s->questions;

	touch_rest(s);
	TAILQ_REMOVE(&qs->list, q, link);
	qs->n[q->state]--;
	qs->mtime[q->state] = clock_now();
	question_free(q);
}

void question_fini(struct session *s)
{
	struct question *q;

	while ((q = TAILQ_FIRST(&s->questions.list)))
		drop(s, q);
}

struct question *question_find(const struct session *s, uint32_t number)
{
	struct question *q;

	TAILQ_FOREACH(q, &s->questions.list, link)
		if (q->number == number)
			return q;
	return NULL;
}

static bool is_by(const struct question *q, const char *who)
{
	const size_t len = strlen(who);

	for (const char *at = q->who; (at = strstr(at, who)); at += len)
		if ((at == q->who || at[-1] == '\n') && (at[len] == '\n' || !at[len]))
			return true;
	return false;
}

const struct question *question_undecided(const struct session *s, const char *who)
{
	const struct question *q;

	TAILQ_FOREACH_REVERSE(q, &s->questions.list, question_list, link)
		if ((q->state == QUESTION_OPEN || q->lapsed) && is_by(q, who))
			return q;
	return NULL;
}

static struct question *find_open(const struct session *s, uint32_t id)
{
	struct question *q;

	TAILQ_FOREACH(q, &s->questions.list, link)
		if (q->state == QUESTION_OPEN && q->id == id)
			return q;
	return NULL;
}

static struct question *first_open(const struct session *s)
{
	struct question *q;

	TAILQ_FOREACH(q, &s->questions.list, link)
		if (q->state == QUESTION_OPEN)
			return q;
	return NULL;
}

size_t question_bytes(const struct question *q)
{
	const char *const texts[] = {q->who, q->method, q->scheme, q->host, q->path, q->decided};
	size_t n = sizeof(*q);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		n += texts[i] ? strlen(texts[i]) : 0;
	return n;
}

/* What is empty was not written down. */
static int fill(char **text)
{
	if (!*text)
		*text = strdup("");
	return *text ? 0 : -ENOMEM;
}

int question_revive(struct session *s, struct question *q, int e)
{
	char **const texts[] = {&q->who, &q->method, &q->scheme, &q->host, &q->path};

	if (e == 0 && (!q->number || q->number > s->questions.last || question_find(s, q->number) ||
		       (q->state == QUESTION_OPEN && find_open(s, q->id)) ||
		       s->questions.n[q->state] >= QUESTIONS_OPEN_MAX + QUESTIONS_KEPT))
		e = -EBADMSG;
	for (size_t i = 0; i < ARRAY_SIZE(texts) && e == 0; i++)
		e = fill(texts[i]);
	if (e < 0) {
		question_free(q);
		return e;
	}
	TAILQ_INSERT_TAIL(&s->questions.list, q, link);
	s->questions.n[q->state]++;
	return 0;
}

/* ---- in words ---- */

static bool is_standard(const struct question *q)
{
	return q->port == (strcmp(q->scheme, "https") == 0 ? 443 : 80);
}

int question_what(const struct question *q, struct buf *out)
{
	const bool known = *q->method;

	if (!known)
		return buf_printf(out, "%s %s %u", q->scheme, q->host, q->port);
	if (is_standard(q))
		return buf_printf(out, "%s %s://%s%s", q->method, q->scheme, q->host, q->path);
	return buf_printf(out, "%s %s://%s:%u%s", q->method, q->scheme, q->host, q->port, q->path);
}

/* Rule @i of a text, from 1. Return: as buf_append(). */
static int put_rule(const char *text, unsigned i, struct buf *out)
{
	struct rules rules;
	char why[128], *line = NULL;
	int n, r = 0;

	if (!text || rules_parse(text, strlen(text), &rules, why) < 0)
		return 0;
	n = i <= rules.n ? rules_print(&rules, i - 1, NULL, 0) : -1;
	if (n >= 0)
		line = malloc((size_t)n + 1);
	if (line) {
		rules_print(&rules, i - 1, line, (size_t)n + 1);
		r = buf_printf(out, ": %s", line);
	}
	free(line);
	rules_fini(&rules);
	return r;
}

int question_why(const struct session *s, const struct question *q, struct buf *out)
{
	const unsigned i = q->rule & ~SANDBOX_RULE_FIRST;
	const bool first = q->rule & SANDBOX_RULE_FIRST;
	int r;

	if (!q->rule)
		return buf_printf(out, "neither net/allow nor a rule allows it, and ask = yes");
	r = buf_printf(out, "rule %u %s asks", i, first ? "of the administrator" : "of net/rules");
	/* The rules may have changed since then. */
	if (r >= 0 && q->state == QUESTION_OPEN)
		r = put_rule(first ? s->fs->conf->limits.first_rules
				   : s->settings.spec.policy.rules,
			     i, out);
	return r;
}

/* ---- as a rule ---- */

/* @text as a pattern that nothing but the path itself fits. Return: 0, -EINVAL, -ENOMEM. */
static int put_pattern(const char *text, size_t len, struct buf *out)
{
	_cleanup_free_ char *plain = malloc(HTTP_PATTERN_PLAIN_SIZE(HTTP_PATTERN_MAX));
	_cleanup_free_ char *bare = malloc(HTTP_PATTERN_BARE_SIZE(HTTP_PATTERN_MAX));
	const size_t begin = out->len;
	int r = plain && bare ? 0 : -ENOMEM;

	for (size_t i = 0; i < len && r >= 0; i++)
		r = text[i] == '*' ? buf_append(out, "%2A", 3) : buf_append(out, &text[i], 1);
	if (r >= 0 && http_pattern_parse(out->data + begin, out->len - begin, plain, bare))
		r = -EINVAL;
	if (r < 0)
		out->len = begin;
	return r;
}

static int put_path(const struct question *q, struct buf *out)
{
	_cleanup_free_ struct http_path *path = malloc(sizeof(*path));
	int r;

	if (!path)
		return -ENOMEM;
	if (http_path_read(q->path, strlen(q->path), path) < 0)
		return -EINVAL;
	/* As it was written, if that can stand there. */
	r = put_pattern(q->path, strcspn(q->path, "?"), out);
	return r == -EINVAL ? put_pattern(path->plain, strlen(path->plain), out) : r;
}

/* Is that what was read, and nothing else? */
static bool says_it(const struct rules *rules, const struct question *q)
{
	const struct rule *r = &rules->rule[0];

	return rules->n == 1 && !strpbrk(q->method, "*,") &&
	       !strcmp(r->methods, *q->method ? q->method : "*") &&
	       (r->place.host.kind == ALLOW_NAME || r->place.host.kind == ALLOW_ADDRESS) &&
	       !strcmp(r->place.host.name, q->host) && r->place.host.port == q->port &&
	       !r->place.plain == !*q->method;
}

int question_rule(const struct question *q, bool allowed, struct buf *out)
{
	const enum rule_verb verb = allowed ? RULE_ALLOW : RULE_DENY;
	const bool known = *q->method;
	const size_t begin = out->len;
	struct rules rules;
	char why[128];
	int r = buf_printf(out, "%s %s %s:%u", rule_verb_str(verb), known ? q->method : "*",
			   q->host, q->port);

	if (r >= 0 && known)
		r = put_path(q, out);
	if (r >= 0)
		r = rules_parse(out->data + begin, out->len - begin, &rules, why);
	if (r < 0) {
		out->len = begin;
		return r == -E2BIG ? -EINVAL : r;
	}
	r = says_it(&rules, q) ? 0 : -EINVAL;
	rules_fini(&rules);
	if (r < 0)
		out->len = begin;
	return r;
}

/* ---- told ---- */

static void tell(struct session *s, const struct question *q, const char *kind)
{
	struct netlog_rate *rate = &s->questions.events;
	struct buf what = {0};

	if (!rate_take(&rate->rate, EVENTS_BURST, REFILL_MS, uv_now(s->fs->loop))) {
		rate->quiet++;
		return;
	}
	if (question_what(q, &what) >= 0)
		events_add_question(&s->fs->events, s, kind, q, buf_str(&what), rate->quiet);
	if (q->decided && buf_printf(&what, ": %s", q->decided) < 0)
		what.len = 0;
	audit_event(s->fs, s, kind, buf_str(&what));
	buf_clear(&what);
	rate->quiet = 0;
}

static void touched(struct session *s, struct question *q, enum question_state was)
{
	touch_rest(s);
	q->mtime = clock_now();
	s->questions.mtime[was] = s->questions.mtime[q->state] = q->mtime;
	keeping_changed(s);
}

/* ---- asked ---- */

/* Whoever decides sees all there is of it: what is not ASCII is in none of these but a path, and there it is encoded. */
static char *printable(const char *text)
{
	char *copy = strdup(text);

	for (char *c = copy; c && *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return copy;
}

static char *printable_path(const char *text)
{
	char *copy = malloc(3 * strlen(text) + 1), *to = copy;

	if (!copy)
		return NULL;
	for (; *text; text++) {
		if (*text > ' ' && *text <= '~')
			*to++ = *text;
		else
			to += snprintf(to, 4, "%%%02X", (unsigned char)*text);
	}
	*to = '\0';
	return copy;
}

static struct question *question_new(struct session *s, const struct sandbox_asked *what)
{
	struct question *q = calloc(1, sizeof(*q));
	struct buf who = {0};

	if (!q)
		return NULL;
	*q = (struct question){
		.id = what->id,
		.asked_ms = what->time_ms,
		.until_ms = what->until_ms,
		.method = printable(what->method),
		.scheme = printable(what->scheme),
		.host = printable(what->host),
		.path = printable_path(what->path),
		.port = what->port,
		.rule = what->rule,
	};
	if (network_who(s, what->time_ms, "\n", &who) >= 0)
		q->who = strdup(buf_str(&who));
	buf_clear(&who);
	if (q->method && q->scheme && q->host && q->path && q->who)
		return q;
	question_free(q);
	return NULL;
}

void question_asked(struct session *s, const struct sandbox_asked *what)
{
	struct questions *qs = &s->questions;
	struct question *q = find_open(s, what->id);

	if (q) { /* another daemon had been asked */
		touch_rest(s);
		q->until_ms = what->until_ms;
		return;
	}
	if (qs->n[QUESTION_OPEN] < QUESTIONS_OPEN_MAX)
		q = question_new(s, what);
	if (!q) {
		sandbox_decide(s->sandbox, what->id, false);
		return;
	}
	q->number = ++qs->last;
	TAILQ_INSERT_TAIL(&qs->list, q, link);
	qs->n[QUESTION_OPEN]++;
	touched(s, q, QUESTION_OPEN);
	session_used(s); /* it is not put to sleep while somebody thinks */
	tell(s, q, "asked");
}

/* ---- decided ---- */

/* The oldest decided ones go. */
static void trim(struct session *s, enum question_state state)
{
	struct question *q, *next;

	for (q = TAILQ_FIRST(&s->questions.list); q; q = next) {
		next = TAILQ_NEXT(q, link);
		if (s->questions.n[state] <= QUESTIONS_KEPT)
			return;
		if (q->state == state)
			drop(s, q);
	}
}

static void move(struct session *s, struct question *q, enum question_state to, const char *how,
		 ...) printf_like(4, 5);

static void move(struct session *s, struct question *q, enum question_state to, const char *how,
		 ...)
{
	const struct timespec now = clock_now();
	const enum question_state was = q->state;
	va_list ap;

	assert(was == QUESTION_OPEN && to != QUESTION_OPEN);
	va_start(ap, how);
	if (vasprintf(&q->decided, how, ap) < 0)
		q->decided = NULL;
	va_end(ap);
	q->decided_ms = clock_ms(&now);
	s->questions.n[was]--;
	q->state = to;
	s->questions.n[to]++;
	TAILQ_REMOVE(&s->questions.list, q,
		     link); /* decided ones are in the order of their decisions */
	TAILQ_INSERT_TAIL(&s->questions.list, q, link);
	touched(s, q, was);
	tell(s, q, "decided");
	trim(s, to);
}

/* It is denied, because nobody has decided it. */
static void lapse(struct session *s, struct question *q, const char *how)
{
	q->lapsed = true;
	move(s, q, QUESTION_DENIED, "%s", how);
}

void question_decide(struct session *s, struct question *q, bool allowed, uid_t uid)
{
	const uint32_t id = q->id;

	if (s->sandbox)
		sandbox_decide(s->sandbox, id, allowed);
	session_used(s);
	move(s, q, allowed ? QUESTION_ALLOWED : QUESTION_DENIED, "%s%s by uid %u",
	     allowed ? "allowed" : "denied", q->always ? " for good," : " once,", (unsigned)uid);
}

void question_forget(struct session *s, struct question *q, uid_t uid)
{
	const uint32_t number = q->number;

	q->always = false;
	if (q->state == QUESTION_OPEN)
		question_decide(s, q, false, uid);
	q = question_find(s, number);
	if (q)
		drop(s, q);
}

void question_set_always(struct session *s, struct question *q, bool always)
{
	q->always = always;
	touched(s, q, q->state);
}

/* What is said of it now, as the filter has judged it. */
static bool is_allowed(const struct session *s, const struct question *q)
{
	const struct net_policy policy = network_policy(s, &s->settings);
	_cleanup_free_ char *list = network_list(s, &s->settings);
	_cleanup_free_ struct http_path *path = malloc(sizeof(*path));
	const bool known = *q->method;
	struct in_addr address = {0};
	struct egress egress;
	struct verdict v;
	char why[128];

	if (!list || !path || (known && http_path_read(q->path, strcspn(q->path, "?"), path) < 0) ||
	    egress_parse(list, &policy, &egress, why) < 0)
		return false;
	if (inet_pton(AF_INET, q->host, &address) != 1)
		address.s_addr = 0;
	v = egress_judge(&egress, q->method, q->host, address.s_addr, q->port, known ? path : NULL);
	egress_fini(&egress);
	return v.verb == RULE_ALLOW;
}

void question_unasked(struct session *s, uint32_t id, unsigned why)
{
	struct question *q = find_open(s, id);

	if (!q)
		return;
	switch (why) {
	case SANDBOX_UNASKED_LATE: lapse(s, q, "denied, for nobody decided in time"); return;
	case SANDBOX_UNASKED_RULES:
		if (is_allowed(s, q))
			move(s, q, QUESTION_ALLOWED,
			     "allowed by what net/rules or net/allow say now");
		else
			move(s, q, QUESTION_DENIED,
			     "denied by what net/rules or net/allow say now");
		return;
	default: lapse(s, q, "nobody waits for it any more: the program gave up");
	}
}

void question_sandbox_gone(struct session *s)
{
	struct question *q;

	while ((q = first_open(s)))
		lapse(s, q, QUESTION_SANDBOX_GONE);
}
