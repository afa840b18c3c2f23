/* SPDX-License-Identifier: Apache-2.0 */
/* The allow list, and which addresses are public. */
/* modules: vm/base/allow.c vm/base/address.c */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/address.h"
#include "vm/base/allow.h"
#include "vm/base/util.h"

static struct allow parse(const char *text)
{
	struct allow list = {0};
	char why[128];

	assert_int_equal(allow_parse(text, strlen(text), &list, why), 0);
	return list;
}

static void names_and_ports(void **state)
{
	struct allow a =
		parse("Example.com, b.test:8443\n*.wild.test # c.test\n#d.test\n\tE.test.:22");

	(void)state;
	assert_int_equal(a.nentries, 4);
	assert_int_equal(allow_name(&a, "example.com", 80), ALLOW_GUARDED);
	assert_int_equal(allow_name(&a, "example.com", 443), ALLOW_GUARDED);
	assert_int_equal(allow_name(&a, "example.com", 22), ALLOW_REFUSED);
	assert_int_equal(allow_name(&a, "example.com", 0), ALLOW_GUARDED);
	assert_int_equal(allow_name(&a, "www.example.com", 80), ALLOW_REFUSED);
	assert_int_equal(allow_name(&a, "b.test", 8443), ALLOW_GUARDED);
	assert_int_equal(allow_name(&a, "b.test", 443), ALLOW_REFUSED);
	assert_int_equal(allow_name(&a, "x.wild.test", 443), ALLOW_GUARDED);
	assert_int_equal(allow_name(&a, "x.y.wild.test", 443), ALLOW_GUARDED);
	assert_int_equal(allow_name(&a, "wild.test", 443), ALLOW_REFUSED);
	assert_int_equal(allow_name(&a, "xwild.test", 443), ALLOW_REFUSED);
	assert_int_equal(allow_name(&a, ".wild.test", 443), ALLOW_REFUSED);
	assert_int_equal(allow_name(&a, "c.test", 0), ALLOW_REFUSED);
	assert_int_equal(allow_name(&a, "d.test", 0), ALLOW_REFUSED);
	assert_int_equal(allow_name(&a, "e.test", 22), ALLOW_GUARDED);
	assert_false(allow_everything(&a, 80));
	allow_fini(&a);
	assert_int_equal(allow_name(&a, "example.com", 80), ALLOW_REFUSED);
}

static void words(void **state)
{
	static const char text[] = " # none\n,one\t,two#three\n\rfour,#";
	static const char *const expected[] = {"one", "two", "four"};
	size_t at = 0, n;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++, at += n) {
		n = allow_word(text, sizeof(text) - 1, &at);
		assert_int_equal(n, strlen(expected[i]));
		assert_memory_equal(text + at, expected[i], n);
	}
	assert_int_equal(allow_word(text, sizeof(text) - 1, &at), 0);
	assert_int_equal(at, sizeof(text) - 1);
	/* The text ends where it is said to end. */
	at = 0;
	assert_int_equal(allow_word("example", 4, &at), 4);
	at = 4;
	assert_int_equal(allow_word("example", 4, &at), 0);
	/* A NUL divides nothing: it is for allow_parse() to refuse it. */
	at = 0;
	assert_int_equal(allow_word("a\0b c", 5, &at), 3);
}

static void addresses(void **state)
{
	struct allow a = parse("10.0.0.7:8080 192.168.1.1");

	(void)state;
	assert_true(allow_literal(&a, inet_addr("10.0.0.7"), 8080));
	assert_false(allow_literal(&a, inet_addr("10.0.0.7"), 80));
	assert_true(allow_literal(&a, inet_addr("10.0.0.7"), 0));
	assert_true(allow_literal(&a, inet_addr("192.168.1.1"), 443));
	assert_false(allow_literal(&a, inet_addr("192.168.1.2"), 443));
	assert_int_equal(allow_name(&a, "10.0.0.7", 8080), ALLOW_REFUSED);
	allow_fini(&a);
}

static void everything(void **state)
{
	struct allow a = parse("example.com * x.test:9"), b = parse("*:443");

	(void)state;
	assert_int_equal(allow_name(&a, "any.test", 25), ALLOW_FREE);
	assert_int_equal(allow_name(&a, "example.com", 80), ALLOW_FREE);
	assert_true(allow_everything(&a, 1));
	assert_true(allow_everything(&b, 443));
	assert_false(allow_everything(&b, 80));
	assert_int_equal(allow_name(&b, "any.test", 80), ALLOW_REFUSED);
	assert_false(allow_literal(&a, inet_addr("10.0.0.1"), 80));
	allow_fini(&a);
	allow_fini(&b);
}

static void refused(void **state)
{
	static const char *const bad[] = {
		"a..b",	       ".a",	    "a.b..",	 "-a.test", "a-.test",	"*.",
		"**",	       "*a",	    "a.*",	 "*.*.com", "a:",	"a:0",
		"a:070",       "a:65536",   "a:1:2",	 "::1",	    "[::1]",	"1.2.3",
		"1.2.3.4.5",   "256.1.1.1", "*.1.2.3.4", "a/b",	    "http://a", "a@b",
		"caf\xc3\xa9", "a:80x",	    ":80",	 "*:"};
	char why[128], longer[300];
	struct allow a = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		why[0] = '\0';
		assert_int_equal(allow_parse(bad[i], strlen(bad[i]), &a, why), -EINVAL);
		assert_true(strlen(why) > 10);
	}
	assert_null(a.entries);
	memset(longer, 'a', sizeof(longer));
	/* What is copied out of a browser. */
	assert_int_equal(allow_parse("https://a.example/", 18, &a, why), -EINVAL);
	assert_non_null(strstr(why, "https://a.example/: write the name alone"));
	assert_int_equal(allow_parse(longer, 64, &a, why), -EINVAL);
	assert_int_equal(allow_parse("a\0b", 3, &a, why), -EINVAL);
	for (size_t i = 1; i < sizeof(longer); i += 2)
		longer[i] = '.';
	assert_int_equal(allow_parse(longer, 253, &a, why), 0);
	allow_fini(&a);
	assert_int_equal(allow_parse(longer, 255, &a, why), -EINVAL);
}

static void limits(void **state)
{
	static char text[ALLOW_TEXT_MAX + 1];
	char why[128];
	struct allow a;

	(void)state;
	memset(text, ' ', sizeof(text));
	assert_int_equal(allow_parse(text, sizeof(text), &a, why), -E2BIG);
	for (size_t i = 0; i < ALLOW_ENTRIES_MAX; i++)
		text[2 * i] = 'a';
	assert_int_equal(allow_parse(text, sizeof(text) - 1, &a, why), 0);
	assert_int_equal(a.nentries, ALLOW_ENTRIES_MAX);
	allow_fini(&a);
	text[2L * ALLOW_ENTRIES_MAX] = 'a';
	assert_int_equal(allow_parse(text, sizeof(text) - 1, &a, why), -E2BIG);
}

static bool is_public(const char *text)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_in in = {.sin_family = AF_INET};

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		return address_is_public((struct sockaddr *)&in);
	assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
	return address_is_public((struct sockaddr *)&in6);
}

static void public_addresses(void **state)
{
	static const char *const yes[] = {
		"1.1.1.1",	    "9.255.255.255",   "11.0.0.0",	  "100.63.255.255",
		"100.128.0.0",	    "126.255.255.255", "128.0.0.1",	  "169.253.0.1",
		"172.15.0.1",	    "172.32.0.1",      "192.167.1.1",	  "198.17.1.1",
		"198.20.0.1",	    "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888",
		"64:ff9b::101:101", "2002:101:101::1"};
	static const char *const no[] = {"0.0.0.0",
					 "10.1.2.3",
					 "100.64.0.1",
					 "100.100.100.200",
					 "127.0.0.1",
					 "127.255.255.255",
					 "168.63.129.16",
					 "169.254.169.254",
					 "172.16.0.1",
					 "172.31.255.255",
					 "192.0.0.192",
					 "192.0.2.1",
					 "192.168.0.1",
					 "198.18.0.1",
					 "198.19.255.255",
					 "198.51.100.1",
					 "203.0.113.1",
					 "224.0.0.1",
					 "239.1.1.1",
					 "240.0.0.1",
					 "255.255.255.255",
					 "::",
					 "::1",
					 "::ffff:1.1.1.1",
					 "::ffff:127.0.0.1",
					 "fe80::1",
					 "fc00::1",
					 "fd00:ec2::254",
					 "ff02::1",
					 "2001:db8::1",
					 "2001::1",
					 "64:ff9b::a00:1",
					 "64:ff9b::7f00:1",
					 "2002:a00:1::1",
					 "2002:7f00:1::1",
					 "64:ff9b:1::1",
					 "3fff::1",
					 "4000::1"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!is_public(yes[i]))
			fail_msg("%s should be public", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (is_public(no[i]))
			fail_msg("%s should not be public", no[i]);
	assert_false(address_is_public(&(struct sockaddr){.sa_family = AF_UNIX}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_ports),  cmocka_unit_test(words),
		cmocka_unit_test(addresses),	    cmocka_unit_test(everything),
		cmocka_unit_test(refused),	    cmocka_unit_test(limits),
		cmocka_unit_test(public_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
