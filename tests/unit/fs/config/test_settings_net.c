/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a network: what it may reach, its ports, and what the administrator allows. */
/* modules: tests/unit/fixture/settings_fixture.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/settings_fixture.h"

static void test_network(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "network = on"), 0);
	assert_true(f->s.spec.network);
	assert_string_equal(f->s.spec.allow, "");
	assert_int_equal(parse(f, "allow = Example.COM,  a.b:8443\t*.c.org a.b:8443 10.0.0.1 *:22"),
			 0);
	assert_string_equal(f->s.spec.allow, "example.com a.b:8443 *.c.org 10.0.0.1 *:22");
	assert_refused(f, "allow = a..b", "invalid", "a..b");
	assert_refused(f, "allow = x:0", "invalid", "x:0");
	assert_refused(f, "allow = ::1", "invalid", "IPv6");
	assert_refused(f, "allow = \xc3\xa4.org", "invalid", "??.org");
	assert_string_equal(f->s.spec.allow, "example.com a.b:8443 *.c.org 10.0.0.1 *:22");

	/* Without a network there is nothing to allow: an inherited list goes, one that is written is refused. */
	assert_refused(f, "network = off\nallow = x.org", "network-off", "network = on");
	assert_refused(f, "allow = x.org\nnetwork = off", "network-off", "network = on");
	assert_string_equal(f->s.spec.allow, "example.com a.b:8443 *.c.org 10.0.0.1 *:22");
	assert_int_equal(parse(f, "network = off"), 0);
	assert_string_equal(f->s.spec.allow, "");
	assert_refused(f, "allow = x.org", "network-off", "network = on");
	assert_int_equal(parse(f, "allow = x.org\nnetwork = yes"), 0);
	assert_int_equal(parse(f, "allow ="), 0);
	assert_string_equal(f->s.spec.allow, "");
	assert_refused(f, "network = maybe", "invalid", "neither on nor off");
}

/* As with names: what goes with the network goes with it, and what a text does not mention stays. */
static void test_rules(void **state)
{
	struct fixture *f = *state;
	const struct net_policy *p = &f->s.spec.policy;

	assert_refused(f, "rules = deny * a", "network-off", "with network = on");
	assert_refused(f, "secrets = a bearer x", "network-off", "secrets: ");
	assert_int_equal(parse(f, "network = on\nrules = deny  get,PUT A.org/x*  ask * b # no"), 0);
	assert_string_equal(p->rules, "deny GET,PUT A.org/x* ask * b");
	assert_int_equal(parse(f, "secrets = a.org bearer x b header X-Y z"), 0);
	assert_string_equal(p->rules, "deny GET,PUT A.org/x* ask * b");
	assert_string_equal(p->secrets, "a.org bearer x b header X-Y z");
	assert_refused(f, "rules = deny * a allow", "invalid",
		       "rule 2: allow: methods and a place");
	assert_refused(f, "secrets = a bearer", "invalid", "the name of a secret is missing");
	assert_refused(f, "secrets_file = x", "invalid", "no absolute path");
	assert_refused(f, "ask_s = 0", "invalid", "too small");
	assert_refused(f, "net_rate = fast", "invalid", "is not a size");
	assert_int_equal(parse(f, "network = off"), 0);
	assert_string_equal(p->rules, "");
	assert_string_equal(p->secrets, "");
}

static void test_long_allow(void **state)
{
	struct fixture *f = *state;
	static char text[SETTINGS_TEXT_MAX];
	char *p = text;

	p += sprintf(p, "network = on\nallow =");
	for (int i = 0; i < 5000; i++)
		p += sprintf(p, " same.org");
	assert_refused(f, text, "too-long", "4096 words");
	p = text + sprintf(text, "network = on\nallow =");
	for (int i = 0; i < 1025; i++)
		p += sprintf(p, " h%d.org", i);
	assert_refused(f, text, "too-long", "1024 entries");
	p = text + sprintf(text, "network = on\nallow =");
	for (int i = 0; i < 4000; i++)
		p += sprintf(p, " h%d.org", i % 1000);
	assert_int_equal(parse(f, text), 0);
}

static void assert_ports(const struct fixture *f, const char *text)
{
	struct buf b = {0};

	assert_int_equal(netset_print_ports(&f->s.spec, &b), 0);
	assert_string_equal(buf_str(&b), text);
	buf_clear(&b);
}

static void test_ports(void **state)
{
	struct fixture *f = *state;
	const struct sandbox_port *ports;
	static const char *const bad[] = {"0",	   "65536",	  "x",	  "80:",  ":80",
					  "1:2:3", "080",	  "-1",	  "80/x", "+80",
					  "80:0",  "99999999999", "8 0x", "1.2",  "80-90"};

	assert_int_equal(parse(f, "ports = 8080  3000:80,65535"), 0);
	assert_ports(f, "8080 3000:80 65535");
	assert_int_equal(f->s.spec.nports, 3);
	ports = f->s.spec.ports;
	assert_int_equal(ports[0].guest, 8080);
	assert_int_equal(ports[0].host, 0);
	assert_int_equal(ports[1].guest, 80);
	assert_int_equal(ports[1].host, 3000);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char line[64];

		snprintf(line, sizeof(line), "ports = %s", bad[i]);
		assert_refused(f, line, "invalid", "ports: ");
	}
	assert_refused(f, "ports = 80:80", "invalid", "80 of this machine");
	assert_refused(f, "ports = 1023:8080", "invalid", "below 1024");
	assert_int_equal(parse(f, "ports = 1024:80"), 0);
	assert_refused(f, "ports = 80 80", "invalid", "80 of the sandbox");
	assert_refused(f, "ports = 3000:80 80", "invalid", "80 of the sandbox");
	assert_refused(f, "ports = 3000:80 3000:81", "invalid", "3000 of this machine");
	assert_int_equal(parse(f, "ports = 1 2 3 4 5 6 7 8 9 10"), 0);
	assert_refused(f, "ports = 1 2 3 4 5 6 7 8 9 10 11", "too-many", "10");
	assert_int_equal(parse(f, "ports ="), 0);
	assert_ports(f, "");
}

/* This machine is no address of a sandbox's, and has a name of its own. */
static void test_this_machine(void **state)
{
	struct fixture *f = *state;
	static char some[] = "* 127.0.0.1:9000";
	const struct settings_limits closed = {0}, open = {.host_ports = {{5432, 80}, 2}},
				     spelt = {.max_allow = some};
	static const struct {
		const char *allow;
		bool none, open, spelt;
	} lists[] = {
		{"127.0.0.1:9000", false, false, true},
		{"127.0.0.2", false, false, false},
		{"localhost", false, false, false},
		{"*.localhost:1", false, false, false},
		{"a.localhost", false, false, false},
		{"0.0.0.0", false, false, false},
		{"255.255.255.255", false, false, false},
		{"host.internal", false, true, false},
		{"host.internal:5432", false, true, false},
		{"host.internal:5433", false, false, false},
		{"a.host.internal", true, true, true},
		{"10.0.0.1", true, true, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const struct settings_limits *limits[] = {&closed, &open, &spelt};
		const bool good[] = {lists[i].none, lists[i].open, lists[i].spelt};
		char text[128];

		snprintf(text, sizeof(text), "network = on\nallow = %s\n", lists[i].allow);
		for (int k = 0; k < 3; k++) {
			int r = settings_parse(&f->s, text, strlen(text), 0, limits[k], &f->why);

			if (r != (good[k] ? 0 : -EINVAL))
				fail_msg("%s, %d: %d", lists[i].allow, k, r);
		}
	}
	assert_int_equal(
		settings_parse(&f->s, "network = on\nallow = localhost", 30, 0, &open, &f->why),
		-EINVAL);
	assert_string_equal(problem_code_str(f->why.code), "not-reachable");
	assert_non_null(strstr(f->why.fix, "host.internal:PORT"));
	assert_non_null(strstr(f->why.fix, "5432 80"));
}

/* A list that is whole with the administrator's before it, or refused. */
static void test_rules_together(void **state)
{
	static char first[] = "deny * a.test deny * b.test", text[16384];
	const struct settings_limits l = {.first_rules = first};
	struct fixture *f = *state;
	size_t n = (size_t)snprintf(text, sizeof(text), "network = on\nrules =");

	for (int i = 0; i < 510; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " deny * n%d.test", i);
	assert_int_equal(settings_parse(&f->s, text, n, 0, &l, &f->why), 0);
	n += (size_t)snprintf(text + n, sizeof(text) - n, " deny * one.test");
	assert_true(settings_parse(&f->s, text, n, 0, &l, &f->why) < 0);
	assert_int_equal(f->why.code, PROBLEM_TOO_LONG);
	assert_non_null(strstr(f->why.cause, "the administrator has put first"));
}

static void test_network_limits(void **state)
{
	struct fixture *f = *state;
	static char most[] = "example.com *.example.org:8443 *:22 10.0.0.1";
	const struct settings_limits l = {.max_allow = most}, no = {.deny_network = true};
	static const struct {
		const char *allow;
		bool ok;
	} lists[] = {
		{"example.com", true},
		{"example.com:80 example.com:443", true},
		{"example.com:8080", false},
		{"www.example.com", false},
		{"*.example.com", false},
		{"a.example.org:8443", true},
		{"*.example.org:8443", true},
		{"*.a.example.org:8443", true},
		{"a.example.org", false},
		{"example.org:8443", false},
		{"*:22", true},
		{"*", false},
		{"any.net:22", true},
		{"8.8.8.8:22", true},
		{"10.0.0.2:22", false},
		{"10.0.0.1", true},
		{"10.0.0.1:443", true},
		{"10.0.0.1:8080", false},
		{"evilexample.org:8443", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		char text[128];
		int r;

		snprintf(text, sizeof(text), "network = on\nallow = %s\n", lists[i].allow);
		r = settings_parse(&f->s, text, strlen(text), 0, &l, &f->why);
		if (r != (lists[i].ok ? 0 : -EINVAL))
			fail_msg("%s: %d", lists[i].allow, r);
		if (r < 0)
			assert_string_equal(problem_code_str(f->why.code), "not-allowed");
	}
	assert_int_equal(settings_parse(&f->s, "network = on", 12, 0, &no, &f->why), -EINVAL);
	assert_string_equal(problem_code_str(f->why.code), "not-allowed");
	assert_int_equal(settings_parse(&f->s, "network = off\nports = 80", 24, 0, &no, &f->why),
			 0);
}

int main(void)
{
#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, settings_fixture_setup, settings_fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_network),	   TEST(test_long_allow),     TEST(test_ports),
		TEST(test_this_machine),   TEST(test_network_limits), TEST(test_rules),
		TEST(test_rules_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
