/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for requests: how they are written, and which of them decides. */
/* modules: vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/allow.c vm/base/words.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/http_path.h"
#include "vm/base/rules.h"
#include "vm/base/util.h"

static struct rules parse(const char *text)
{
	struct rules rules = {0};
	char why[128] = "";

	if (rules_parse(text, strlen(text), &rules, why) != 0)
		fail_msg("%s: %s", text, why);
	return rules;
}

static struct rule_answer judge(const struct rules *rules, const char *method, const char *host,
				uint16_t port, const char *target)
{
	struct http_path path;

	assert_int_equal(http_path_read(target, strlen(target), &path), 0);
	return rules_judge(rules,
			   &(struct rule_question){
				   .method = method, .host = host, .port = port, .path = &path},
			   RULE_DENY);
}

/* The verdict of a list that is written for it alone; RULE_NONE if none of its rules decides. */
static enum rule_verb verdict(const char *text, const char *method, const char *host, uint16_t port,
			      const char *target)
{
	struct rules rules = parse(text);
	const struct rule_answer answer = judge(&rules, method, host, port, target);

	rules_fini(&rules);
	return answer.rule ? answer.verb : RULE_NONE;
}

static void written(void **state)
{
	struct rules rules =
		parse(" # none\nallow get,HEAD Api.Example.com:8443/v1* deny * *# all else\n"
		      "\task\tWebSocket\r\n *.example.org allow m-search 192.0.2.7/%61\n");
	static const char *const lines[] = {
		"allow GET,HEAD Api.Example.com:8443/v1*",
		"deny * *",
		"ask WEBSOCKET *.example.org",
		"allow M-SEARCH 192.0.2.7/%61",
	};
	char line[256], small[8];

	(void)state;
	assert_int_equal(rules.n, ARRAY_SIZE(lines));
	for (size_t i = 0; i < rules.n; i++) {
		assert_int_equal(rules_print(&rules, i, line, sizeof(line)), strlen(lines[i]));
		assert_string_equal(line, lines[i]);
	}
	assert_int_equal(rules_print(&rules, 0, small, sizeof(small)), strlen(lines[0]));
	assert_string_equal(small, "allow G");
	assert_string_equal(rules.rule[0].place.host.name, "api.example.com");
	assert_true(rule_is_whole(&rules.rule[1]));
	assert_false(rule_is_whole(&rules.rule[0]));
	assert_false(rule_is_whole(&rules.rule[2]));
	rules_fini(&rules);
	rules = parse("");
	assert_int_equal(rules.n, 0);
	rules_fini(&rules);
	rules = parse("# only a comment");
	assert_int_equal(rules.n, 0);
	rules_fini(&rules);
}

static void refused(void **state)
{
	static const struct {
		const char *text, *why;
	} table[] = {
		{"permit * a", "rule 1: permit: a rule begins with allow, deny or ask"},
		{"Allow * a", "begins with"},
		{"allow", "methods and a place follow"},
		{"allow GET", "methods and a place follow"},
		{"allow example.com\ndeny * a", "methods and a place follow"},
		{"allow\ndeny * a", "methods and a place follow"},
		{"deny * a\nallow ,GET a", "rule 2: ,GET: methods are names"},
		{"allow GET, a", "methods are names"},
		{"allow GET,,PUT a", "methods are names"},
		{"allow GET,* a", "alone"},
		{"allow G@T a", "methods are names"},
		{"allow ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG a", "long"},
		{"allow * https://a/b", "without http://"},
		{"allow * /v1", "begins with a host"},
		{"allow * a:0", "a port is a number"},
		{"allow * a..b", "no host name"},
		{"allow * a.*", "a * stands alone or before the first dot"},
		{"allow * [::1]", "IPv6"},
		{"allow * a/../b", "no . or .."},
		{"allow * a/b?c", "not what follows the ?"},
		{"allow * a/%", "two hexadecimal digits"},
	};
	char why[128];
	struct rules rules = {0};
	char *longer = malloc(RULES_TEXT_MAX + 1);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const char *const text = table[i].text;

		assert_int_equal(rules_parse(text, strlen(text), &rules, why), -EINVAL);
		if (!strstr(why, table[i].why))
			fail_msg("%s: %s", text, why);
		assert_null(rules.rule);
	}
	assert_int_equal(rules_parse("allow * a\0b", 11, &rules, why), -EINVAL);
	assert_int_equal(rules_parse("allow * a/\0b", 12, &rules, why), -EINVAL);
	assert_non_null(longer);
	memset(longer, ' ', RULES_TEXT_MAX + 1);
	assert_int_equal(rules_parse(longer, RULES_TEXT_MAX + 1, &rules, why), -E2BIG);
	for (size_t i = 0; i < (RULES_MAX + 1) * 10; i++)
		longer[i] = "deny * ab\n"[i % 10];
	assert_int_equal(rules_parse(longer, RULES_MAX * 10, &rules, why), 0);
	rules_fini(&rules);
	assert_int_equal(rules_parse(longer, (RULES_MAX + 1) * 10, &rules, why), -E2BIG);
	/* One place that is as long as can be, and one that is longer. */
	memset(longer, 'x', RULES_TEXT_MAX);
	for (size_t i = 0; i < 9; i++)
		longer[i] = "deny * a/"[i];
	assert_int_equal(rules_parse(longer, 7 + PLACE_WORD_MAX, &rules, why), 0);
	rules_fini(&rules);
	assert_int_equal(rules_parse(longer, 7 + PLACE_WORD_MAX + 1, &rules, why), -EINVAL);
	free(longer);
}

static void first_match(void **state)
{
	struct rules rules = parse("allow GET,HEAD api.test/v1*\n"
				   "deny * api.test\n"
				   "ask POST *.org.test/submit\n"
				   "allow * *.org.test:8443\n"
				   "deny DELETE *");
	static const struct {
		const char *method, *host;
		uint16_t port;
		const char *target;
		unsigned rule;
	} table[] = {
		{"GET", "api.test", 443, "/v1/x", 1},
		{"HEAD", "api.test", 80, "/v1", 1},
		{"GET", "api.test", 8080, "/v1", 0},
		{"POST", "api.test", 443, "/v1/x", 2},
		{"GE", "api.test", 443, "/v1/x", 2},
		{"GETX", "api.test", 443, "/v1/x", 2},
		{"GET,HEAD", "api.test", 443, "/v1/x", 2},
		{"WEBSOCKET", "api.test", 443, "/v1/x", 2},
		{"GET", "api.test", 443, "/v2", 2},
		{"GET", "api.test", 443, "*", 2},
		{"POST", "a.org.test", 443, "/submit", 3},
		{"POST", "a.b.org.test", 80, "/submit", 3},
		{"POST", "org.test", 443, "/submit", 0},
		{"POST", "a.org.test", 8443, "/submit", 4},
		{"GET", "a.org.test", 8443, "/x", 4},
		{"DELETE", "a.org.test", 8443, "/x", 4},
		{"DELETE", "else.test", 9, "/x", 5},
		{"DELETE", "192.0.2.1", 9, "/x", 5},
		{"GET", "else.test", 443, "/x", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct rule_answer a = judge(&rules, table[i].method, table[i].host,
						   table[i].port, table[i].target);

		if (a.rule != table[i].rule)
			fail_msg("%s %s:%u%s: rule %u", table[i].method, table[i].host,
				 (unsigned)table[i].port, table[i].target, a.rule);
		assert_int_equal(a.verb, a.rule ? rules.rule[a.rule - 1].verb : RULE_DENY);
	}
	rules_fini(&rules);
}

static void both_readings(void **state)
{
	static const char others[] = "deny * a/admin*\nallow * a/*";
	static const char *const admin[] = {
		"/admin",    "/ADMIN/x",  "/admin//",	 "/%61dmin",	  "/%2561dmin", "/admin;x",
		"/%5cadmin", "/%2fadmin", "/x/../admin", "/x/%2e./admin", "/admin%2fx", "/aDm%49n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(admin); i++)
		if (verdict(others, "GET", "a", 443, admin[i]) != RULE_DENY)
			fail_msg("%s", admin[i]);
	/* A control: not everything is refused. */
	assert_int_equal(verdict(others, "GET", "a", 443, "/administrator"), RULE_DENY);
	assert_int_equal(verdict(others, "GET", "a", 443, "/adm"), RULE_ALLOW);
	assert_int_equal(verdict(others, "GET", "a", 443, "/x/admin"), RULE_ALLOW);
	/* What is allowed, is so in both readings and in the case in which it was written. */
	assert_int_equal(verdict("allow * a/v1/*", "GET", "a", 443, "/v1/x"), RULE_ALLOW);
	assert_int_equal(verdict("allow * a/v1/x", "GET", "a", 443, "/v1%2fx"), RULE_NONE);
	assert_int_equal(verdict("allow * a/v1/* deny * a", "GET", "a", 443, "/v1%2fx"), RULE_DENY);
	assert_int_equal(verdict("allow * a/v1/* deny * a", "GET", "a", 443, "/V1/x"), RULE_DENY);
	assert_int_equal(verdict("allow * a/v1/* ask * a", "GET", "a", 443, "/v1;p/x"), RULE_ASK);
	/* Names of projects, with a slash in them. */
	assert_int_equal(verdict("allow * a/p/g%2Fn/* deny * a", "GET", "a", 443, "/p/g%2fn/f"),
			 RULE_ALLOW);
	assert_int_equal(verdict("allow * a/p/g%2Fn/* deny * a", "GET", "a", 443, "/p/g/n/f"),
			 RULE_DENY);
	/* Asking is stricter than allowing, and fits any case. */
	assert_int_equal(verdict("ask * a/Pay* allow * a", "GET", "a", 443, "/pAY"), RULE_ASK);
}

static void otherwise(void **state)
{
	struct rules rules = parse("allow GET a/v1*");
	struct http_path path;
	struct rule_question q = {.method = "GET", .host = "a", .port = 80, .path = &path};

	(void)state;
	assert_int_equal(http_path_read("/v1;x/y", 7, &path), 0);
	assert_int_equal(rules_judge(&rules, &q, RULE_DENY).rule, 1);
	/* One reading fits, and of the other nothing is said but what holds for all. */
	assert_int_equal(http_path_read("/v1", 3, &path), 0);
	assert_int_equal(rules_judge(&rules, &q, RULE_DENY).verb, RULE_ALLOW);
	assert_int_equal(http_path_read("/%2561", 6, &path), 0);
	assert_int_equal(rules_judge(&rules, &q, RULE_DENY).verb, RULE_DENY);
	assert_int_equal(rules_judge(&rules, &q, RULE_DENY).rule, 0);
	assert_int_equal(rules_judge(&rules, &q, RULE_ALLOW).verb, RULE_ALLOW);
	q.method = "PUT";
	assert_int_equal(rules_judge(&rules, &q, RULE_ASK).verb, RULE_ASK);
	assert_int_equal(rules_judge(&(struct rules){0}, &q, RULE_ASK).verb, RULE_ASK);
	rules_fini(&rules);
}

static void reach_is(const struct rules *rules, const char *host, uint16_t port, bool look,
		     bool may, enum rule_verb verb, unsigned rule)
{
	const struct rule_reach r = rules_reach(rules, host, port);

	if (r.look != look || (r.may_allow || r.may_ask) != may || r.answer.verb != verb ||
	    r.answer.rule != rule)
		fail_msg("%s:%u: look %d, may %d, verb %u, rule %u", host, (unsigned)port, r.look,
			 r.may_allow || r.may_ask, (unsigned)r.answer.verb, r.answer.rule);
}

static void reach(void **state)
{
	struct rules rules = parse("allow GET api.test/v1*\n"
				   "deny * api.test\n"
				   "deny * bad.test\n"
				   "ask * ask.test:22\n"
				   "deny POST *.part.test\n"
				   "allow * *.part.test:443\n"
				   "deny * *:25\n"
				   "allow * 192.0.2.7\n"
				   "allow * host.internal:9");

	(void)state;
	reach_is(&rules, "api.test", 443, true, true, RULE_NONE, 0);
	reach_is(&rules, "api.test", 22, false, false, RULE_NONE, 0);
	reach_is(&rules, "bad.test", 443, false, false, RULE_DENY, 3);
	reach_is(&rules, "ask.test", 22, false, true, RULE_ASK, 4);
	reach_is(&rules, "ask.test", 443, false, false, RULE_NONE, 0);
	reach_is(&rules, "a.part.test", 443, true, true, RULE_NONE, 0);
	reach_is(&rules, "a.part.test", 80, true, false, RULE_NONE, 0);
	reach_is(&rules, "any.test", 25, false, false, RULE_DENY, 7);
	reach_is(&rules, "192.0.2.7", 443, false, true, RULE_ALLOW, 8);
	reach_is(&rules, "192.0.2.8", 443, false, false, RULE_NONE, 0);
	/* Any port: what holds for some says nothing of others. */
	reach_is(&rules, "bad.test", 0, true, false, RULE_NONE, 0);
	reach_is(&rules, "ask.test", 0, true, true, RULE_NONE, 0);
	reach_is(&rules, "any.test", 0, true, false, RULE_NONE, 0);
	rules_fini(&rules);
	rules = parse("deny * * allow * a");
	reach_is(&rules, "a", 0, false, false, RULE_DENY, 1);
	rules_fini(&rules);
}

/* What stands for many is the host only where it is kept from it. */
static void the_host(void **state)
{
	(void)state;
	assert_int_equal(verdict("allow * *", "GET", ALLOW_HOST, 80, "/"), RULE_NONE);
	assert_int_equal(verdict("ask * *.internal", "GET", ALLOW_HOST, 80, "/"), RULE_NONE);
	assert_int_equal(verdict("deny * *", "GET", ALLOW_HOST, 80, "/"), RULE_DENY);
	assert_int_equal(verdict("deny * *.internal", "GET", ALLOW_HOST, 80, "/"), RULE_DENY);
	assert_int_equal(verdict("allow * host.internal", "GET", ALLOW_HOST, 80, "/"), RULE_ALLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written),     cmocka_unit_test(refused),
		cmocka_unit_test(first_match), cmocka_unit_test(both_readings),
		cmocka_unit_test(otherwise),   cmocka_unit_test(reach),
		cmocka_unit_test(the_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
