/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are looked into: what their two sides say, in the clear. */
#include "proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "h1.h"
#include "h2.h"
#include "net.h"
#include "tls.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A connection that is looked into has two channels, one to the guest and one to the server, each of them with TLS or without.
 * Bytes of a socket come in at proxy_read(), are decrypted, and are taken by whoever reads that version of HTTP; what is not
 * taken yet stays in the channel's `in`. What is said to a side goes through proxy_say() into `out`, from where flow.c writes it.
 *
 *	guest's socket -> [tls] -> in -> h1/h2 -> proxy_say() -> [tls] -> out -> server's socket	(and the other way)
 *
 * Nothing here waits. Where one side takes nothing, what is for it piles up to PROXY_KEEPS; then the other is not read.
 *
 * When the server is dialled: at the first request that may go on. So nobody outside learns of a request that is refused. Only
 * a client that offers HTTP/2, to a server of which something may be allowed, has it dialled before, at its hello: whether it gets
 * HTTP/2 depends on the server.
 */

#define READ_MAX 16384

static uint8_t clear[READ_MAX];

static int tls_side(struct proxy *p, enum side s, bool h2)
{
	struct tls_kit *kit = net_kit(p->net);
	struct channel *c = &p->side[s];

	if (!kit)
		return -ENOMEM;
	return s == SIDE_GUEST ? tls_accept(kit, p->to.host, &c->out, &c->tls)
			       : tls_connect(kit, p->to.host, h2, &c->out, &c->tls);
}

int proxy_new(struct net *net, const struct destination *to, bool tls, struct proxy **ret_proxy)
{
	struct proxy *p = calloc(1, sizeof(*p));
	int r = 0;

	if (!p)
		return -ENOMEM;
	p->net = net;
	p->to = *to;
	p->to.scheme = tls ? "https" : "http";
	if (tls) {
		r = tls_side(p, SIDE_GUEST, false);
	} else {
		p->side[SIDE_GUEST].up = true;
		p->speech = PROXY_HTTP1;
		r = h1_new(p, &p->h1);
	}
	if (r < 0) {
		proxy_free(p);
		return r;
	}
	*ret_proxy = p;
	return 0;
}

void proxy_free(struct proxy *p)
{
	if (!p)
		return;
	h1_free(p->h1);
	h2_free(p->h2);
	exchange_end(&p->tunnel);
	cleanser_fini(&p->cleanser);
	redact_set_fini(&p->sent);
	for (int s = 0; s < 2; s++) {
		tls_free(p->side[s].tls);
		buf_clear(&p->side[s].later);
		buf_clear(&p->side[s].out);
		buf_clear(&p->side[s].in);
	}
	free(p);
}

/* ---- said ---- */

static void come_up(struct proxy *p, enum side s)
{
	struct channel *c = &p->side[s];

	c->up = true;
	proxy_say(p, s, c->later.data, c->later.len);
	buf_clear(&c->later);
	if (p->over && c->tls)
		proxy_finish(p);
}

void proxy_wrote(struct proxy *p, enum side s, size_t len)
{
	struct channel *c = &p->side[s];

	c->at += len;
	if (c->at == c->out.len) {
		buf_clear(&c->out);
		c->at = 0;
	}
	if (c->full && proxy_pending(p, s) < PROXY_KEEPS) {
		c->full = false;
		proxy_go_on(p);
	}
}

/* ---- who reads it ---- */

static void begin_speech(struct proxy *p, bool h2)
{
	const int r = h2 ? h2_new(p, &p->h2) : h1_new(p, &p->h1);

	p->speech = h2 ? PROXY_HTTP2 : PROXY_HTTP1;
	if (r < 0)
		p->broken = true;
	proxy_go_on(p); /* a server of HTTP/2 may have spoken already */
}

static size_t pass(struct proxy *p, enum side s, const void *bytes, size_t len)
{
	*(s == SIDE_GUEST ? &p->tunnel.bytes_out : &p->tunnel.bytes_in) += len;
	if (s == SIDE_HOST)
		cleanser_feed(&p->cleanser, bytes, len);
	else
		proxy_say(p, SIDE_HOST, bytes, len);
	return len;
}

/* Return: how much of it was taken. */
static size_t take(struct proxy *p, enum side s, const void *bytes, size_t len)
{
	if (p->broken || p->over)
		return len;
	switch (p->speech) {
	case PROXY_HTTP1: return h1_take(p->h1, s, bytes, len);
	case PROXY_HTTP2: return h2_take(p->h2, s, bytes, len);
	case PROXY_TUNNEL: return pass(p, s, bytes, len);
	case PROXY_SILENT: break;
	}
	return 0;
}

/* What was not taken stays, until it is tried again. */
static void hand_on(struct proxy *p, enum side s, const uint8_t *bytes, size_t len)
{
	struct channel *c = &p->side[s];

	p->heard = p->heard || s == SIDE_GUEST;
	while (len > 0 && c->in.len == 0) {
		const size_t n = take(p, s, bytes, len);

		if (n == 0)
			break;
		bytes += n;
		len -= n;
	}
	if (len > 0 && buf_append(&c->in, bytes, len) < 0)
		p->broken = true;
}

/* Tries again with what has stayed. */
static void try_again(struct proxy *p, enum side s)
{
	struct channel *c = &p->side[s];
	size_t at = 0, n;

	while (at < c->in.len && (n = take(p, s, c->in.data + at, c->in.len - at)) > 0)
		at += n;
	if (at == c->in.len) {
		buf_clear(&c->in);
	} else if (at > 0) {
		memmove(c->in.data, c->in.data + at, c->in.len - at);
		c->in.len -= at;
	}
}

void proxy_left(struct proxy *p)
{
	if (!p->side[SIDE_GUEST].tls || p->heard || p->broken || p->over)
		return;
	p->heard = true;
	exchange_note(p->net, &p->to, NET_CLIENT);
}

static void tell_end(struct proxy *p, enum side s)
{
	struct channel *c = &p->side[s];
	/* Its rest, be it the body, is not read while somebody is asked: who has gone meanwhile is not waited for. */
	const bool gave_up = s == SIDE_GUEST && p->speech == PROXY_HTTP1 && h1_asks(p->h1);

	if (!c->ended || c->told || (c->in.len > 0 && !gave_up) || p->over || p->broken)
		return;
	c->told = true;
	if (s == SIDE_GUEST)
		proxy_left(p);
	switch (p->speech) {
	case PROXY_HTTP1: h1_ended(p->h1, s, c->cut); break;
	case PROXY_HTTP2: h2_ended(p->h2, s, c->cut); break;
	case PROXY_TUNNEL:
		p->abrupt = p->abrupt || c->cut;
		cleanser_finish(&p->cleanser);
		proxy_finish(p);
		break;
	case PROXY_SILENT: /* a server that has failed: the guest's handshake goes on, to tell it */
		p->broken = p->broken || s == SIDE_GUEST || p->failed == NET_OK;
		break;
	}
}

void proxy_run(struct proxy *p)
{
	/* Each turn of it takes something, or is the last. */
	while (p->again && !p->broken) {
		p->again = false;
		try_again(p, SIDE_HOST);
		try_again(p, SIDE_GUEST);
	}
	tell_end(p, SIDE_HOST);
	tell_end(p, SIDE_GUEST);
	if (p->speech == PROXY_HTTP2 && p->h2)
		h2_run(p->h2);
}

/* ---- TLS ---- */

/* The client has said what it speaks. */
static void choose(struct proxy *p)
{
	struct tls *t = p->side[SIDE_GUEST].tls;
	const bool refused = !*p->to.host;
	struct prospect f;

	snprintf(p->to.host, sizeof(p->to.host), "%s", tls_name(t));
	f = egress_foresee(&p->net->egress, p->to.host, p->to.address, p->to.port);
	if (refused && f.may &&
	    !f.look) { /* it is allowed by now, and not to be looked into: the next lookup leads there */
		p->broken = true;
		return;
	}
	if (tls_offers_h2(t) && f.may && p->failed == NET_OK && !p->side[SIDE_HOST].up) {
		proxy_dial(p);
		return;
	}
	tls_choose(t,
		   tls_offers_h2(t) && p->side[SIDE_HOST].up && tls_is_h2(p->side[SIDE_HOST].tls));
	proxy_go_on(p);
}

/* The program in the sandbox has given up, most likely because it does not trust the session's certificates. */
static void client_failed(struct proxy *p)
{
	exchange_note(p->net, &p->to, NET_CLIENT);
	p->broken = true;
}

static void untrusted(struct proxy *p, const struct tls *t)
{
	snprintf(p->why, sizeof(p->why), "%s", tls_why(t));
	proxy_dialed(p, NET_UNTRUSTED);
}

/* Goes on with the handshake of a side. Return: is it done? */
static bool shake(struct proxy *p, enum side s)
{
	struct channel *c = &p->side[s];
	enum tls_stage stage = tls_shake(c->tls);

	if (stage == TLS_CHOOSES && s == SIDE_GUEST) {
		choose(p);
		if (p->again)
			stage = tls_shake(c->tls);
	}
	if (stage == TLS_FAILED && s == SIDE_HOST)
		untrusted(p, c->tls);
	else if (stage == TLS_FAILED)
		client_failed(p);
	if (stage != TLS_OPEN)
		return false;
	if (s == SIDE_GUEST)
		begin_speech(p, tls_is_h2(c->tls));
	come_up(p, s);
	if (s == SIDE_HOST &&
	    p->speech == PROXY_SILENT) /* the guest's handshake has waited for it */
		(void)shake(p, SIDE_GUEST);
	return true;
}

static void decrypt(struct proxy *p, enum side s)
{
	struct channel *c = &p->side[s];
	ssize_t n = -EAGAIN;

	if (!c->up && !shake(p, s))
		return;
	while (!p->broken && (n = tls_read(c->tls, clear, sizeof(clear))) > 0)
		hand_on(p, s, clear, (size_t)n);
	if (n == 0)
		c->ended = true;
	else if (n < 0 && n != -EAGAIN)
		c->ended = c->cut = true;
}

void proxy_read(struct proxy *p, enum side s, const void *bytes, size_t len)
{
	struct channel *c = &p->side[s];

	if (p->broken || (p->over && s == SIDE_GUEST) || c->ended)
		return;
	if (c->tls) {
		if (tls_feed(c->tls, bytes, len) < 0)
			p->broken = true;
		decrypt(p, s);
	} else {
		hand_on(p, s, bytes, len);
	}
	proxy_run(p);
}

void proxy_ended(struct proxy *p, enum side s)
{
	struct channel *c = &p->side[s];

	if (c->ended)
		return;
	c->ended = true;
	c->cut = c->tls != NULL;
	if (s == SIDE_HOST && !c->up && !p->over && p->failed == NET_OK) {
		snprintf(p->why, sizeof(p->why), "the connection was cut off");
		proxy_dialed(p, NET_UNREACHABLE);
	}
	proxy_run(p);
}

void proxy_dialed(struct proxy *p, unsigned reason)
{
	const bool tls = p->side[SIDE_GUEST].tls;
	const bool h2 = tls && p->speech == PROXY_SILENT && tls_offers_h2(p->side[SIDE_GUEST].tls);

	p->dialed = true;
	if (reason == NET_OK && !tls) {
		come_up(p, SIDE_HOST);
	} else if (reason == NET_OK) {
		if (tls_side(p, SIDE_HOST, h2) < 0)
			p->broken = true;
		else
			(void)shake(p, SIDE_HOST);
	} else {
		p->failed = reason;
		buf_clear(&p->side[SIDE_HOST].later);
		if (p->speech == PROXY_SILENT)
			(void)shake(p, SIDE_GUEST);
		else if (p->speech == PROXY_HTTP1)
			h1_unreachable(p->h1);
		else if (p->speech == PROXY_HTTP2)
			h2_unreachable(p->h2);
	}
	proxy_run(p);
}

/* ---- looked at ---- */

void proxy_recheck(struct proxy *p)
{
	if (p->speech == PROXY_HTTP1)
		h1_recheck(p->h1);
	else if (p->speech == PROXY_HTTP2)
		h2_recheck(p->h2);
	else if (p->speech == PROXY_TUNNEL && exchange_recheck(&p->tunnel) != NET_OK) {
		exchange_fail(&p->tunnel, NET_WITHDRAWN);
		p->broken = true;
	}
}

bool proxy_wants(const struct proxy *p, enum side s)
{
	const struct channel *c = &p->side[s], *other = &p->side[!s];

	if (p->over)
		return s == SIDE_GUEST && !c->ended; /* it is thrown away: so its end is seen */
	return !c->ended && c->in.len < PROXY_KEEPS &&
	       other->later.len + proxy_pending(p, !s) < PROXY_KEEPS;
}
