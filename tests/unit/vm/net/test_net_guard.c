/* SPDX-License-Identifier: Apache-2.0 */
/* The guard that chooses between protocols. */
/* modules: vm/net/filter/sniff.c vm/net/filter/guard.c vm/net/filter/hello.c vm/base/allow.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vm/net/filter/guard.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

#define HOST "Host: web.test\r\n"
#define GOOD "GET / HTTP/1.1\r\n" HOST "\r\n"

/* Feeds all of it as a flow does, in pieces of @step. Return: how much passed, or -EACCES. */
static int feed_guard(struct guard g, const char *text, size_t step, unsigned *reason,
		      enum guard_kind *ret_kind)
{
	const size_t len = strlen(text);
	size_t passed = 0;

	for (size_t have = MIN(step, len);; have = MIN(have + step, len)) {
		while (passed < have) {
			const int n = guard_check(&g, (const uint8_t *)text + passed, have - passed,
						  "web.test", reason);

			*ret_kind = g.kind;
			if (n < 0)
				return n;
			if (n == 0 || g.kind >= GUARD_PROXY)
				break;
			passed += (size_t)n;
		}
		if (have == len || g.kind >= GUARD_PROXY)
			return (int)passed;
	}
}

static int feed_at(uint16_t port, bool look, const char *text, size_t step, unsigned *reason,
		   enum guard_kind *ret_kind)
{
	return feed_guard(guard_for(port, look ? GUARD_REQUESTS : GUARD_NAMES), text, step, reason,
			  ret_kind);
}

static int sniff(const char *text, enum guard_kind *ret)
{
	struct guard g = guard_for(8080, GUARD_NAMES);
	unsigned reason;
	const int r = guard_check(&g, (const uint8_t *)text, strlen(text), "web.test", &reason);

	*ret = g.kind;
	return r;
}

static void sniffing(void **state)
{
	enum guard_kind kind;

	(void)state;
	assert_int_equal(guard_for(443, GUARD_NAMES).kind, GUARD_TLS);
	assert_int_equal(guard_for(80, GUARD_NAMES).kind, GUARD_PROXY);
	assert_int_equal(guard_for(443, GUARD_REQUESTS).kind, GUARD_LOOK);
	assert_true(HELLO_MAX < GUARD_HOLD_MAX);
	assert_int_equal(sniff("GE", &kind), 0);
	assert_int_equal(kind, GUARD_SNIFF);
	assert_int_equal(sniff("GETX", &kind), 4);
	assert_int_equal(kind, GUARD_SNIFF);
	assert_int_equal(sniff("GETX\r\n", &kind), 6);
	assert_int_equal(kind, GUARD_OPEN);
	assert_int_equal(sniff("SSH-2.0-x\r\n", &kind), 11);
	assert_int_equal(kind, GUARD_OPEN);
	assert_int_equal(sniff("POST / HTT", &kind), 0);
	assert_int_equal(kind, GUARD_PROXY);
	assert_int_equal(sniff("\x16\3", &kind), 0);
	assert_int_equal(kind, GUARD_TLS);
	assert_int_equal(sniff("\x16other", &kind), -EACCES);
}

/* A request is one with whatever method, and behind empty lines. */
static void sniffed_requests(void **state)
{
	static const char *const requests[] = {
		"\r\nGET / HTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"cONNECT * HTTP/1.1\r\nHost: web.test\r\n\r\n",
		"connect eve.test:443 HTTP/1.1\r\nHost: web.test\r\n\r\n",
		"Connect\teve.test:443 HTTP/1.1\r\n\r\n",
		"\n\r\n\nPOST / HTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"PROPFIND / HTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"x-any http://web.test/ HTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"FOO\t/\tHTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"FOO / HTTP/1.1\nHost: eve.test\n\n",
		/* To a server that splits lines as Python does. */
		" GET / HTTP/1.1\r\n",
		"\r\n\t \x0bGET / HTTP/1.1\r\n",
		"\xa0GET / HTTP/1.1\r\n",
		"GET\x0b/\x0bHTTP/1.1\r\n",
		"POST\r/ HTTP/1.1\r\n",
		"FOO\x0c/\x0cHTTP/1.1\r\n",
		"FOO  /\x1fhttp/1.1\r\n",
		"FOO\xa0/\x85HTTP/1.1\n",
	};
	static const char *const other[] = {
		"\r\n",
		"PING",
		"PING\r\n",
		"get /key\r\n",
		"USER h\r\nNICK / HTTP/1.1\r\n",
		"HELO there",
		"0032git-upload-pack /project.git\001host=web.test",
	};
	static const size_t steps[] = {1, 3, 1000};
	enum guard_kind kind;
	unsigned reason;

	(void)state;
	for (size_t s = 0; s < ARRAY_SIZE(steps); s++) {
		for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
			/* Words that are no method that everybody knows may have passed in part: then the rest does not. */
			const int n = feed_at(8080, false, requests[i], steps[s], &reason, &kind);

			assert_int_equal(kind, GUARD_PROXY);
			assert_true(n == -EACCES ||
				    n == (int)strspn(requests[i], "\r\n\t \x0b\xa0"));
			assert_int_equal(feed_at(80, true, requests[i], steps[s], &reason, &kind),
					 0);
			assert_int_equal(kind, GUARD_PROXY);
		}
		for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
			assert_int_equal(feed_at(8080, false, other[i], steps[s], &reason, &kind),
					 strlen(other[i]));
			assert_true(kind == GUARD_OPEN || kind == GUARD_SNIFF);
			assert_int_equal(feed_at(80, true, other[i], steps[s], &reason, &kind), 0);
			assert_true(kind == GUARD_OTHER || kind == GUARD_LOOK);
		}
	}
	assert_int_equal(feed_at(443, true, "\x16\3\1", 1, &reason, &kind), 0);
	assert_int_equal(kind, GUARD_PROXY_TLS);
}

/* Where nothing passes before it is known, it is one as well if only some server would read it so, and answer: the next one behind it
 * would be seen by nobody. So is a hello of TLS in an old record. */
static void sniffed_generously(void **state)
{
	static const char *const requests[] = {
		"FOO x HTTP/1.1\r\nHost: web.test\r\n\r\n",
		"PROPFIND admin HTTP/1.1\r\n",
		"FOO /\1 HTTP/1.1\r\n",
		"F(O)O / HTTP/1.1\r\n",
		"FO\xcf\x80 / HTTP/1.1\r\n",
		"foo ?x http/1.1\n",
		"PROXY TCP4 1.2.3.4 5.6.7.8 1 HTTP/1.1\r\n",
	};
	static const char *const other[] = {
		"{\"method\": \"HTTP/\"}\n",   "INVITE sip:a@b SIP/2.0\r\nHTTP/1.1\r\n",
		"AMQP\1\1\11\1 HTTP/\n",       "0 x HTTP/1.1\n",
		"\x80\x2e\2\3\1 HTTP/1.1\r\n", "\x80\x2e\1\2\1 HTTP/1.1\r\n",
	};
	static const size_t steps[] = {1, 3, 1000};
	enum guard_kind kind;
	unsigned reason;

	(void)state;
	for (size_t s = 0; s < ARRAY_SIZE(steps); s++) {
		for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
			assert_int_equal(feed_at(8080, true, requests[i], steps[s], &reason, &kind),
					 0);
			assert_int_equal(kind, GUARD_PROXY);
		}
		for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
			assert_int_equal(feed_at(8080, true, other[i], steps[s], &reason, &kind),
					 0);
			assert_int_equal(kind, GUARD_OTHER);
		}
		assert_int_equal(feed_at(8080, true, "\x80\x2e\1\3\3", steps[s], &reason, &kind),
				 0);
		assert_int_equal(kind, GUARD_PROXY_TLS);
	}
}

/* Where rules depend on it, ports 80 and 443 are still for what is spoken there. */
static void held(void **state)
{
	static const struct {
		uint16_t port;
		const char *text;
		unsigned reason; /* NET_OK: it goes on */
	} table[] = {
		{443, GOOD, NET_NOT_TLS},	{443, "SSH-2.0-x\r\n", NET_NOT_TLS},
		{443, "\x16\3\1", NET_OK},	{80, GOOD, NET_OK},
		{80, "\x16\3\1", NET_NOT_HTTP}, {80, "SSH-2.0-x\r\n", NET_NOT_HTTP},
		{8080, GOOD, NET_OK},		{8080, "SSH-2.0-x\r\n", NET_OK},
		{8080, "\x16\3\1", NET_OK},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct guard g = guard_for(table[i].port, GUARD_REQUESTS_HELD);
		unsigned reason = NET_OK;
		const int n = guard_check(&g, (const uint8_t *)table[i].text, strlen(table[i].text),
					  "web.test", &reason);

		assert_int_equal(n, table[i].reason == NET_OK ? 0 : -EACCES);
		assert_int_equal(reason, table[i].reason);
	}
}

/* Where nothing depends on what is said, HTTP is looked into all the same, lest it asks a proxy; all else passes. */
static void no_proxy(void **state)
{
	static const uint16_t ports[] = {80, 443, 3128};
	const char *const asks = "CONNECT eve.test:443 HTTP/1.1\r\n\r\n", *tls = "\x16\3\1",
			  *other = "HELO there";
	enum guard_kind kind;
	unsigned reason;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		const struct guard g = guard_for(ports[i], GUARD_PROXIES);

		assert_int_equal(g.kind, GUARD_NO_PROXY);
		assert_int_equal(feed_guard(g, asks, 1, &reason, &kind), 0);
		assert_int_equal(kind, GUARD_PROXY);
		assert_int_equal(feed_guard(g, tls, 1, &reason, &kind), strlen(tls));
		assert_int_equal(kind, GUARD_OPEN);
		assert_int_equal(feed_guard(g, other, 1, &reason, &kind), strlen(other));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sniffing),	      cmocka_unit_test(sniffed_requests),
		cmocka_unit_test(sniffed_generously), cmocka_unit_test(held),
		cmocka_unit_test(no_proxy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
