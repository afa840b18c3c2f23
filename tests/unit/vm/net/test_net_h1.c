/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1 that is looked into: what goes on to the server, what the guest gets, and what neither does. */
/* modules: tests/unit/fixture/proxy_fixture.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/proxy_fixture.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"
#include "vm/net/filter/head.h"

#define HOST  "Host: web.test\r\n"
#define GOOD  "GET / HTTP/1.1\r\n" HOST "\r\n"
#define REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static const size_t steps[] = {1, 7, 100000};

static int setup(void **state)
{
	(void)state;
	pf_setup("web.test", NULL);
	return 0;
}

/* Each of the requests in @text is answered once it has arrived: what has, altogether? */
static void arrives(const char *text, unsigned requests, const char *expected)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		pf_open("web.test", 80);
		pf_say(SIDE_GUEST, text, strlen(text), steps[i]);
		for (unsigned n = 0; n < requests; n++) {
			assert_int_equal(pf.nlogged, n);
			pf_say(SIDE_HOST, REPLY, strlen(REPLY), steps[i]);
		}
		assert_string_equal(pf_said(SIDE_HOST), expected);
		assert_int_equal(pf.nlogged, requests);
		assert_int_equal(pf.denied, NET_OK);
	}
}

static void passes(const char *text, unsigned requests)
{
	arrives(text, requests, text);
}

static void good(void **state)
{
	(void)state;
	passes(GOOD, 1);
	passes(GOOD GOOD GOOD, 3);
	arrives("GET http://web.test/x HTTP/1.1\r\n" HOST "\r\n", 1,
		"GET /x HTTP/1.1\r\n" HOST "\r\n");
	passes("GET /x?y=%2f HTTP/1.1\r\nhost: Web.Test.:80\r\n\r\n", 1);
	passes("OPTIONS * HTTP/1.1\r\n" HOST "X: \r\nY: \xc3\xa9\r\n\r\n", 1);
	passes("POST / HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\nGET /x HTTP" GOOD, 2);
	passes("POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n" GOOD, 2);
	arrives("GET / HTTP/1.1\r\n" HOST "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: "
		"h2c\r\nHTTP2-Settings: AAMA\r\n\r\n" GOOD,
		2, GOOD GOOD);
	arrives("GET / HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n\r\n" GOOD, 2,
		"GET / HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n\r\n" GOOD);
	arrives("GET / HTTP/1.1\r\n" HOST "Connection: close, X\r\nX: y\r\n\r\n" GOOD, 1,
		"GET / HTTP/1.1\r\n" HOST "X: y\r\nConnection: close\r\n\r\n");
	/* Line ends are ours. */
	arrives("\r\nGET / HTTP/1.1\n" HOST "X:\ta \n\r\n", 1,
		"GET / HTTP/1.1\r\n" HOST "X: a\r\n\r\n");
}

/* Chunks are as they came in, if that is not cut: then there are more of them, with the same bytes. */
static void chunks(void **state)
{
	static const char head[] = "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n";
	char text[300], expected[300];

	(void)state;
	snprintf(text, sizeof(text), "%s%s", head,
		 "a;x=y\r\n0123456789\r\n00F\r\n0123456789abcde\r\n0\r\nA: b\r\nHost: c\r\n\r\n");
	snprintf(expected, sizeof(expected), "%s%s", head,
		 "a\r\n0123456789\r\nf\r\n0123456789abcde\r\n0\r\nA: b\r\n\r\n");
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, text, strlen(text), sizeof(text));
	assert_string_equal(pf_said(SIDE_HOST), expected);
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, text, strlen(text), 1);
	snprintf(expected, sizeof(expected), "%s1\r\n0\r\n1\r\n1\r\n", head);
	assert_memory_equal(pf_said(SIDE_HOST), expected, strlen(expected));
	assert_non_null(strstr(pf_said(SIDE_HOST), "1\r\ne\r\n0\r\nA: b\r\n\r\n"));
}

/* Nothing of it arrives, and the guest is told why. */
static void fails(const char *text, unsigned reason)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		pf_open("web.test", 80);
		pf_say(SIDE_GUEST, text, strlen(text), steps[i]);
		assert_string_equal(pf_said(SIDE_HOST), "");
		if (pf.denied != reason)
			fail_msg("%s: %s, not %s", text, net_reason_str(pf.denied),
				 net_reason_str(reason));
		assert_non_null(strstr(pf_said(SIDE_GUEST), "\r\nX-Xsbxfs: "));
		assert_non_null(strstr(pf_said(SIDE_GUEST), "\r\nConnection: close\r\n"));
		assert_true(pf.proxy->over && !pf.proxy->dials);
		assert_int_equal(pf.nlogged, 1);
		assert_true(pf.logged[0].refused);
	}
}

/* ... but what is in front of it does. */
static void fails_behind(const char *first, const char *then, unsigned reason)
{
	char text[600];

	snprintf(text, sizeof(text), "%s%s", first, then);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		pf_open("web.test", 80);
		pf_say(SIDE_GUEST, text, strlen(text), steps[i]);
		pf_say(SIDE_HOST, REPLY, strlen(REPLY), steps[i]);
		assert_string_equal(pf_said(SIDE_HOST), first);
		assert_int_equal(pf.denied, reason);
		assert_true(pf.proxy->over);
	}
}

static void other_hosts(void **state)
{
	static const char bad[] = "GET / HTTP/1.1\r\nHost: eve.test\r\n\r\n";

	(void)state;
	fails(bad, NET_HOST);
	fails("GET / HTTP/1.1\r\nHost: web.test:80x\r\n\r\n", NET_HOST);
	fails("GET / HTTP/1.1\r\nHost: web.test:81\r\n\r\n", NET_HOST);
	fails("GET / HTTP/1.1\r\nHost: web.test, eve.test\r\n\r\n", NET_HOST);
	fails("GET / HTTP/1.1\r\nHost:\r\n\r\n", NET_HOST);
	fails("GET / HTTP/1.1\r\n\r\n", NET_NO_HOST);
	fails("GET / HTTP/1.1\r\n" HOST HOST "\r\n", NET_NO_HOST);
	fails("GET http://eve.test/ HTTP/1.1\r\n" HOST "\r\n", NET_HOST);
	fails("GET http://web.test@eve.test/ HTTP/1.1\r\n" HOST "\r\n", NET_HOST);
	fails("CONNECT eve.test:80 HTTP/1.1\r\n" HOST "\r\n", NET_HOST);
	fails("CONNECT web.test:80 HTTP/1.1\r\n" HOST "\r\n", NET_HOST);
	fails_behind(GOOD, bad, NET_HOST);
	fails_behind("POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nxx", bad, NET_HOST);
}

static void two_readings(void **state)
{
	static const char *const heads[] = {
		"Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
		"Content-Length: +1\r\n\r\n",
		"Content-Length: 1, 1\r\n\r\n",
		"Content-Length: 99999999999999999999\r\n\r\n",
		"Content_Length: 1\r\n\r\n",
		"Transfer_Encoding: chunked\r\n\r\n",
		"Transfer-Encoding: gzip, chunked\r\n\r\n",
		"Transfer-Encoding: chunked, identity\r\n\r\n",
		"Transfer-Encoding: identity\r\n\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		" Content-Length: 1\r\n\r\n",
		"X: a\r\n b\r\n\r\n",
		"X: a\n\tb\r\n\r\n",
		"Content-Length : 1\r\n\r\n",
		"X: a\rb\r\n\r\n",
		"X: a\1b\r\n\r\n",
		"no colon\r\n\r\n",
		": x\r\n\r\n",
	};
	static const char *const lines[] = {
		"GET / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
		"GET /a b HTTP/1.1\r\n" HOST "\r\n",
		"GET / HTTP/1.2\r\n" HOST "\r\n",
		"GET / HTTP/2.0\r\n" HOST "\r\n",
		"GET /\r\n" HOST "\r\n",
		"GET\r\n\r\n",
		" GET / HTTP/1.1\r\n" HOST "\r\n",
		"G@T / HTTP/1.1\r\n" HOST "\r\n",
		"GET x HTTP/1.1\r\n" HOST "\r\n",
		"GET https://web.test/ HTTP/1.1\r\n" HOST "\r\n",
		"GET http://web.test?x HTTP/1.1\r\n" HOST "\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"SSH-2.0-x\r\n",
		"\x16\3\1\2",
	};
	char text[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "%s", heads[i]);
		fails(text, NET_NOT_HTTP);
	}
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		fails(lines[i], NET_NOT_HTTP);
}

/* What is wrong with a body comes too late for an answer of ours, and cuts the connection. */
static void bad_chunks(void **state)
{
	static const char *const bad[] = {"\r\n",
					  "x\r\n",
					  "-1\r\n",
					  "0x1\r\nx",
					  "fffffffffffffffff\r\n",
					  "0\r\nno colon\r\n"};
	char text[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(text, sizeof(text),
			 "PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%s", bad[i]);
		for (size_t k = 0; k < ARRAY_SIZE(steps); k++) {
			pf_open("web.test", 80);
			pf_say(SIDE_GUEST, text, strlen(text), steps[k]);
			assert_true(pf.proxy->broken || pf.proxy->over);
			assert_null(strstr(pf_said(SIDE_HOST), "\r\n0\r\n"));
			pf_close();
		}
	}
}

static void is_whole_or_nothing(const char *text)
{
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, text, strlen(text), 100000);
	if (*pf_said(SIDE_HOST))
		assert_non_null(strstr(pf_said(SIDE_HOST), "\r\nContent-Length: 9\r\n"));
	else
		assert_non_null(strstr(pf_said(SIDE_GUEST), "HTTP/1.1 4"));
}

/* A body whose length cannot be told does not go on: it would be the next request. */
static void crowded(void **state)
{
	static char text[HEAD_MAX + 200];

	(void)state;
	for (unsigned fields = HEAD_FIELDS_MAX - 4; fields <= HEAD_FIELDS_MAX; fields++) {
		int n = snprintf(text, sizeof(text), "POST / HTTP/1.1\r\n" HOST);

		for (unsigned i = 2; i < fields; i++)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "X: y\r\n");
		snprintf(text + n, sizeof(text) - (size_t)n, "Content-Length: 9\r\n\r\nGET /evil");
		is_whole_or_nothing(text);
	}
	for (size_t len = HEAD_MAX - 100; len < HEAD_MAX; len++) {
		int n = snprintf(text, sizeof(text), "POST / HTTP/1.1\r\n" HOST "X: ");

		memset(text + n, 'x', len);
		snprintf(text + n + len, sizeof(text) - (size_t)n - len,
			 "\r\nContent-Length: 9\r\n\r\nGET /evil");
		is_whole_or_nothing(text);
	}
}

static void too_long(void **state)
{
	static char text[HEAD_MAX + 100];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[snprintf(text, sizeof(text), "GET /")] = 'x';
	fails(text, NET_NOT_HTTP);
}

/* ---- answers ---- */

/* What of @text does the guest get, as the answer to @request? */
static void returns_as(const char *request, const char *text, bool ends, const char *expected)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		pf_open("web.test", 80);
		pf_say(SIDE_GUEST, request, strlen(request), steps[i]);
		pf_say(SIDE_HOST, text, strlen(text), steps[i]);
		if (ends) {
			proxy_ended(pf.proxy, SIDE_HOST);
			pf_say(SIDE_HOST, "", 0, 1);
		}
		assert_false(pf.proxy->broken);
		if (expected)
			assert_string_equal(pf_said(SIDE_GUEST), expected);
	}
}

static void answers(void **state)
{
	static const char length[] =
		"HTTP/1.1 404 Not Found\r\nX: y\r\nContent-Length: 3\r\n\r\nabc";
	static const char chunked[] =
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
	static const char bare[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";

	(void)state;
	returns_as(GOOD, length, false, length);
	returns_as("HEAD / HTTP/1.1\r\n" HOST "\r\n", bare, false, bare);
	returns_as(GOOD, "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", false,
		   "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n");
	returns_as(GOOD,
		   "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		   false,
		   "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
	returns_as(GOOD, "HTTP/1.1 200 OK\r\n\r\nuntil the end", true,
		   "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end");
	assert_true(pf.proxy->over);
	returns_as(GOOD, chunked, false, NULL);
	assert_int_equal(pf.logged[0].status, 200);
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, GOOD, strlen(GOOD), 1000);
	pf_say(SIDE_HOST, chunked, strlen(chunked), 1000);
	assert_string_equal(pf_said(SIDE_GUEST), chunked);
}

/* Less than all of an answer does not look like all of it. */
static void short_answers(void **state)
{
	static const char *const texts[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"HTTP/1.1 200 OK\r\nContent-Le",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 2\r\n\r\nab",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
		"nonsense\r\n",
		"",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		pf_open("web.test", 80);
		pf_say(SIDE_GUEST, GOOD, strlen(GOOD), 1000);
		pf_say(SIDE_HOST, texts[i], strlen(texts[i]), 1000);
		proxy_ended(pf.proxy, SIDE_HOST);
		pf_say(SIDE_HOST, "", 0, 1);
		assert_true(pf.proxy->over);
		if (!pf.proxy->abrupt) /* nothing of the answer had gone on */
			assert_memory_equal(pf_said(SIDE_GUEST), "HTTP/1.1 502 ", 13);
		pf_listen();
		proxy_free(pf.proxy);
		pf.proxy = NULL;
		pf_listen();
		assert_int_equal(pf.nlogged, 1);
		assert_int_equal(pf.logged[0].reason, NET_BAD_ANSWER);
	}
}

/* An answer may come before the request's end; the next request waits for both. */
static void early_answer(void **state)
{
	static const char post[] = "POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\n";

	(void)state;
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, post, strlen(post), 1000);
	pf_say(SIDE_GUEST, "ab", 2, 2);
	pf_say(SIDE_HOST, REPLY, strlen(REPLY), 1000);
	assert_string_equal(pf_said(SIDE_GUEST), REPLY);
	assert_int_equal(pf.nlogged, 0);
	pf_say(SIDE_GUEST, "cd" GOOD, 2 + strlen(GOOD), 1000);
	assert_int_equal(pf.nlogged, 1);
	pf_say(SIDE_HOST, REPLY, strlen(REPLY), 1000);
	assert_int_equal(pf.nlogged, 2);
	assert_string_equal(pf_said(SIDE_GUEST), REPLY REPLY);
}

static void unasked_answer(void **state)
{
	(void)state;
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, GOOD, strlen(GOOD), 1000);
	pf_say(SIDE_HOST, REPLY REPLY, 2 * strlen(REPLY), 1000);
	assert_true(pf.proxy->broken);
}

/* ---- rules ---- */

#define API "Host: api.test\r\n"

static void judge(const char *line, bool allowed)
{
	char text[300];

	snprintf(text, sizeof(text), "%s HTTP/1.1\r\n" API "\r\n", line);
	pf_open("api.test", 80);
	pf_say(SIDE_GUEST, text, strlen(text), 1000);
	if (allowed == !*pf_said(SIDE_HOST) || allowed == (pf.denied != NET_OK))
		fail_msg("%s: %s %s", line, pf_said(SIDE_HOST), pf_said(SIDE_GUEST));
	if (!allowed && !strstr(pf_said(SIDE_GUEST), "HTTP/1.1 403 "))
		fail_msg("%s: %s", line, pf_said(SIDE_GUEST));
}

static void rules(void **state)
{
	const struct net_policy policy = {.rules = "allow GET,HEAD api.test/v1/* deny * "
						   "api.test/open/no* allow * api.test/open/*"};

	pf_teardown(state);
	pf_setup("", &policy);
	judge("GET /v1/x", true);
	judge("HEAD /v1/x?y", true);
	judge("POST /v1/x", false);
	judge("GET /v2/x", false);
	judge("GET /v1/../v2/x", false);
	judge("GET /v1/%2e%2e/v2/x", false);
	judge("GET /v1/%2f%2fv2", true);
	judge("PUT /open/yes", true);
	judge("PUT /open/NO/x", false);
	judge("PUT /open//yes", true);
	judge("PUT /open/%6eo", false);
	judge("GET http://api.test/v1/x", true);
}

/* Where nothing depends on the path it may be anything. */
static void ambiguous_paths(void **state)
{
	const struct net_policy policy = {.rules = "deny * api.test/x*"};
	static const char *const paths[] = {"/v1/..%2fx", "/v1/..;/x", "/v1/%252e%252e/x",
					    "/v1/..\\x",  "/100%",     "/a%00b",
					    "//v1/x"};
	char text[200], line[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" HOST "\r\n", paths[i]);
		passes(text, 1);
	}
	pf_teardown(state);
	pf_setup("api.test", &policy);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		snprintf(line, sizeof(line), "GET %s HTTP/1.1\r\n" API "\r\n", paths[i]);
		pf_open("api.test", 80);
		pf_say(SIDE_GUEST, line, strlen(line), 1000);
		assert_int_equal(pf.denied, NET_PATH);
		assert_string_equal(pf_said(SIDE_HOST), "");
	}
	judge("GET /v1/../y", true);
}

static void told_why(void **state)
{
	const struct net_policy policy = {.first = "deny * api.test/root*",
					  .rules = "deny DELETE api.test"};
	static const char delete[] = "DELETE /x HTTP/1.1\r\n" API "\r\n",
			  root[] = "GET /root HTTP/1.1\r\n" API "\r\n";

	pf_teardown(state);
	pf_setup("api.test", &policy);
	pf_open("api.test", 80);
	pf_say(SIDE_GUEST, delete, strlen(delete), 1000);
	assert_non_null(strstr(pf_said(SIDE_GUEST),
			       "rule 1 of net/rules denies it: deny DELETE api.test."));
	assert_non_null(strstr(pf_said(SIDE_GUEST), "net/rules: allow DELETE api.test/x\n"));
	assert_int_equal(pf.logged[0].rule, 1);
	assert_false(pf.logged[0].first);
	pf_open("api.test", 80);
	pf_say(SIDE_GUEST, root, strlen(root), 1000);
	assert_non_null(strstr(pf_said(SIDE_GUEST), "rule 1 of the administrator's denies it"));
	assert_true(pf.logged[0].first);
}

static void withdrawn(void **state)
{
	static const char post[] = "POST /no HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\n";
	const struct net_policy policy = {.rules = "deny * web.test/no*"};
	char why[128];

	(void)state;
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, post, strlen(post), 1000);
	assert_int_equal(pf.denied, NET_OK);
	egress_fini(&pf.net.egress);
	assert_int_equal(egress_parse("web.test", &policy, &pf.net.egress, why), 0);
	proxy_recheck(pf.proxy);
	pf_say(SIDE_GUEST, "", 0, 1);
	assert_non_null(strstr(pf_said(SIDE_GUEST), "HTTP/1.1 403 "));
	assert_int_equal(pf.denied, NET_WITHDRAWN);
}

/* ---- leave ---- */

static void asked(void **state)
{
	const struct net_policy policy = {.ask = true};

	pf_teardown(state);
	pf_setup("", &policy);
	for (int yes = 0; yes < 2; yes++) {
		pf_open("web.test", 80);
		pf_say(SIDE_GUEST, GOOD GOOD, 2 * strlen(GOOD), 1000);
		assert_string_equal(pf_said(SIDE_HOST), "");
		assert_string_equal(pf.asked.method, "GET");
		assert_string_equal(pf.asked.path, "/");
		ask_decide(&pf.net, pf.asked.header.id, yes);
		pf_say(SIDE_GUEST, "", 0, 1);
		assert_string_equal(pf_said(SIDE_HOST), yes ? GOOD : "");
		if (!yes)
			continue;
		/* Once means once: the next one is asked for again. */
		pf_say(SIDE_HOST, REPLY, strlen(REPLY), 1000);
		assert_int_equal(pf.net.asks.n, 1);
		assert_string_equal(pf_said(SIDE_HOST), GOOD);
	}
	assert_string_equal(pf_said(SIDE_GUEST), REPLY);
}

/* Whoever is asked may think for longer than a server keeps a connection on which nothing is said. */
static void asked_for_long(void **state)
{
	const struct net_policy policy = {.ask = true};

	pf_teardown(state);
	pf_setup("", &policy);
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, GOOD, strlen(GOOD), 1000);
	ask_decide(&pf.net, pf.asked.header.id, true);
	pf_say(SIDE_HOST, REPLY, strlen(REPLY), 1000);
	pf_say(SIDE_GUEST, GOOD, strlen(GOOD), 1000);
	proxy_ended(pf.proxy, SIDE_HOST);
	pf_say(SIDE_GUEST, "", 0, 1);
	assert_int_equal(pf.net.asks.n, 1);
	assert_string_equal(pf_said(SIDE_HOST), GOOD);
	ask_decide(&pf.net, pf.asked.header.id, true);
	pf_say(SIDE_GUEST, "", 0, 1);
	assert_string_equal(pf_said(SIDE_HOST), GOOD GOOD);
	pf_say(SIDE_HOST, REPLY, strlen(REPLY), 1000);
	assert_string_equal(pf_said(SIDE_GUEST), REPLY REPLY);
	/* Between two requests the guest hears of it. */
	proxy_ended(pf.proxy, SIDE_HOST);
	assert_true(pf.proxy->over);
}

static void say_get(const char *path)
{
	char text[3000];

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" HOST "\r\n", path);
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, text, strlen(text), 1000);
}

static void change_policy(const struct net_policy *policy)
{
	char why[128];

	egress_fini(&pf.net.egress);
	assert_int_equal(egress_parse("", policy, &pf.net.egress, why), 0);
	ask_recheck(&pf.net);
	pf_say(SIDE_GUEST, "", 0, 1);
}

/* What is asked for is what goes on, and what rules that come later judge. */
static void asked_in_full(void **state)
{
	const struct net_policy asks = {.rules = "ask * web.test/*"},
				later = {.rules = "allow GET web.test/data* deny * web.test/*"};
	static char path[2000];

	pf_teardown(state);
	pf_setup("", &asks);
	say_get("/data\xff/../admin?\xc3\xa9");
	assert_string_equal(pf.asked.path, "/data%FF/../admin?%C3%A9");
	change_policy(&later);
	assert_int_equal(pf.denied, NET_RULE);
	assert_string_equal(pf_said(SIDE_HOST), "");
	/* Nobody decides on what he cannot see. */
	change_policy(&asks);
	snprintf(path, sizeof(path), "/data%01024d/../admin", 0);
	say_get(path);
	assert_int_equal(pf.denied, NET_LONG);
	/* Of a query the beginning is enough; but another one that begins so is another question. */
	path[5] = '?';
	say_get(path);
	assert_int_equal(strlen(pf.asked.path), sizeof(pf.asked.path) - 1);
	assert_non_null(strstr(pf.asked.path, "00..."));
	assert_int_equal(pf.net.asks.n, 1);
}

/* What rules have let go on they also end; what somebody has, they do not. */
static void left_by(void **state)
{
	const struct net_policy asks = {.rules = "ask * web.test/*"},
				allows = {.rules = "allow * web.test/*"};

	for (int by_rules = 0; by_rules < 2; by_rules++) {
		pf_teardown(state);
		pf_setup("", &asks);
		say_get("/data");
		assert_int_equal(pf.net.asks.n, 1);
		if (by_rules)
			change_policy(&allows);
		else
			ask_decide(&pf.net, pf.asked.header.id, true);
		pf_say(SIDE_GUEST, "", 0, 1);
		assert_non_null(strstr(pf_said(SIDE_HOST), "GET /data"));
		change_policy(&asks);
		proxy_recheck(pf.proxy);
		assert_int_equal(pf.proxy->over, by_rules);
	}
}

/* Behind an answer that is none yet there is room for what went wrong. */
static void broken_behind_interim(void **state)
{
	static const char hints[] = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";

	(void)state;
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, GOOD, strlen(GOOD), 1000);
	pf_say(SIDE_HOST, hints, strlen(hints), 1000);
	pf_say(SIDE_HOST, "HTTP/7.9 no\r\n\r\n", 15, 1000);
	assert_non_null(strstr(pf_said(SIDE_GUEST), "103 Early Hints"));
	assert_non_null(strstr(pf_said(SIDE_GUEST), "HTTP/1.1 502 "));
}

static void websocket(void **state)
{
	static const char ask[] =
		"GET /ws HTTP/1.1\r\n" HOST "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
	static const char yes[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: "
				  "websocket\r\nConnection: Upgrade\r\n\r\n";

	(void)state;
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, ask, strlen(ask), 1000);
	assert_string_equal(pf_said(SIDE_HOST),
			    "GET /ws HTTP/1.1\r\n" HOST
			    "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
	pf_say(SIDE_GUEST, "\1\2", 2, 2);
	pf_say(SIDE_HOST, yes, strlen(yes), 7);
	pf_say(SIDE_HOST, "\3\4", 2, 2);
	pf_say(SIDE_GUEST, GOOD, strlen(GOOD), 3);
	assert_non_null(strstr(pf_said(SIDE_HOST), "\r\n\r\n\1\2" GOOD));
	assert_non_null(strstr(pf_said(SIDE_GUEST), "\r\n\r\n\3\4"));
	pf_close();
	/* One who declines is spoken to as before. */
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, ask, strlen(ask), 1000);
	pf_say(SIDE_HOST, REPLY, strlen(REPLY), 1000);
	pf_say(SIDE_GUEST, GOOD, strlen(GOOD), 3);
	assert_non_null(strstr(pf_said(SIDE_HOST), "\r\n\r\n" GOOD));
	assert_string_equal(pf.logged[0].method, "WEBSOCKET");
}

#define SWITCH "Upgrade: websocket\r\nConnection: Upgrade\r\n"

/* Who asks for a switch asks for nothing else by that. */
static void only_websocket(void **state)
{
	const struct net_policy policy = {.rules = "allow WEBSOCKET web.test/* deny * web.test/*"};
	static const char ask[] = "GET /ws HTTP/1.1\r\n" HOST
				  "Upgrade: h2c, websocket\r\nConnection: Upgrade\r\n\r\n",
			  other[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: "
				    "h2c\r\nConnection: Upgrade\r\n\r\n",
			  delete[] = "DELETE /x HTTP/1.1\r\n" HOST SWITCH "\r\n",
			  get[] = "GET /x HTTP/1.1\r\n" HOST SWITCH "\r\n";

	pf_teardown(state);
	pf_setup("", &policy);
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, delete, strlen(delete), 1000);
	assert_string_equal(pf_said(SIDE_HOST), "");
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, ask, strlen(ask), 1000);
	assert_string_equal(pf_said(SIDE_HOST), "GET /ws HTTP/1.1\r\n" HOST SWITCH "\r\n");
	pf_say(SIDE_HOST, other, strlen(other), 7);
	assert_true(pf.proxy->over && pf.proxy->speech == PROXY_HTTP1);
	/* A server that does not switch may have taken it for a GET. */
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, get, strlen(get), 1000);
	pf_say(SIDE_HOST, REPLY, strlen(REPLY), 1000);
	assert_null(strstr(pf_said(SIDE_GUEST), "200 OK"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, pf_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(good),	      TEST(chunks),
		TEST(other_hosts),    TEST(two_readings),
		TEST(bad_chunks),     TEST(crowded),
		TEST(too_long),	      TEST(answers),
		TEST(short_answers),  TEST(early_answer),
		TEST(unasked_answer), TEST(rules),
		TEST(told_why),	      TEST(ambiguous_paths),
		TEST(withdrawn),      TEST(asked),
		TEST(asked_in_full),  TEST(asked_for_long),
		TEST(left_by),	      TEST(broken_behind_interim),
		TEST(websocket),      TEST(only_websocket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
