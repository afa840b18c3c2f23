/* SPDX-License-Identifier: Apache-2.0 */
/* Flows begin: where they lead, who guards them, leave, and the server that is dialled. See flow.c. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "flow_internal.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

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

static enum guard_duty duty_of(unsigned reason, const struct prospect *p, uint16_t port)
{
	if (reason != NET_OK)
		return GUARD_REQUESTS;
	if (p->look)
		return p->guarded || port == 443 ? GUARD_REQUESTS_HELD : GUARD_REQUESTS;
	return p->no_proxy ? GUARD_PROXIES : GUARD_NAMES;
}

/* ---- begun ---- */

void flow_accept(struct net *net, int fd, uint32_t address, uint16_t port)
{
	struct way way;
	unsigned reason = net_find_way(net, address, port, &way);
	struct flow *f = flow_new(net, fd, -1);

	if (!f)
		return;
	f->alias = address;
	f->by_alias = alias_find(&net->aliases, address, net->now) != NULL;
	f->to.address = way.address;
	f->to.port = port;
	memcpy(f->to.host, way.name, sizeof(f->to.host));
	f->verdict = way.prospect.verdict;
	flow_count_user(net, f, 1);
	f->refused = reason;
	if (reason != NET_OK &&
	    !net_has_words(net, port)) { /* the list has changed during the handshake */
		flow_refuse(net, f, reason);
		return;
	}
	f->guarded = reason != NET_OK || way.prospect.guarded || way.prospect.look;
	f->no_proxy = way.prospect.no_proxy;
	if (f->guarded || f->no_proxy)
		f->guard = guard_for(port, duty_of(reason, &way.prospect, port));
	if (f->guard.kind == GUARD_OPEN || guard_sniffs(&f->guard))
		flow_admit(net, f);
}

void flow_forward(struct net *net, int guest, int host)
{
	struct flow *f = flow_new(net, guest, host);

	if (!f)
		return;
	f->inbound = true;
	f->state = FLOW_OPEN;
}

/* ---- there is an answer ---- */

static struct flow *find_dialled(struct net *net, uint32_t id)
{
	struct flow *f;

	TAILQ_FOREACH(f, &net->flows.list, link)
		if (f->id == id && (f->state == FLOW_DIALING || f->asked_dial))
			return f;
	return NULL;
}

void flow_dialed(struct net *net, uint32_t id, unsigned reason, int fd)
{
	struct flow *f = find_dialled(net, id);

	if (!f) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (reason == NET_OK && fd < 0)
		reason = NET_UNREACHABLE; /* there was no descriptor left for it */
	f->asked_dial = false;
	f->fd[SIDE_HOST] = fd;
	if (f->proxy) {
		proxy_dialed(f->proxy, reason);
		flow_serve(net, f);
		return;
	}
	f->state = FLOW_OPEN; /* the daemon need not be told to hang up */
	if (reason != NET_OK)
		flow_refuse(net, f, reason);
	else
		flow_push(net, f, SIDE_GUEST);
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
