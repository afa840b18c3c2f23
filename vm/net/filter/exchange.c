/* SPDX-License-Identifier: Apache-2.0 */
/* One request and its answer: judged, asked for, told of. */
#include "exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dress.h"
#include "log.h"
#include "net.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/* ---- judged ---- */

static void put_printable(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; from[n] && n + 1 < size; n++)
		to[n] = from[n] > ' ' && from[n] < 0x7f ? from[n] : '?';
	to[n] = '\0';
}

/* Like it, but what cannot stand there is encoded, so that it is the same path; dots fill it up where it is cut off. */
static void put_target(char to[static NET_PATH_MAX], const char *from)
{
	const size_t most = NET_PATH_MAX - 1;
	size_t n = 0;

	for (; *from && n < most; from++) {
		if (*from > ' ' && *from < 0x7f)
			to[n++] = *from;
		else if (n + 3 <= most)
			n += (size_t)snprintf(to + n, 4, "%%%02X", (unsigned char)*from);
		else
			break;
	}
	if (*from) {
		n = MIN(n, most - 3);
		memset(to + n, '.', most - n);
		n = most;
	}
	to[n] = '\0';
}

/* Is all of its path in `target`? Of what is as long as that, a part may be missing. */
static bool has_whole_path(const struct exchange *x)
{
	return strcspn(x->target, "?") < NET_PATH_MAX - 1;
}

/* `host` or `host:port`. Does it say what the connection is for? */
static bool is_meant(struct destination *to, const char *authority)
{
	const char *colon = strchr(authority, ':');
	char asked[ALLOW_NAME_MAX + 1];
	uint16_t port;

	if (colon && colon[1] &&
	    (allow_port(colon + 1, strlen(colon + 1), &port) < 0 || port != to->port))
		return false;
	if (allow_canonical(authority, colon ? (size_t)(colon - authority) : strlen(authority),
			    asked) < 0)
		return false;
	if (!*to->host)
		snprintf(to->host, sizeof(to->host), "%s", asked);
	return strcmp(asked, to->host) == 0;
}

static struct verdict judge(const struct exchange *x)
{
	return egress_judge(&x->net->egress, x->method, x->to->host, x->to->address, x->to->port,
			    x->path);
}

/* Why it was denied: by a rule, or because nothing allows it. */
static unsigned reason_of(const struct exchange *x)
{
	const struct allow *list = &x->net->egress.allow;

	if (x->verdict.rule)
		return NET_RULE;
	if (x->to->address)
		return allow_literal(list, x->to->address, 0) ? NET_PORT : NET_ADDRESS;
	return allow_name(list, x->to->host, 0) != ALLOW_REFUSED ? NET_PORT : NET_NAME;
}

static void refuse(struct exchange *x, unsigned reason)
{
	x->state = EXCHANGE_REFUSED;
	x->reason = reason;
}

static void settle(struct exchange *x, unsigned reason);

/* A value that it needs has come, or never will. Meanwhile the policy may have changed. */
static void on_secret(struct secret_waiter *w)
{
	struct exchange *x = container_of(w, struct exchange, waiter);

	x->verdict = judge(x);
	settle(x, x->verdict.verb == RULE_ALLOW || (x->verdict.verb == RULE_ASK && x->left)
			  ? NET_OK
			  : NET_WITHDRAWN);
	if (x->state != EXCHANGE_WAITS)
		x->answered(x);
}

static void settle(struct exchange *x, unsigned reason)
{
	if (reason != NET_OK) {
		refuse(x, reason);
	} else if (dress_has_to_wait(x)) {
		x->state = EXCHANGE_WAITS;
		x->waiter.ready = on_secret;
		secrets_wait(x->net, &x->waiter);
	} else {
		x->state = EXCHANGE_GOES;
	}
}

static void on_answered(struct asker *a, unsigned reason)
{
	struct exchange *x = container_of(a, struct exchange, asker);

	x->verdict = judge(x);
	x->left =
		reason == NET_OK && x->verdict.verb == RULE_ASK; /* by somebody, and not by rules */
	settle(x, reason == NET_OK && x->verdict.verb == RULE_DENY ? reason_of(x) : reason);
	if (x->state != EXCHANGE_WAITS)
		x->answered(x);
}

static void ask(struct exchange *x)
{
	struct net_asked what = {
		.address = x->to->address,
		.rule = x->verdict.rule,
		.first = x->verdict.first,
		.port = x->to->port,
	};

	memcpy(what.method, x->method, sizeof(what.method));
	snprintf(what.scheme, sizeof(what.scheme), "%s", x->to->scheme);
	snprintf(what.host, sizeof(what.host), "%s", x->to->host);
	memcpy(what.path, x->target, sizeof(what.path));
	x->asker.answered = on_answered;
	if (!has_whole_path(x))
		refuse(x, NET_LONG);
	else if (ask_for(x->net, &x->asker, &what) < 0)
		refuse(x, NET_BUSY);
	else
		x->state = EXCHANGE_WAITS;
}

/* What cannot be read as a path, or be read in different ways, only matters where something depends on it. */
static unsigned read_path(struct exchange *x, const char *target)
{
	const struct destination *to = x->to;

	if (*target != '/' && strcmp(target, "*") != 0)
		return NET_NOT_HTTP;
	x->path = malloc(sizeof(*x->path));
	if (!x->path)
		return NET_BUSY;
	if (http_path_read(target, strcspn(target, "?"), x->path) == 0)
		return NET_OK;
	free(x->path);
	x->path = NULL;
	return egress_foresee(&x->net->egress, to->host, to->address, to->port).look ? NET_PATH
										     : NET_OK;
}

static unsigned check(struct exchange *x, const char *target, const char *authority)
{
	if (!authority)
		return NET_NO_HOST;
	if (!is_meant(x->to, authority) || !strcmp(x->method, "CONNECT"))
		return NET_HOST;
	return read_path(x, target);
}

bool exchange_takes_any_host(const struct net *net, const struct destination *to)
{
	/* Without a name of its own, it is for the host that it says. */
	return *to->host && egress_foresee(&net->egress, to->host, to->address, to->port).loose;
}

void exchange_begin(struct exchange *x, struct net *net, struct destination *to,
		    const char *version, const char *method, const char *target,
		    const char *authority, bool websocket)
{
	unsigned reason;

	x->net = net;
	x->to = to;
	x->began_ms = ms_now(CLOCK_REALTIME);
	x->began_mono_ms = ms_now(CLOCK_MONOTONIC);
	put_printable(x->method, sizeof(x->method), websocket ? RULES_WEBSOCKET : method);
	put_printable(x->version, sizeof(x->version), version);
	put_target(x->target, target);
	reason = check(x, target, authority);
	if (reason != NET_OK) {
		refuse(x, reason);
		return;
	}
	reason = budget_request(net);
	if (reason != NET_OK) {
		refuse(x, reason);
		return;
	}
	x->verdict = judge(x);
	if (x->verdict.verb == RULE_ASK)
		ask(x);
	else
		settle(x, x->verdict.verb == RULE_ALLOW ? NET_OK : reason_of(x));
}

/* Not refused: it went wrong. */
static bool is_mishap(unsigned reason)
{
	return reason == NET_UNREACHABLE || reason == NET_UNTRUSTED || reason == NET_BAD_ANSWER ||
	       reason == NET_SECRET_MISSING || reason == NET_SECRET_HIDDEN;
}

void exchange_fail(struct exchange *x, unsigned reason)
{
	if (x->state == EXCHANGE_NONE)
		return;
	if (x->state == EXCHANGE_WAITS) {
		ask_give_up(x->net, &x->asker);
		secrets_give_up(x->net, &x->waiter);
	}
	if (!is_mishap(reason))
		x->state = EXCHANGE_REFUSED;
	if (x->reason == NET_OK)
		x->reason = reason;
}

unsigned exchange_recheck(struct exchange *x)
{
	struct verdict v;

	if (x->state != EXCHANGE_GOES)
		return NET_OK;
	v = judge(x);
	if (v.verb == RULE_ALLOW || (v.verb == RULE_ASK && x->left))
		return NET_OK;
	return NET_WITHDRAWN;
}

unsigned exchange_judge_as(struct exchange *x, const char *method)
{
	const struct verdict v = egress_judge(&x->net->egress, method, x->to->host, x->to->address,
					      x->to->port, x->path);

	if (v.verb == RULE_ALLOW)
		return NET_OK;
	put_printable(x->method, sizeof(x->method), method);
	x->verdict = v;
	return reason_of(x);
}

/* ---- told of ---- */

static void tell(const struct exchange *x)
{
	struct net_logged m = {
		.time_ms = x->began_ms,
		.took_ms = (uint64_t)(ms_now(CLOCK_MONOTONIC) - x->began_mono_ms),
		.bytes_in = x->bytes_in,
		.bytes_out = x->bytes_out,
		.status = (uint16_t)x->status,
		.reason = (uint16_t)x->reason,
		.refused = x->state == EXCHANGE_REFUSED,
	};

	memcpy(m.method, x->method, sizeof(m.method));
	memcpy(m.version, x->version, sizeof(m.version));
	memcpy(m.path, x->target, sizeof(m.path));
	snprintf(m.secret, sizeof(m.secret), "%s", x->secret);
	log_tell(x->net, x->to, &x->verdict, &m);
}

void exchange_note(struct net *net, const struct destination *to, unsigned reason)
{
	struct net_logged m = {
		.time_ms = ms_now(CLOCK_REALTIME), .reason = (uint16_t)reason, .refused = true};

	log_tell(net, to, &(struct verdict){RULE_DENY, 0, false}, &m);
}

void exchange_end(struct exchange *x)
{
	void (*const answered)(struct exchange *) = x->answered;

	if (x->state == EXCHANGE_NONE)
		return;
	if (x->state == EXCHANGE_WAITS)
		exchange_fail(x, x->asker.ask ? NET_HUNG_UP : NET_UNREACHABLE); /* he has gone */
	if (x->state == EXCHANGE_REFUSED)
		net_deny(x->net, x->reason, x->to->host, x->to->port);
	tell(x);
	x->net->told.ended = true;
	free(x->path);
	*x = (struct exchange){.answered = answered};
}

/* ---- in words ---- */

static void say_rule(const struct exchange *x, char *text, size_t size)
{
	char rule[512];

	egress_print_rule(&x->net->egress, &x->verdict, rule, sizeof(rule));
	snprintf(text, size, "rule %u of %s denies it: %.300s", x->verdict.rule,
		 x->verdict.first ? "the administrator's" : "net/rules", rule);
}

/* ":8080", or nothing for the usual one. */
static void say_port(const struct destination *to, char text[static 8])
{
	text[0] = '\0';
	if (to->port != (strcmp(to->scheme, "https") ? 80 : 443))
		snprintf(text, 8, ":%u", to->port);
}

/* One that might be a proxy was asked for another host. */
static void say_proxy(const struct exchange *x, char *text, size_t size)
{
	char port[8];

	say_port(x->to, port);
	if (egress_foresee(&x->net->egress, x->to->host, x->to->address, x->to->port).no_proxy)
		snprintf(
			text, size,
			"What a proxy is asked for no rule would see: go there without one, or ask "
			"whoever runs this sandbox for a line in its net/rules: allow * %s%s",
			x->to->host, port);
}

/* How whoever reads it in the sandbox can have it. */
static void say_fix(const struct exchange *x, char *text, size_t size)
{
	char port[8];

	say_port(x->to, port);
	if (x->verdict.rule && x->verdict.first)
		snprintf(text, size, "Only the administrator can change that.");
	else
		snprintf(text, size,
			 "Ask whoever runs this sandbox for a line in its net/rules: allow %s "
			 "%s%s%.300s",
			 x->method, x->to->host, port, x->path ? x->path->plain : "/");
}

unsigned exchange_explain(const struct exchange *x, char *ret_text, size_t size)
{
	char why[600], fix[700] = "", port[8];
	unsigned status = 403;

	snprintf(why, sizeof(why), "%s", net_reason_str(x->reason));
	switch (x->reason) {
	case NET_RULE:
		say_rule(x, why, sizeof(why));
		say_fix(x, fix, sizeof(fix));
		break;
	case NET_NAME:
	case NET_ADDRESS:
	case NET_PORT:
		snprintf(why, sizeof(why), "neither net/allow nor a rule allows it (%s)",
			 net_reason_str(x->reason));
		say_fix(x, fix, sizeof(fix));
		break;
	case NET_HOST: say_proxy(x, fix, sizeof(fix)); break;
	case NET_PRIVATE:
		snprintf(fix, sizeof(fix),
			 "Ask whoever runs this sandbox to spell out in its net/allow the address "
			 "that the name stands for.");
		break;
	case NET_HUNG_UP:
	case NET_DENIED_BY_HAND:
	case NET_NOT_ASKED: say_fix(x, fix, sizeof(fix)); break;
	case NET_NOT_HTTP:
	case NET_PATH:
	case NET_NO_HOST: status = 400; break;
	case NET_LONG: status = 414; break;
	case NET_BUDGET: /* of requests: where it is another one, there is no connection in which to say so */
		snprintf(fix, sizeof(fix), "Ask whoever runs this sandbox for more net_requests.");
		status = 429;
		break;
	case NET_BUSY: status = 429; break;
	case NET_UNREACHABLE:
	case NET_UNTRUSTED:
		if (x->why && *x->why)
			snprintf(why, sizeof(why), "%s", x->why);
		status = 502;
		break;
	case NET_UNRESOLVED:
	case NET_BAD_ANSWER:
	case NET_SECRET_HIDDEN:
	case NET_SECRET_MISSING: status = 502; break;
	default: break;
	}
	say_port(x->to, port);
	snprintf(ret_text, size, "xsbxfs: %s %s://%s%s%s%.200s: %s.%s%s\n", x->method,
		 x->to->scheme, x->to->host, port, *x->target && *x->target != '/' ? " " : "",
		 x->target, why, *fix ? " " : "", fix);
	return status;
}
