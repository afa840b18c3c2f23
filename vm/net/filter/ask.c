/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and connections that wait for somebody to allow them. */
#include "ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

void ask_init(struct asks *asks)
{
	TAILQ_INIT(&asks->list);
}

/* Of what changes something no more than a path is seen: leave for one is not leave for all that look the same. */
static bool is_for_all(const struct net_asked *what)
{
	return !*what->method || !strcmp(what->method, "GET") || !strcmp(what->method, "HEAD") ||
	       !strcmp(what->method, "OPTIONS");
}

static bool is_same(const struct net_asked *a, const struct net_asked *b)
{
	return a->port == b->port && a->rule == b->rule && a->first == b->first &&
	       !strcmp(a->host, b->host) && !strcmp(a->method, b->method) &&
	       !strcmp(a->scheme, b->scheme) && !strcmp(a->path, b->path);
}

static struct ask *ask_new(struct net *net, const struct net_asked *what)
{
	struct ask *ask = net->asks.n < ASKS_MAX ? calloc(1, sizeof(*ask)) : NULL;
	const int64_t wait_ms =
		(net->egress.all.ask_s ? net->egress.all.ask_s : NET_ASK_S_DEFAULT) * 1000LL;

	if (!ask)
		return NULL;
	TAILQ_INIT(&ask->askers);
	ask->msg = *what;
	ask->msg.header = (struct net_header){NET_ASKED, ++net->asks.next_id};
	ask->msg.time_ms = ms_now(CLOCK_REALTIME);
	ask->msg.until_ms = ask->msg.time_ms + wait_ms;
	ask->until_ms = ms_now(CLOCK_MONOTONIC) + wait_ms;
	if (net_tell(net, &ask->msg, sizeof(ask->msg)) < 0) { /* nobody would ever know of it */
		free(ask);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&net->asks.list, ask, link);
	net->asks.n++;
	return ask;
}

int ask_for(struct net *net, struct asker *a, const struct net_asked *what)
{
	struct ask *ask;

	if (net->asks.waiting >= ASKERS_MAX)
		return -EBUSY;
	TAILQ_FOREACH(ask, &net->asks.list, link)
		if (is_same(&ask->msg, what))
			break;
	if (!is_for_all(what) || strlen(what->path) == sizeof(what->path) - 1)
		ask = NULL; /* the path may be cut off, and another one behind that */
	if (!ask)
		ask = ask_new(net, what);
	if (!ask)
		return -EBUSY;
	a->ask = ask;
	TAILQ_INSERT_TAIL(&ask->askers, a, link);
	net->asks.waiting++;
	return 0;
}

static void detach(struct net *net, struct asker *a)
{
	TAILQ_REMOVE(&a->ask->askers, a, link);
	a->ask = NULL;
	net->asks.waiting--;
}

static void ask_free(struct net *net, struct ask *ask)
{
	TAILQ_REMOVE(&net->asks.list, ask, link);
	net->asks.n--;
	free(ask);
}

static void tell_end(struct net *net, const struct ask *ask, unsigned why)
{
	const struct net_unasked msg = {{NET_UNASKED, ask->msg.header.id}, why};

	(void)net_insist(net, &msg, sizeof(msg));
}

void ask_give_up(struct net *net, struct asker *a)
{
	struct ask *ask = a->ask;

	if (!ask)
		return;
	detach(net, a);
	if (!TAILQ_EMPTY(&ask->askers))
		return;
	tell_end(net, ask, NET_UNASKED_GONE);
	ask_free(net, ask);
}

/* All who wait for it are told. */
static void answer(struct net *net, struct ask *ask, unsigned reason)
{
	struct asker *a;

	/* It must not be found by what they do next: the same may be asked for once more. */
	TAILQ_REMOVE(&net->asks.list, ask, link);
	net->asks.n--;
	while ((a = TAILQ_FIRST(&ask->askers))) {
		detach(net, a);
		a->answered(a, reason);
	}
	free(ask);
}

void ask_decide(struct net *net, uint32_t id, bool allowed)
{
	struct ask *ask;

	TAILQ_FOREACH(ask, &net->asks.list, link)
		if (ask->msg.header.id == id)
			break;
	if (ask)
		answer(net, ask, allowed ? NET_OK : NET_DENIED_BY_HAND);
}

static struct verdict judge_again(const struct net *net, const struct net_asked *m)
{
	struct http_path path;
	const bool is_request =
		*m->method && http_path_read(m->path, strcspn(m->path, "?"), &path) == 0;

	return egress_judge(&net->egress, m->method, m->host, m->address, m->port,
			    is_request ? &path : NULL);
}

void ask_recheck(struct net *net)
{
	struct ask *ask, *next;

	for (ask = TAILQ_FIRST(&net->asks.list); ask; ask = next) {
		const struct verdict v = judge_again(net, &ask->msg);

		next = TAILQ_NEXT(ask, link);
		if (v.verb == RULE_ASK)
			continue;
		tell_end(net, ask, NET_UNASKED_RULES);
		answer(net, ask, v.verb == RULE_ALLOW ? NET_OK : NET_RULE);
		next = TAILQ_FIRST(
			&net->asks.list); /* whoever was told may have changed the list */
	}
}

int ask_again(struct net *net)
{
	const struct ask *ask;
	int r = 0;

	TAILQ_FOREACH(ask, &net->asks.list, link)
		if (r == 0)
			r = net_insist(net, &ask->msg, sizeof(ask->msg));
	return r;
}

void ask_prepare(const struct net *net, int *timeout_ms)
{
	const int64_t now = TAILQ_EMPTY(&net->asks.list) ? 0 : ms_now(CLOCK_MONOTONIC);
	const struct ask *ask;

	TAILQ_FOREACH(ask, &net->asks.list, link) {
		const int left = (int)MIN(MAX(ask->until_ms - now, 0), 86400000);

		*timeout_ms = *timeout_ms < 0 ? left : MIN(*timeout_ms, left);
	}
}

void ask_run(struct net *net)
{
	const int64_t now = TAILQ_EMPTY(&net->asks.list) ? 0 : ms_now(CLOCK_MONOTONIC);
	struct ask *ask = TAILQ_FIRST(&net->asks.list);

	while (ask) {
		if (ask->until_ms > now) {
			ask = TAILQ_NEXT(ask, link);
			continue;
		}
		tell_end(net, ask, NET_UNASKED_LATE);
		answer(net, ask, NET_NOT_ASKED);
		ask = TAILQ_FIRST(&net->asks.list);
	}
}
