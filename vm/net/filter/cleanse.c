/* SPDX-License-Identifier: Apache-2.0 */
/* Takes secrets out of what a server says on a connection over which they may have gone. */
#include "cleanse.h"

#include <string.h>
#include <strings.h>

#include "head.h"
#include "net.h"
#include "proxy.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Servers repeat what they were sent: in pages that show a request, in errors, in redirects. So all that comes back over a
 * connection to a server that may get secrets is searched for them, whichever request it answers.
 *
 * What redact.c holds back would never come where a server waits for the guest before it says more: over WebSocket, in a stream of
 * events, and in those of gRPC and the like. There it goes on when nothing has come for HOLD_MS, whatever it is. That time counts
 * only while the server is listened to: a guest that does not read cannot make a secret come in two parts. Of all other answers
 * nothing goes on before more has come, or the end.
 */

#define HOLD_MS 60

void cleanser_init(struct cleanser *c, struct proxy *p,
		   void (*emit)(void *data, const void *bytes, size_t len), void *data)
{
	c->p = p;
	c->redact.set = &p->sent;
	c->redact.emit = emit;
	c->redact.data = data;
}

static void unlist(struct cleanser *c)
{
	if (!c->listed)
		return;
	TAILQ_REMOVE(&c->p->net->secrets.cleansers, c, link);
	c->listed = false;
}

void cleanser_fini(struct cleanser *c)
{
	unlist(c);
	redact_fini(&c->redact);
}

static void note_held(struct cleanser *c)
{
	if (!redact_holds(&c->redact)) {
		unlist(c);
		return;
	}
	c->until_ms = ms_now(CLOCK_MONOTONIC) + HOLD_MS;
	if (!c->listed)
		TAILQ_INSERT_TAIL(&c->p->net->secrets.cleansers, c, link);
	c->listed = true;
}

void cleanser_feed(struct cleanser *c, const void *bytes, size_t len)
{
	if (redact_feed(&c->redact, bytes, len) < 0)
		c->p->broken = true;
	note_held(c);
}

void cleanser_finish(struct cleanser *c)
{
	redact_finish(&c->redact);
	unlist(c);
}

void cleanse_prepare(struct net *net, bool (*listens)(const struct proxy *p), int *timeout_ms)
{
	const int64_t now_ms = ms_now(CLOCK_MONOTONIC);
	struct cleanser *c;

	TAILQ_FOREACH(c, &net->secrets.cleansers, link) {
		c->stalled = c->blocked || !c->streams || !listens(c->p);
		if (!c->stalled)
			net_wake_at(timeout_ms, now_ms, c->until_ms);
	}
}

void cleanse_run(struct net *net)
{
	const int64_t now_ms = ms_now(CLOCK_MONOTONIC);
	struct cleanser *c, *next;

	for (c = TAILQ_FIRST(&net->secrets.cleansers); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->stalled) {
			c->until_ms = now_ms + HOLD_MS;
		} else if (now_ms >= c->until_ms) {
			unlist(c);
			redact_flush(&c->redact);
		}
	}
}

/* ---- heads ---- */

bool cleanse_streams(const struct head *head)
{
	static const char *const types[] = {"text/event-stream",	"application/grpc",
					    "application/x-ndjson",	"application/jsonl",
					    "application/json-seq",	"application/stream+json",
					    "multipart/x-mixed-replace"};
	const char *type = head_value(head, "Content-Type");

	for (size_t i = 0; type && i < ARRAY_SIZE(types); i++)
		if (!strncasecmp(type, types[i], strlen(types[i])))
			return true;
	return false;
}

/* Does a field say that the body is encoded? */
static bool is_encoded(const struct head *h, const char *name, const char *plain)
{
	for (int i = head_find(h, name, 0); i >= 0; i = head_find(h, name, (unsigned)i + 1)) {
		const char *v = head_value_of(h, (unsigned)i);

		v += strspn(v, " \t");
		if (*v && (strncasecmp(v, plain, strlen(plain)) != 0 ||
			   v[strlen(plain) + strspn(v + strlen(plain), " \t")]))
			return true;
	}
	return false;
}

unsigned cleanse_head(const struct proxy *p, const struct exchange *x, struct head *head,
		      bool trailer)
{
	if (*x->secret && !trailer &&
	    (is_encoded(head, "Content-Encoding", "identity") ||
	     is_encoded(head, "Transfer-Encoding", "chunked")))
		return NET_SECRET_HIDDEN;
	if (p->sent.n == 0)
		return NET_OK;
	(void)redact_text(&p->sent, head->first.data, head->first.len);
	for (unsigned i = 0; i < head->n; i++) {
		struct head_field *f = &head->field[i];

		/* A name that has one would be no name any more. */
		if (!f->gone && redact_text(&p->sent, head->text.data + f->name, f->name_len))
			f->gone = true;
		if (!f->gone)
			(void)redact_text(&p->sent, head->text.data + f->value, f->value_len);
	}
	return NET_OK;
}
