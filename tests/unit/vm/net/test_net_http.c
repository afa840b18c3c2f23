/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, one after the other, and the guard that chooses between protocols. */
/* modules: vm/net/filter/http.c vm/net/filter/guard.c vm/net/filter/hello.c vm/base/allow.c */
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
static int feed_at(uint16_t port, const char *text, size_t step, unsigned *reason,
		   enum guard_kind *ret_kind)
{
	struct guard g = guard_for(port);
	const size_t len = strlen(text);
	size_t passed = 0;

	for (size_t have = MIN(step, len);; have = MIN(have + step, len)) {
		while (passed < have) {
			const int n = guard_check(&g, (const uint8_t *)text + passed, have - passed,
						  "web.test", reason);

			if (n < 0)
				return n;
			if (n == 0)
				break;
			passed += (size_t)n;
		}
		*ret_kind = g.kind;
		if (have == len)
			return (int)passed;
	}
}

static int feed(const char *text, size_t step, unsigned *reason)
{
	enum guard_kind kind;

	return feed_at(80, text, step, reason, &kind);
}

static void passes(const char *text)
{
	unsigned reason;

	assert_int_equal(feed(text, 100000, &reason), strlen(text));
	assert_int_equal(feed(text, 1, &reason), strlen(text));
	assert_int_equal(feed(text, 7, &reason), strlen(text));
}

static void fails(const char *text, unsigned expected)
{
	unsigned reason = NET_OK;

	assert_int_equal(feed(text, 100000, &reason), -EACCES);
	assert_int_equal(reason, expected);
	assert_int_equal(feed(text, 1, &reason), -EACCES);
	assert_int_equal(reason, expected);
}

static void good(void **state)
{
	(void)state;
	passes(GOOD);
	passes(GOOD GOOD GOOD);
	passes("GET http://web.test/x HTTP/1.1\r\n" HOST "\r\n");
	passes("GET http://WEB.test:80?x HTTP/1.1\r\nhost:\tWeb.Test.:80 \r\n\r\n");
	passes("OPTIONS * HTTP/1.0\r\n" HOST "X:\r\nY: \xc3\xa9\r\n\r\n");
	passes("POST / HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\nGET /x HTTP" GOOD);
	passes("POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n" GOOD);
	passes("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	       "a\r\n0123456789\r\n00F\r\n0123456789abcde\r\n0\r\n\r\n" GOOD);
	passes("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"
	       "0\r\nA: b\r\nC: d\r\n\r\n" GOOD);
	passes("GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" GOOD);
}

static void other_hosts(void **state)
{
	(void)state;
	fails("GET / HTTP/1.1\r\nHost: eve.test\r\n\r\n", NET_HOST);
	fails("GET / HTTP/1.1\r\nHost: web.test:80x\r\n\r\n", NET_HOST);
	fails("GET / HTTP/1.1\r\nHost: web.test, eve.test\r\n\r\n", NET_HOST);
	fails("GET / HTTP/1.1\r\nHost:\r\n\r\n", NET_HOST);
	fails("GET / HTTP/1.1\r\n\r\n", NET_NO_HOST);
	fails("GET http://eve.test/ HTTP/1.1\r\n" HOST "\r\n", NET_HOST);
	fails("GET http://web.test@eve.test/ HTTP/1.1\r\n" HOST "\r\n", NET_HOST);
	fails("CONNECT eve.test:80 HTTP/1.1\r\n" HOST "\r\n", NET_HOST);
	fails(GOOD "GET / HTTP/1.1\r\nHost: eve.test\r\n\r\n", NET_HOST);
	fails("POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nxx"
	      "GET / HTTP/1.1\r\nHost: eve.test\r\n\r\n",
	      NET_HOST);
	fails("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
	      "GET / HTTP/1.1\r\nHost: eve.test\r\n\r\n",
	      NET_HOST);
}

static void two_readings(void **state)
{
	static const char *const heads[] = {
		"GET / HTTP/1.1\r\n" HOST HOST "\r\n",
		"GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Content_Length: 1\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n"
		"Transfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST " Content-Length: 1\r\n\r\n",
		"GET / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Content-Length : 1\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "X: a\n\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n",
		"GET / HTTP/1.1\n" HOST "\r\n",
		"GET /a b HTTP/1.1\r\n" HOST "\r\n",
		"GET / HTTP/1.2\r\n" HOST "\r\n",
		"GET / HTTP/2.0\r\n" HOST "\r\n",
		"GET /\r\n" HOST "\r\n",
		"GET\r\n",
		" GET / HTTP/1.1\r\n" HOST "\r\n",
		"\r\n" GOOD,
		"G@T / HTTP/1.1\r\n" HOST "\r\n",
		"GET x HTTP/1.1\r\n" HOST "\r\n",
		"GET https://web.test/ HTTP/1.1\r\n" HOST "\r\n",
		"GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n",
		"SSH-2.0-x\r\n",
	};
	static const char *const chunks[] = {"\r\n",
					     "x\r\n",
					     "1;a=b\r\nx",
					     "1\nx",
					     "-1\r\n",
					     "0x1\r\nx",
					     "1 \r\nx",
					     "1\r\nxx",
					     "1\r\nx\n",
					     "1\r\nx\rx",
					     "fffffffffffffffff\r\n",
					     "0\r\nno colon\r\n"};
	char text[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		fails(heads[i], NET_NOT_HTTP);
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		snprintf(text, sizeof(text),
			 "PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%s",
			 chunks[i]);
		fails(text, NET_NOT_HTTP);
	}
}

static void too_long(void **state)
{
	static char text[HTTP_HEAD_MAX + 100];
	unsigned reason;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "GET /", 5);
	assert_int_equal(feed(text, sizeof(text), &reason), -EACCES);
	text[HTTP_HEAD_MAX - 1] = '\0';
	assert_int_equal(feed(text, sizeof(text), &reason), 0);
	assert_true(HTTP_HEAD_MAX < GUARD_HOLD_MAX && HELLO_MAX < GUARD_HOLD_MAX);
}

static int sniff(const char *text, enum guard_kind *ret)
{
	struct guard g = guard_for(8080);
	unsigned reason;
	const int r = guard_check(&g, (const uint8_t *)text, strlen(text), "web.test", &reason);

	*ret = g.kind;
	return r;
}

static void sniffing(void **state)
{
	enum guard_kind kind;

	(void)state;
	assert_int_equal(guard_for(443).kind, GUARD_TLS);
	assert_int_equal(guard_for(80).kind, GUARD_HTTP);
	assert_int_equal(sniff("GE", &kind), 0);
	assert_int_equal(kind, GUARD_SNIFF);
	assert_int_equal(sniff("GETX", &kind), 4);
	assert_int_equal(kind, GUARD_SNIFF);
	assert_int_equal(sniff("GETX\r\n", &kind), 6);
	assert_int_equal(kind, GUARD_OPEN);
	assert_int_equal(sniff("SSH-2.0-x\r\n", &kind), 11);
	assert_int_equal(kind, GUARD_OPEN);
	assert_int_equal(sniff("POST / HTT", &kind), 0);
	assert_int_equal(kind, GUARD_HTTP);
	assert_int_equal(sniff("\x16\3", &kind), 0);
	assert_int_equal(kind, GUARD_TLS);
	assert_int_equal(sniff("\x16other", &kind), -EACCES);
}

/* Feeds it to a port that is not the one of HTTP. Return: how much passed, or -EACCES. */
static int feed_sniffed(const char *text, size_t step, enum guard_kind *ret)
{
	unsigned reason;

	return feed_at(8080, text, step, &reason, ret);
}

/* A request is one with whatever method, and behind empty lines. */
static void sniffed_requests(void **state)
{
	static const char *const bad[] = {
		"\r\nGET / HTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"cONNECT * HTTP/1.1\r\nHost: web.test\r\n\r\n",
		"\n\r\n\nPOST / HTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"PROPFIND / HTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"x-any http://web.test/ HTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"FOO\t/\tHTTP/1.1\r\nHost: eve.test\r\n\r\n",
		"FOO / HTTP/1.1\nHost: eve.test\n\n",
		"FOO * HTTP/1.0\r\nHost: web.test\r\n\r\nFOO / HTTP/1.1\r\nHost: eve.test\r\n\r\n",
	};
	static const char *const good[] = {
		"FOO /x HTTP/1.1\r\n" HOST "\r\n" GOOD,
		"\r\nFOO /x HTTP/1.1\r\n" HOST "\r\n" GOOD,
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

	(void)state;
	for (size_t s = 0; s < ARRAY_SIZE(steps); s++) {
		for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
			assert_int_equal(feed_sniffed(bad[i], steps[s], &kind), -EACCES);
		for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
			assert_int_equal(feed_sniffed(good[i], steps[s], &kind), strlen(good[i]));
			assert_int_equal(kind, GUARD_HTTP);
		}
		for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
			assert_int_equal(feed_sniffed(other[i], steps[s], &kind), strlen(other[i]));
			assert_true(kind == GUARD_OPEN || kind == GUARD_SNIFF);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good),		cmocka_unit_test(other_hosts),
		cmocka_unit_test(two_readings), cmocka_unit_test(too_long),
		cmocka_unit_test(sniffing),	cmocka_unit_test(sniffed_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
