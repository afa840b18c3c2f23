/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes HTTP/2 between a guest and a server: whatever both say, no request that is refused reaches the server. */
/* modules: vm/net/filter/h2.c vm/net/filter/h2_body.c vm/net/filter/h2_head.c vm/net/filter/h2_stream.c */
/* modules: vm/net/filter/head.c vm/base/buf.c vm/base/net_reason.c */
/* libs: nghttp2 */
#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/net/filter/dress.h"
#include "vm/net/filter/h2.h"
#include "vm/net/filter/h2_internal.h"
#include "vm/net/filter/net.h"
#include "vm/base/net_reason.h"

/*
 * An input is a list of steps. Each begins with a byte: its lowest bit is the side that speaks, the others are one of these kinds.
 *
 *	BYTES	a length, and as many bytes
 *	FRAME	a type, flags, a stream, a length, and as many bytes: with the header that belongs to them
 *	FIELDS	flags, a stream, a status or what the path is, and a length, as of a body: a head without any dictionary
 *	...	what else may happen
 *
 * What is said to the server is read by an nghttp2 of its own.
 */
enum kind { BYTES, FRAME, FIELDS, DRAINED, DECIDED, CHANGED, ENDED, NKINDS };

static struct net net;
static struct proxy proxy;
static nghttp2_session *server;
static bool strict;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- in the place of proxy.c, exchange.c ---- */

void proxy_say(struct proxy *p, enum side s, const void *bytes, size_t len)
{
	assert(buf_append(&p->side[s].out, bytes, len) == 0);
	assert(p->side[s].out.len < PROXY_KEEPS + 65536);
	if (s == SIDE_HOST)
		(void)nghttp2_session_mem_recv(server, bytes, len);
}

void proxy_go_on(struct proxy *p)
{
	p->again = true;
}

void proxy_finish(struct proxy *p)
{
	p->over = true;
}

static bool allowed(const char *path)
{
	return *path == '/' && !strstr(path, "no") && !(strict && strstr(path, "change"));
}

void exchange_begin(struct exchange *x, struct net *n, struct destination *to, const char *version,
		    const char *method, const char *target, const char *authority, bool websocket)
{
	assert(!websocket && x->state == EXCHANGE_NONE);
	assert(!strcmp(version, "2") && strlen(method) < NET_METHOD_MAX);
	x->net = n;
	x->to = to;
	snprintf(x->method, sizeof(x->method), "%s", method);
	snprintf(x->target, sizeof(x->target), "%s", target);
	x->state = !authority || strcmp(authority, "web.test") != 0 || !strcmp(method, "CONNECT") ||
				   !allowed(target)
			   ? EXCHANGE_REFUSED
		   : strstr(target, "wait") ? EXCHANGE_WAITS
					    : EXCHANGE_GOES;
	x->reason = x->state == EXCHANGE_REFUSED ? NET_RULE : NET_OK;
}

void exchange_fail(struct exchange *x, unsigned reason)
{
	if (reason == NET_WITHDRAWN)
		x->state = EXCHANGE_REFUSED;
	x->reason = reason;
}

unsigned exchange_recheck(struct exchange *x)
{
	return x->state != EXCHANGE_GOES || allowed(x->target) ? NET_OK : NET_WITHDRAWN;
}

void exchange_end(struct exchange *x)
{
	*x = (struct exchange){.answered = x->answered};
}

unsigned exchange_explain(const struct exchange *x, char *ret_text, size_t size)
{
	assert(x->state != EXCHANGE_NONE);
	snprintf(ret_text, size, "xsbxfs: %s\n", net_reason_str(x->reason));
	return 403;
}

/* ---- in the place of dress.c, cleanse.c ---- */

unsigned dress_request(struct exchange *x, struct head *head, struct redact_set *sent,
		       bool *ret_body)
{
	(void)head;
	(void)sent;
	*ret_body = strstr(x->target, "body");
	return NET_OK;
}

unsigned dress_body(struct exchange *x, const char *type, struct buf *body)
{
	(void)x;
	(void)type;
	assert(buf_append(body, "more", 4) == 0);
	return body->data[0] == 'x' ? NET_SECRET_MISSING : NET_OK;
}

void cleanser_init(struct cleanser *c, struct proxy *p,
		   void (*emit)(void *data, const void *bytes, size_t len), void *data)
{
	c->p = p;
	c->redact.emit = emit;
	c->redact.data = data;
}

void cleanser_fini(struct cleanser *c)
{
	c->redact.len = 0;
}

void cleanser_finish(struct cleanser *c)
{
	if (c->redact.len)
		c->redact.emit(c->redact.data, "held", c->redact.len);
	c->redact.len = 0;
}

/* Holds back what is short. */
void cleanser_feed(struct cleanser *c, const void *bytes, size_t len)
{
	cleanser_finish(c);
	if (len > 3)
		c->redact.emit(c->redact.data, bytes, len);
	else
		c->redact.len = len;
}

bool cleanse_streams(const struct head *head)
{
	(void)head;
	return false;
}

unsigned cleanse_head(const struct proxy *p, const struct exchange *x, struct head *head,
		      bool trailer)
{
	(void)p;
	(void)x;
	return !trailer && head_find(head, "encoded", 0) >= 0 ? NET_SECRET_HIDDEN : NET_OK;
}

/* ---- what the server reads ---- */

static int on_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		    size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		    void *data)
{
	char text[HEAD_MAX + 1];

	(void)session;
	(void)flags;
	(void)data;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	assert(name_len <= HEAD_MAX && value_len <= HEAD_MAX);
	memcpy(text, value, value_len);
	text[value_len] = '\0';
	if (name_len == 5 && !memcmp(name, ":path", 5))
		assert(!strstr(text, "no") && (*text == '/' || *text == '*'));
	if (name_len == 10 && !memcmp(name, ":authority", 10))
		assert(!strcmp(text, "web.test"));
	if (name_len == 4 && !memcmp(name, "host", 4))
		assert(!strcasecmp(text, "web.test"));
	assert(name_len != 7 || memcmp(name, "upgrade", 7) != 0);
	return 0;
}

static void new_server(void)
{
	nghttp2_session_callbacks *calls;

	assert(nghttp2_session_callbacks_new(&calls) == 0);
	nghttp2_session_callbacks_set_on_header_callback(calls, on_field);
	assert(nghttp2_session_server_new(&server, calls, NULL) == 0);
	nghttp2_session_callbacks_del(calls);
}

/* ---- one input ---- */

static void check(const struct h2 *h)
{
	const struct h2_stream *s;
	size_t kept[2] = {0}, n = 0;

	TAILQ_FOREACH(s, &h->streams, link) {
		n++;
		for (int i = 0; i < 2; i++)
			kept[i] += s->half[i].kept.len - s->half[i].at;
	}
	assert(n == h->nstreams && n <= H2_LINGER_MAX);
	assert(kept[0] == h->kept[0] && kept[1] == h->kept[1] && net.h2_kept == kept[0] + kept[1]);
}

static void drain(void)
{
	for (int s = 0; s < 2; s++) {
		buf_clear(&proxy.side[s].out);
		proxy.side[s].at = 0;
	}
}

static void say(enum side s, const void *bytes, size_t len)
{
	if (proxy.over || proxy.broken)
		return;
	assert(h2_take(proxy.h2, s, bytes, len) == len);
	if (!proxy.broken)
		h2_run(proxy.h2);
	check(proxy.h2);
}

static void say_frame(enum side s, uint8_t type, uint8_t flags, uint8_t id, const void *bytes,
		      size_t len)
{
	uint8_t frame[9 + 4096] = {0, (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0, 0, id};

	memcpy(frame + 9, bytes, len);
	say(s, frame, 9 + len);
}

static size_t put_text(uint8_t *to, const char *text)
{
	size_t n = 0;

	for (; text[n]; n++)
		to[1 + n] = (uint8_t)text[n];
	to[0] = (uint8_t)n;
	return 1 + n;
}

/* A field of no table. */
static size_t put(uint8_t *to, const char *name, const char *value)
{
	size_t n = 1;

	to[0] = 0x10;
	n += put_text(to + n, name);
	return n + put_text(to + n, value);
}

static void say_fields(enum side s, uint8_t flags, uint8_t id, uint8_t what, uint8_t length)
{
	static const char *const paths[] = {"/",       "/no",	       "/wait", "/change",
					    "/a/no/b", "/wait/change", "/body", "/wait/body"};
	static const char *const methods[] = {"GET", "POST", "HEAD", "CONNECT"};
	uint8_t block[512];
	char number[8];
	size_t n = 0;

	if (s == SIDE_GUEST && what < 0xf0) {
		n += put(block + n, ":method", methods[what >> 3 & 3]);
		n += put(block + n, ":scheme", "http");
		n += put(block + n, ":authority", what & 0x20 ? "eve.test" : "web.test");
		n += put(block + n, ":path", paths[what & 7]);
		if (what & 0x40)
			n += put(block + n, "host", what & 0x80 ? "eve.test" : "WEB.test");
	} else if (what < 0xf0) {
		snprintf(number, sizeof(number), "%u", 100 + 10 * (what & 63u));
		n += put(block + n, ":status", number);
	}
	if (length) {
		snprintf(number, sizeof(number), "%u", length);
		n += put(block + n, "content-length", number);
	}
	n += put(block + n, "x-field", "x");
	say_frame(s, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, id, block, n);
}

/* Whoever has waited gets an answer. */
static void decide(bool yes)
{
	struct h2_stream *s, *next;

	for (s = TAILQ_FIRST(&proxy.h2->streams); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->x.state != EXCHANGE_WAITS)
			continue;
		s->x.state = yes ? EXCHANGE_GOES : EXCHANGE_REFUSED;
		s->x.reason = yes ? NET_OK : NET_DENIED_BY_HAND;
		s->x.answered(&s->x);
	}
	h2_run(proxy.h2);
	check(proxy.h2);
}

/* Return: bytes taken of the input. */
static size_t step(const uint8_t *p, size_t size)
{
	const enum side s = p[0] & 1 ? SIDE_HOST : SIDE_GUEST;
	size_t n;

	switch (p[0] / 2 % NKINDS) {
	case BYTES:
		n = size > 2 ? MIN((size_t)p[1], size - 2) : 0;
		say(s, p + 2, n);
		return 2 + n;
	case FRAME:
		n = size > 5 ? MIN((size_t)p[4], size - 5) : 0;
		if (size > 5)
			say_frame(s, p[1], p[2], p[3], p + 5, n);
		return 5 + n;
	case FIELDS:
		if (size >= 5)
			say_fields(s, p[1], p[2], p[3], p[4]);
		return 5;
	case DRAINED:
		drain();
		say(s, "", 0);
		return 1;
	case DECIDED: decide(s == SIDE_HOST); return 1;
	case CHANGED:
		strict = true;
		h2_recheck(proxy.h2);
		return 1;
	default:
		h2_ended(proxy.h2, SIDE_HOST, true);
		h2_run(proxy.h2);
		return 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n;

	net = (struct net){.now = 1};
	proxy = (struct proxy){.net = &net,
			       .to = {.host = "web.test", .port = 80, .scheme = "http"},
			       .speech = PROXY_HTTP2};
	proxy.side[SIDE_GUEST].up = proxy.side[SIDE_HOST].up = true;
	strict = false;
	new_server();
	assert(h2_new(&proxy, &proxy.h2) == 0);
	say(SIDE_GUEST, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
	say_frame(SIDE_GUEST, NGHTTP2_SETTINGS, 0, 0, "", 0);
	say_frame(SIDE_HOST, NGHTTP2_SETTINGS, 0, 0, "", 0);
	while (size > 0 && !proxy.over && !proxy.broken) {
		n = MIN(step(data, size), size);
		data += n;
		size -= n;
	}
	h2_free(proxy.h2);
	assert(net.h2_kept == 0);
	drain();
	nghttp2_session_del(server);
	return 0;
}
