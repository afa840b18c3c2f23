/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network in a record: from one daemon to the next. Its filter goes on with all connections. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "network_internal.h"
#include "vm/base/allow.h"
#include "vm/base/fdbag.h"
#include "vm/base/problem.h"
#include "vm/base/record_table.h"
#include "vm/net/dialer_process.h"
#include "vm/spawn/child_record.h"

/* Never reuse one. */
enum {
	TAG_LOST = 1, /* its filter has ended */
	TAG_ALLOW,
	TAG_FILTER,
	TAG_GATEWAY,
	TAG_PORT, /* fields: TAG_PORT_* */
	TAG_HAS_TRAFFIC,
	TAG_BYTES_IN,
	TAG_BYTES_OUT,
	TAG_CONNECTIONS,
	TAG_OPEN,
	TAG_CARD,
	TAG_CARD_IS_STREAM,
	TAG_FIRST_RULES,
	TAG_RULES,
	TAG_SECRETS,
	TAG_ASK,
	TAG_ASK_S,
	TAG_LEARN,
	TAG_MOST_BYTES,
	TAG_MOST_REQUESTS,
	TAG_MOST_CONNECTIONS,
	TAG_USED_BYTES,
	TAG_USED_REQUESTS,
	TAG_USED_CONNECTIONS,
	TAG_RATE,
	TAG_SECRETS_FILE,
	TAG_REQUESTS,
};

enum { TAG_PORT_GUEST = 1, TAG_PORT_HOST, TAG_PORT_LISTENER };

#define MEMBER(member, tag, max) RECORD_MEMBER(struct network, member, tag, max)

static const struct record_member members[] = {
	MEMBER(lost, TAG_LOST, 1),
	MEMBER(has_traffic, TAG_HAS_TRAFFIC, 1),
	MEMBER(traffic.bytes_in, TAG_BYTES_IN, UINT64_MAX),
	MEMBER(traffic.bytes_out, TAG_BYTES_OUT, UINT64_MAX),
	MEMBER(traffic.connections, TAG_CONNECTIONS, UINT64_MAX),
	MEMBER(traffic.requests, TAG_REQUESTS, UINT64_MAX),
	MEMBER(traffic.open, TAG_OPEN, UINT32_MAX),
	MEMBER(card_is_stream, TAG_CARD_IS_STREAM, 1),
	MEMBER(policy.ask, TAG_ASK, 1),
	MEMBER(policy.ask_s, TAG_ASK_S, UINT32_MAX),
	MEMBER(policy.learn, TAG_LEARN, 1),
	MEMBER(policy.most.bytes, TAG_MOST_BYTES, UINT64_MAX),
	MEMBER(policy.most.requests, TAG_MOST_REQUESTS, UINT64_MAX),
	MEMBER(policy.most.connections, TAG_MOST_CONNECTIONS, UINT64_MAX),
	MEMBER(policy.used.bytes, TAG_USED_BYTES, UINT64_MAX),
	MEMBER(policy.used.requests, TAG_USED_REQUESTS, UINT64_MAX),
	MEMBER(policy.used.connections, TAG_USED_CONNECTIONS, UINT64_MAX),
	MEMBER(policy.rate, TAG_RATE, UINT64_MAX),
};

/* ---- writing ---- */

static void put_port(const struct port *p, struct buf *out, struct fdbag *fds)
{
	const size_t at = record_open(out, TAG_PORT);

	record_u64(out, TAG_PORT_GUEST, p->guest);
	record_u64(out, TAG_PORT_HOST, p->host);
	record_u64(out, TAG_PORT_LISTENER, fdbag_put(fds, p->listener));
	record_close(out, at);
}

/* One that has ended, and of which that was not said yet, says so by its process; it has no gateway then. */
static void put_filter(const struct network *n, struct buf *out, struct fdbag *fds)
{
	size_t at = record_open(out, TAG_FILTER);

	program_put(&n->filter, out, fds);
	record_close(out, at);
	if (!n->gateway)
		return;
	at = record_open(out, TAG_GATEWAY);
	gateway_put(n->gateway, out, fds);
	record_close(out, at);
}

void network_put(const struct sandbox *s, struct buf *out, struct fdbag *fds)
{
	const struct network *n = s->network;

	if (!n)
		return;
	record_put_members(out, n, members, ARRAY_SIZE(members));
	record_str(out, TAG_ALLOW, n->allow);
	record_str(out, TAG_FIRST_RULES, n->policy.first);
	record_str(out, TAG_RULES, n->policy.rules);
	record_str(out, TAG_SECRETS, n->policy.secrets);
	record_str(out, TAG_SECRETS_FILE, n->policy.secrets_file);
	for (size_t i = 0; i < SANDBOX_PORTS_MAX; i++)
		if (n->ports[i].state == PORT_BOUND)
			put_port(&n->ports[i], out, fds);
	/* Until the filter is known to have it, another one is started with it. */
	if (n->card >= 0)
		record_u64(out, TAG_CARD, fdbag_put(fds, n->card));
	else if (!n->lost)
		put_filter(n, out, fds);
}

/* ---- reading ---- */

struct loader {
	struct network *n;
	struct fdbag *fds;
	struct record_reader filter, gateway;
	bool has_gateway;
	unsigned nports;
	uint32_t card;
};

static int take_port(struct loader *l, const struct record_field *of)
{
	struct record_reader r = record_inside(of);
	uint64_t guest = 0, host = 0;
	uint32_t listener = 0;
	struct record_field f;
	struct port *p;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		switch (f.tag) {
		case TAG_PORT_GUEST: n = record_get(&f, 1, UINT16_MAX, &guest); break;
		case TAG_PORT_HOST: n = record_get(&f, 1, UINT16_MAX, &host); break;
		case TAG_PORT_LISTENER: n = record_get_u32(&f, FDBAG_MAX, &listener); break;
		default: break;
		}
		if (n < 0)
			return n;
	}
	if (n < 0 || !of->is_bytes || !guest || !host || l->nports == SANDBOX_PORTS_MAX)
		return -EBADMSG;
	for (unsigned i = 0; i < l->nports; i++)
		if (l->n->ports[i].guest == guest)
			return -EBADMSG;
	p = &l->n->ports[l->nports];
	*p = (struct port){.network = l->n,
			   .guest = (uint16_t)guest,
			   .host = (uint16_t)host,
			   .listener = fdbag_take(l->fds, listener)};
	if (p->listener < 0)
		return -EBADMSG;
	p->state = PORT_BOUND;
	l->nports++;
	return 0;
}

/* Replaces a text of the network. */
static int take_text(const char **at, size_t max, const struct record_field *f)
{
	char *text = f->len <= max ? malloc(f->len + 1) : NULL;

	if (!text || record_get_str(f, text, f->len + 1) < 0) {
		free(text);
		return -EBADMSG;
	}
	free((char *)*at);
	*at = text;
	return 0;
}

static int take_fields(struct loader *l, struct record_reader r)
{
	struct record_field f;
	int n;

	while ((n = record_field(&r, &f)) > 0) {
		switch (f.tag) {
		case TAG_ALLOW:
			n = take_text((const char **)&l->n->allow, ALLOW_TEXT_MAX, &f);
			break;
		case TAG_FIRST_RULES: n = take_text(&l->n->policy.first, RULES_TEXT_MAX, &f); break;
		case TAG_RULES: n = take_text(&l->n->policy.rules, RULES_TEXT_MAX, &f); break;
		case TAG_SECRETS_FILE:
			n = take_text(&l->n->policy.secrets_file, PATH_MAX, &f);
			break;
		case TAG_SECRETS:
			n = take_text(&l->n->policy.secrets, SECRET_USES_TEXT_MAX, &f);
			break;
		case TAG_FILTER: l->filter = record_inside(&f); break;
		case TAG_GATEWAY:
			l->gateway = record_inside(&f);
			l->has_gateway = true;
			break;
		case TAG_CARD: n = record_get_u32(&f, FDBAG_MAX, &l->card); break;
		case TAG_PORT: n = take_port(l, &f); break;
		default: n = record_take_member(&f, l->n, members, ARRAY_SIZE(members)); break;
		}
		if (n < 0)
			break;
	}
	return n;
}

static int take_filter(struct loader *l)
{
	struct context *ctx = &l->n->s->vm->ctx;
	struct network *n = l->n;
	struct gateway_config cfg;
	int r;

	network_prepare(n);
	r = program_take(&n->filter, ctx->loop, ctx->spawner, l->filter, l->fds);
	if (r < 0)
		return r;
	n->nopen++;
	network_gateway_config(n, &cfg);
	r = l->has_gateway ? gateway_take(ctx->loop, &l->gateway, l->fds, &cfg, &n->gateway)
			   : -EBADMSG;
	if (r == 0)
		n->nopen++;
	else
		child_kill(&n->filter.child); /* which has lost it, then */
	return 0;
}

int network_take(struct sandbox *s, const struct network_ops *ops,
		 const struct record_reader *fields, struct fdbag *fds)
{
	struct loader l = {.fds = fds};
	struct problem p;
	int r = network_make(s, ops);

	if (r < 0 || !s->network)
		return r;
	l.n = s->network;
	l.n->started = true;
	r = fields ? take_fields(&l, *fields) : -EBADMSG;
	if (r == 0)
		l.n->card = fdbag_take(fds, l.card);
	l.n->served = l.n->card < 0;
	if (r == 0 && l.n->served && !l.n->lost)
		r = take_filter(&l);
	if (r < 0 || l.n->lost)
		l.n->lost = l.n->child_gone = true;
	if (r == 0)
		return 0;
	problem_set(&p, PROBLEM_NO_NETWORK, "Reset the session.",
		    "the sandbox's network was not taken over");
	ops->fail(s, &p);
	return 0;
}

void network_go(struct sandbox *s)
{
	struct network *n = s->network;
	int r;

	if (!n || n->lost)
		return;
	if (n->card >= 0) {
		r = network_start_filter(n);
		if (r < 0)
			network_not_started(n, r);
	} else if (n->gateway && network_resync(n) < 0) {
		child_kill(&n->filter.child); /* which has lost it, then */
	}
}
