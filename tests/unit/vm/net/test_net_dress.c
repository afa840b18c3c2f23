/* SPDX-License-Identifier: Apache-2.0 */
/* What secrets do to requests, byte by byte: fields, queries, placeholders in bodies; and to answers, with time. */
/* modules: tests/unit/fixture/proxy_fixture.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/proxy_fixture.h"
#include "vm/base/net_reason.h"
#include "vm/base/util.h"

#define HOST  "Host: web.test\r\n"
#define PLAIN "Accept-Encoding: identity\r\n"
#define VALUE "Val/ue 1&"

static const char uses[] =
	"web.test:80/b* bearer tok web.test:80/u* basic me tok web.test:80/h* header X-Key tok "
	"web.test:80/q* query key tok web.test:80/p* placeholder tok web.test:80/p* placeholder "
	"tok.json "
	"web.test:80/none bearer none web.test:80/b* header Authorization tok";

static void give(const char *name, const char *value)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], value, strlen(value)), (int)strlen(value));
	close(fds[1]);
	secrets_read(&pf.net, name, fds[0]);
}

static int setup(void **state)
{
	const struct net_policy policy = {.secrets = uses};

	(void)state;
	pf_setup("web.test", &policy);
	give("tok", VALUE "\n");
	give("tok.json", "the other one");
	return 0;
}

static void arrives(const char *text, const char *expected)
{
	static const size_t steps[] = {1, 7, 100000};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		pf_open("web.test", 80);
		pf_say(SIDE_GUEST, text, strlen(text), steps[i]);
		assert_string_equal(pf_said(SIDE_HOST), expected);
	}
}

static void fields(void **state)
{
	(void)state;
	arrives("GET /b HTTP/1.1\r\n" HOST
		"authorization: a\r\nX: y\r\nAuthorization: b\r\nAccept-Encoding: gzip, "
		"br\r\nRange: bytes=0-\r\nRequest-Range: bytes=0-\r\n\r\n",
		"GET /b HTTP/1.1\r\n" HOST "X: y\r\nAuthorization: Bearer " VALUE "\r\n" PLAIN
		"\r\n");
	arrives("GET /u HTTP/1.1\r\n" HOST "\r\n",
		"GET /u HTTP/1.1\r\n" HOST "Authorization: Basic bWU6VmFsL3VlIDEm\r\n" PLAIN
		"\r\n");
	arrives("GET /h HTTP/1.1\r\n" HOST "x_key: a\r\nX-Key: b\r\nX-Keys: c\r\n\r\n",
		"GET /h HTTP/1.1\r\n" HOST "X-Keys: c\r\nX-Key: " VALUE "\r\n" PLAIN "\r\n");
	arrives("GET /else HTTP/1.1\r\n" HOST
		"Authorization: mine\r\nAccept-Encoding: gzip\r\n\r\n",
		"GET /else HTTP/1.1\r\n" HOST
		"Authorization: mine\r\nAccept-Encoding: gzip\r\n\r\n");
}

static void queries(void **state)
{
	static const struct {
		const char *query, *expected;
	} cases[] = {
		{"", "?"},
		{"?", "?"},
		{"?a=b", "?a=b&"},
		{"?key=x", "?"},
		{"?key", "?"},
		{"?KEY=x&a", "?a&"},
		{"?a&%6b%65%79=x&b;key=y;c", "?a&b&c&"},
		{"?keys=x&ke=y&=key&a=key", "?keys=x&ke=y&=key&a=key&"},
		{"?%6=x&%zz&%", "?%6=x&%zz&%&"},
		{"?a#key=x", "?a&"},
		{"?a=?key=x", "?a=?key=x&"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[200], expected[200];

		snprintf(text, sizeof(text), "GET /q%s HTTP/1.1\r\n" HOST "\r\n", cases[i].query);
		snprintf(expected, sizeof(expected),
			 "GET /q%skey=Val%%2Fue%%201%%26 HTTP/1.1\r\n" HOST PLAIN "\r\n",
			 cases[i].expected);
		arrives(text, expected);
	}
}

static void placeholders(void **state)
{
	(void)state;
	arrives("GET /p?a=xsbx-secret-tok&xsbx-secret-toks HTTP/1.1\r\n" HOST
		"X: <xsbx-secret-tok.json, xsbx-secret-tok..>\r\n\r\n",
		"GET /p?a=Val%2Fue%201%26&xsbx-secret-toks HTTP/1.1\r\n" HOST
		"X: <the other one, " VALUE "..>\r\n" PLAIN "\r\n");
	arrives("POST /p HTTP/1.1\r\n" HOST
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: "
		"18\r\n\r\na=xsbx-secret-tok&",
		"POST /p HTTP/1.1\r\n" HOST
		"Content-Type: application/x-www-form-urlencoded\r\n" PLAIN
		"Content-Length: 18\r\n\r\na=Val%2Fue%201%26&");
	arrives("POST /p HTTP/1.1\r\n" HOST
		"Content-Length: 16\r\nExpect: 100-continue\r\n\r\nxsbx-secret-tok.",
		"POST /p HTTP/1.1\r\n" HOST PLAIN "Content-Length: 10\r\n\r\n" VALUE ".");
	assert_string_equal(pf_said(SIDE_GUEST), "HTTP/1.1 100 Continue\r\n\r\n");
	/* In chunks it stays: it is no secret. */
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST,
	       "POST /p HTTP/1.1\r\n" HOST
	       "Transfer-Encoding: chunked\r\n\r\nf\r\nxsbx-secret-tok\r\n0\r\n\r\n",
	       87, 100);
	assert_non_null(strstr(pf_said(SIDE_HOST), "f\r\nxsbx-secret-tok\r\n"));
}

static void refused(void **state)
{
	(void)state;
	arrives("GET /none HTTP/1.1\r\n" HOST "\r\n", "");
	assert_non_null(strstr(pf_said(SIDE_GUEST), "HTTP/1.1 502 "));
	arrives("TRACE /b HTTP/1.1\r\n" HOST "\r\n", "");
	assert_non_null(strstr(pf_said(SIDE_GUEST), "HTTP/1.1 403 "));
	assert_int_equal(pf.denied, NET_SECRET_TRACE);
}

static void trailers(void **state)
{
	(void)state;
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST,
	       "POST /h HTTP/1.1\r\n" HOST
	       "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Key: mine\r\n\r\n",
	       79, 100);
	assert_null(strstr(pf_said(SIDE_HOST), "mine"));
	assert_non_null(strstr(pf_said(SIDE_HOST), "X-Key: " VALUE));
}

/* What the guest gets of an answer. */
static const char *answered(const char *path, const char *answer)
{
	char text[100];

	pf_open("web.test", 80);
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" HOST "\r\n", path);
	pf_say(SIDE_GUEST, text, strlen(text), 1000);
	pf_say(SIDE_HOST, answer, strlen(answer), 3);
	return pf_said(SIDE_GUEST);
}

static void answers(void **state)
{
	(void)state;
	assert_string_equal(answered("/b", "HTTP/1.1 200 " VALUE "\r\nX: " VALUE
					   "\r\nX-Val: 1\r\nContent-Length: 11\r\n\r\n<" VALUE ">"),
			    "HTTP/1.1 200 xsbx-secr\r\nX: xsbx-secr\r\nX-Val: 1\r\nContent-Length: "
			    "11\r\n\r\n<xsbx-secr>");
	/* Also where this request has none. */
	assert_non_null(
		strstr(answered("/else", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" VALUE),
		       "xsbx-secr"));
	assert_non_null(strstr(
		answered(
			"/b",
			"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx"),
		" 502 "));
	assert_non_null(strstr(answered("/b", "HTTP/1.1 200 OK\r\nContent-Encoding: identity "
					      "\r\nContent-Length: 2\r\n\r\nxx"),
			       "xx"));
	assert_non_null(strstr(
		answered(
			"/else",
			"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx"),
		"xx"));
}

static bool listens;

static bool is_heard(const struct proxy *p)
{
	(void)p;
	return listens;
}

/* What is held back goes on when nothing has come for a while, but not while the server is not listened to. */
static void held(void **state)
{
	int timeout = -1;

	(void)state;
	(void)answered("/b", "HTTP/1.1 200 OK\r\nContent-Type: "
			     "text/event-stream\r\nContent-Length: 9\r\n\r\nVal");
	assert_null(strstr(pf_said(SIDE_GUEST), "Val"));
	listens = false;
	cleanse_prepare(&pf.net, is_heard, &timeout);
	assert_int_equal(timeout, -1);
	usleep(100000);
	cleanse_run(&pf.net);
	listens = true;
	cleanse_prepare(&pf.net, is_heard, &timeout);
	assert_in_range(timeout, 1, 100);
	cleanse_run(&pf.net);
	pf_say(SIDE_HOST, "", 0, 1);
	assert_null(strstr(pf_said(SIDE_GUEST), "Val"));
	usleep(100000);
	cleanse_prepare(&pf.net, is_heard, &timeout);
	assert_int_equal(timeout, 0);
	cleanse_run(&pf.net);
	pf_say(SIDE_HOST, "", 0, 1);
	assert_non_null(strstr(pf_said(SIDE_GUEST), "Val"));
	pf_say(SIDE_HOST, "/ue 1&", 6, 1);
	assert_non_null(strstr(pf_said(SIDE_GUEST), "Val"
						    "x-secr"));
}

/* In an answer that is no stream nothing is let through by time. */
static void held_for_good(void **state)
{
	int timeout = -1;

	(void)state;
	(void)answered("/b", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nVal");
	usleep(100000);
	cleanse_prepare(&pf.net, is_heard, &timeout);
	assert_int_equal(timeout, -1);
	cleanse_run(&pf.net);
	pf_say(SIDE_HOST, "", 0, 1);
	assert_null(strstr(pf_said(SIDE_GUEST), "Val"));
	pf_say(SIDE_HOST, "/ue 1&", 6, 1);
	assert_non_null(strstr(pf_said(SIDE_GUEST), "xsbx-secr"));
}

/* As control.c does. */
static void change_uses(const char *text)
{
	struct secret_uses before = pf.net.egress.uses;
	char why[128];

	pf.net.egress.uses = (struct secret_uses){0};
	assert_int_equal(secret_uses_parse(text, strlen(text), &pf.net.egress.uses, why), 0);
	secrets_recheck(&pf.net, &before);
	secret_uses_fini(&before);
}

/* A policy that names a secret no more has it forgotten. */
static void forgotten(void **state)
{
	(void)state;
	assert_non_null(secrets_find(&pf.net, "tok", NULL));
	change_uses("");
	assert_null(secrets_find(&pf.net, "tok", NULL));
	give("tok", VALUE);
	assert_null(secrets_find(&pf.net, "tok", NULL));
}

/* ... and so has one that sends it to another host: nobody has said that it may go there. */
static void sent_further(void **state)
{
	(void)state;
	change_uses("web.test:80/other bearer tok web.test:80/b* placeholder tok");
	assert_non_null(secrets_find(&pf.net, "tok", NULL));
	change_uses("web.test:80/b* bearer tok eve.test:80 bearer tok");
	assert_null(secrets_find(&pf.net, "tok", NULL));
	give("tok", VALUE);
	change_uses("eve.test:80 bearer tok");
	assert_non_null(secrets_find(&pf.net, "tok", NULL));
	change_uses("eve.test:81 bearer tok");
	assert_null(secrets_find(&pf.net, "tok", NULL));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, pf_teardown)
	const struct CMUnitTest tests[] = {
		TEST(fields),	 TEST(queries),	     TEST(placeholders), TEST(refused),
		TEST(trailers),	 TEST(answers),	     TEST(held),	 TEST(held_for_good),
		TEST(forgotten), TEST(sent_further),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
