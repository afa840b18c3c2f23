/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a flow: it is made, allowed, dialled, refused, and ends. See flow.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flow_internal.h"
#include "log.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

struct flow *flow_new(struct net *net, int guest, int host)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f) {
		close(guest);
		if (host >= 0)
			close(host);
		return NULL;
	}
	f->id = ++net->flows.next_id;
	f->fd[SIDE_GUEST] = guest;
	f->fd[SIDE_HOST] = host;
	f->place[0] = f->place[1] = -1;
	f->since = net->now;
	f->net = net;
	f->to.scheme = "tcp";
	f->began_ms = ms_now(CLOCK_REALTIME);
	f->began_mono_ms = ms_now(CLOCK_MONOTONIC);
	TAILQ_INSERT_TAIL(&net->flows.list, f, link);
	net->flows.count++;
	net->connections++;
	return f;
}

void flow_count_user(struct net *net, const struct flow *f, int change)
{
	struct alias *alias = f->by_alias ? alias_find(&net->aliases, f->alias, net->now) : NULL;

	if (alias)
		alias->users += (unsigned)change;
}

/* One that was relayed as it is; those that were looked into tell of their requests. */
static void tell(struct net *net, const struct flow *f, unsigned reason)
{
	struct net_logged m = {
		.time_ms = f->began_ms,
		.took_ms = (uint64_t)(ms_now(CLOCK_MONOTONIC) - f->began_mono_ms),
		.bytes_in = f->passed[SIDE_HOST],
		.bytes_out = f->passed[SIDE_GUEST],
		.reason = (uint16_t)reason,
		.refused = reason != NET_OK && reason != NET_UNREACHABLE && reason != NET_WITHDRAWN,
	};

	if (!f->inbound && !f->proxy)
		log_tell(net, &f->to, &f->verdict, &m);
}

static void kill_for(struct net *net, struct flow *f, unsigned reason)
{
	const struct net_header hang_up = {NET_HANG_UP, f->id};

	if (f->state == FLOW_DEAD)
		return;
	if (f->state == FLOW_DIALING || f->asked_dial)
		net_tell(net, &hang_up, sizeof(hang_up));
	tell(net, f, reason);
	ask_give_up(net, &f->asker);
	proxy_free(f->proxy);
	f->proxy = NULL;
	for (int s = 0; s < 2; s++) {
		if (f->fd[s] >= 0)
			close(f->fd[s]);
		f->fd[s] = -1;
		buf_clear(&f->half[s].kept);
	}
	flow_count_user(net, f, -1);
	net->told.ended = true;
	f->state = FLOW_DEAD;
}

void flow_kill(struct net *net, struct flow *f)
{
	if (f->proxy)
		proxy_left(f->proxy);
	/* Who goes before he is let through was not. */
	kill_for(net, f,
		 f->state == FLOW_ASKING     ? NET_HUNG_UP
		 : f->state == FLOW_CHECKING ? f->refused
					     : NET_OK);
}

void flow_refuse(struct net *net, struct flow *f, unsigned reason)
{
	if (reason != NET_UNREACHABLE && f->state != FLOW_DEAD)
		net_deny(net, reason, f->to.host, f->to.port);
	kill_for(net, f, reason);
}

/* ---- dialled ---- */

static struct net_dial dial_message(const struct flow *f)
{
	struct net_dial msg = {
		.header = {NET_DIAL, f->id}, .address = f->to.address, .port = f->to.port};
	const char *host =
		f->proxy ? f->proxy->to.host : f->to.host; /* its first request may have said */

	snprintf(msg.name, sizeof(msg.name), "%s", host);
	return msg;
}

void flow_dial(struct net *net, struct flow *f)
{
	const struct net_dial msg = dial_message(f);

	if (!msg.address)
		budget_name(net, msg.name);
	if (f->proxy)
		f->asked_dial = true;
	else
		f->state = FLOW_DIALING;
	if (net_tell(net, &msg, sizeof(msg)) < 0)
		flow_kill(net, f);
}

/* ---- asked for ---- */

static void on_answered(struct asker *a, unsigned reason)
{
	struct flow *f = container_of(a, struct flow, asker);
	struct way way;

	/* By somebody, and not by rules that have changed. */
	f->left = reason == NET_OK && net_find_way(f->net, f->alias, f->to.port, &way) == NET_OK &&
		  way.prospect.verdict.verb == RULE_ASK;
	if (reason == NET_OK)
		flow_dial(f->net, f);
	else
		flow_refuse(f->net, f, reason);
}

/* What is to be relayed as it is may go on, once somebody has allowed it, if that is needed. */
void flow_admit(struct net *net, struct flow *f)
{
	struct net_asked what = {.address = f->to.address,
				 .rule = f->verdict.rule,
				 .first = f->verdict.first,
				 .port = f->to.port};

	if (f->verdict.verb != RULE_ASK) {
		flow_dial(net, f);
		return;
	}
	snprintf(what.scheme, sizeof(what.scheme), "%s", f->to.scheme);
	snprintf(what.host, sizeof(what.host), "%s", f->to.host);
	f->asker.answered = on_answered;
	f->state = FLOW_ASKING;
	if (ask_for(net, &f->asker, &what) < 0)
		flow_refuse(net, f, NET_BUSY);
}

int flow_dial_again(struct net *net)
{
	const struct flow *f;
	int r = 0;

	TAILQ_FOREACH(f, &net->flows.list, link) {
		const struct net_dial msg = dial_message(f);

		if (r == 0 && (f->state == FLOW_DIALING || f->asked_dial))
			r = net_insist(net, &msg, sizeof(msg));
	}
	return r;
}
