/* SPDX-License-Identifier: Apache-2.0 */
/* Queries that are read, and answers that are written. */
/* modules: vm/net/filter/dns.c vm/base/allow.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "vm/net/filter/dns.h"

#define HEAD	 "\x12\x34\x01\x00\0\1\0\0\0\0\0\0"
#define QUESTION "\3wWw\7Example\3com\0\0\1\0\1"

static int parse(const char *msg, size_t len, struct dns_query *q)
{
	return dns_parse((const uint8_t *)msg, len, q);
}

#define PARSE(msg, q) parse(msg, sizeof(msg) - 1, q)

static void good_query(void **state)
{
	struct dns_query q;

	(void)state;
	assert_int_equal(PARSE(HEAD QUESTION, &q), 0);
	assert_int_equal(q.id, 0x1234);
	assert_int_equal(q.type, DNS_A);
	assert_true(q.is_host);
	assert_string_equal(q.name, "www.example.com");
	assert_int_equal(q.question_len, sizeof(QUESTION) - 1);
	/* EDNS behind it */
	assert_int_equal(
		PARSE("\1\2\1\0\0\1\0\0\0\0\0\1" QUESTION "\0\0\x29\x10\0\0\0\0\0\0\0", &q), 0);
}

static void odd_names(void **state)
{
	struct dns_query q;

	(void)state;
	assert_int_equal(PARSE(HEAD "\0\0\1\0\1", &q), 0);
	assert_false(q.is_host);
	assert_string_equal(q.name, ".");
	assert_int_equal(PARSE(HEAD "\4a.b\n\3com\0\0\1\0\1", &q), 0);
	assert_false(q.is_host);
	assert_string_equal(q.name, "a?b?.com");
	assert_int_equal(PARSE(HEAD "\3a\0b\0\0\1\0\1", &q), 0);
	assert_string_equal(q.name, "a?b");
}

static void bad_queries(void **state)
{
	static char many[DNS_HEADER + 400];
	struct dns_query q;

	(void)state;
	for (size_t n = 0; n < DNS_HEADER; n++)
		assert_int_equal(parse(HEAD QUESTION, n, &q), -EBADMSG);
	for (size_t n = DNS_HEADER; n < sizeof(HEAD QUESTION) - 1; n++)
		assert_int_equal(parse(HEAD QUESTION, n, &q), -EINVAL);
	/* a response, another opcode, no question, two, an answer, another class */
	assert_int_equal(PARSE("\1\2\x81\0\0\1\0\0\0\0\0\0" QUESTION, &q), -EBADMSG);
	assert_int_equal(PARSE("\1\2\x29\0\0\1\0\0\0\0\0\0" QUESTION, &q), -EINVAL);
	assert_int_equal(PARSE("\1\2\1\0\0\0\0\0\0\0\0\0" QUESTION, &q), -EINVAL);
	assert_int_equal(PARSE("\1\2\1\0\0\2\0\0\0\0\0\0" QUESTION, &q), -EINVAL);
	assert_int_equal(PARSE("\1\2\1\0\0\1\0\1\0\0\0\0" QUESTION, &q), -EINVAL);
	assert_int_equal(PARSE(HEAD "\1a\0\0\1\0\3", &q), -EINVAL);
	/* a pointer, to itself at that; a label that is too long; a name that is */
	assert_int_equal(PARSE(HEAD "\xc0\x0c\0\1\0\1", &q), -EINVAL);
	assert_int_equal(PARSE(HEAD "\1a\xc0\x0c\0\1\0\1", &q), -EINVAL);
	memcpy(many, HEAD, DNS_HEADER + 1);
	memset(many + DNS_HEADER, 'x', 400);
	many[DNS_HEADER] = 64;
	assert_int_equal(parse(many, sizeof(many), &q), -EINVAL);
	for (size_t i = DNS_HEADER; i < sizeof(many); i += 4)
		many[i] = 3;
	assert_int_equal(parse(many, sizeof(many), &q), -EINVAL);
}

static void answers(void **state)
{
	static const char refusal[] = "\x12\x34\x81\x83\0\1\0\0\0\0\0\0" QUESTION;
	static const char good[] = "\x12\x34\x81\x80\0\1\0\1\0\0\0\0" QUESTION
				   "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4";
	uint8_t out[DNS_MESSAGE_MAX];
	struct dns_query q;
	uint32_t address;

	(void)state;
	memcpy(&address, "\1\2\3\4", 4);
	assert_int_equal(PARSE(HEAD QUESTION, &q), 0);
	assert_int_equal(dns_answer(&q, DNS_NXDOMAIN, 0, 0, out), sizeof(refusal) - 1);
	assert_memory_equal(out, refusal, sizeof(refusal) - 1);
	assert_int_equal(dns_answer(&q, DNS_NOERROR, address, 60, out), sizeof(good) - 1);
	assert_memory_equal(out, good, sizeof(good) - 1);
	assert_int_equal(PARSE(HEAD, &q), -EINVAL);
	assert_int_equal(dns_answer(&q, DNS_FORMERR, 0, 0, out), DNS_HEADER);
	assert_memory_equal(out, "\x12\x34\x81\x81\0\0\0\0\0\0\0\0", DNS_HEADER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_query),
		cmocka_unit_test(odd_names),
		cmocka_unit_test(bad_queries),
		cmocka_unit_test(answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
