/* SPDX-License-Identifier: Apache-2.0 */
/* ClientHellos, whole and in pieces, honest and not. */
/* modules: vm/net/filter/hello.c vm/base/allow.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "vm/net/filter/hello.h"
#include "vm/base/net_reason.h"

static uint8_t wire[HELLO_MAX + 4096];

static size_t put(size_t at, const void *bytes, size_t len)
{
	if (len)
		memcpy(wire + at, bytes, len);
	return at + len;
}

static void put_length(size_t at, unsigned width, size_t len)
{
	for (unsigned i = 0; i < width; i++)
		wire[at + i] = (uint8_t)(len >> 8 * (width - 1 - i));
}

static size_t put_server_name(size_t at, const char *name)
{
	const size_t n = strlen(name), begin = at;

	at = put(at, "\0\0\0\0\0\0\0\0\0", 9);
	put_length(begin + 2, 2, n + 5);
	put_length(begin + 4, 2, n + 3);
	put_length(begin + 7, 2, n);
	return put(at, name, n);
}

/* A hello at the start of `wire`; its record's length. @more: extensions as they are. */
static size_t make(const char *name, const void *more, size_t len)
{
	size_t at = 9, exts;

	at = put(at, "\3\3", 2);
	memset(wire + at, 7, 32);
	at += 32;
	at = put(at, "\0\0\2\x13\1\1\0", 7);
	exts = at;
	at += 2;
	at = put(at, "\0\x0a\0\4\0\2\0\x1d", 8);
	if (name)
		at = put_server_name(at, name);
	at = put(at, more, len);
	put_length(exts, 2, at - exts - 2);
	put(0, "\x16\3\1\0\0\1\0\0\0", 9);
	put_length(3, 2, at - 5);
	put_length(6, 3, at - 9);
	return at;
}

static int check(size_t len, unsigned *reason)
{
	struct hello h = {0};

	*reason = NET_OK;
	return hello_check(&h, wire, len, "web.test", reason);
}

static void expect(size_t len, unsigned expected)
{
	unsigned reason;
	const int r = check(len, &reason);

	assert_int_equal(r, expected == NET_OK ? (int)len : -EACCES);
	assert_int_equal(reason, expected);
}

static void names(void **state)
{
	unsigned reason;
	size_t len;

	(void)state;
	len = make("web.test", NULL, 0);
	expect(len, NET_OK);
	for (size_t n = 1; n < len; n++)
		assert_int_equal(check(n, &reason), 0);
	expect(make("WEB.Test", NULL, 0), NET_OK);
	expect(make("web.test.", NULL, 0), NET_OK);
	expect(make("eve.test", NULL, 0), NET_SERVER_NAME);
	expect(make("web.test.eve", NULL, 0), NET_SERVER_NAME);
	expect(make("", NULL, 0), NET_SERVER_NAME);
	expect(make(NULL, NULL, 0), NET_NO_SERVER_NAME);
}

static void extensions(void **state)
{
	(void)state;
	expect(make("web.test", "\xfe\x0d\0\2xx", 6), NET_ENCRYPTED_HELLO);
	expect(make("web.test", "\xff\xce\0\0", 4), NET_ENCRYPTED_HELLO);
	expect(make("web.test", "\0\0\0\0", 4), NET_NOT_TLS);	 /* two names */
	expect(make(NULL, "\0\0\0\0", 4), NET_NOT_TLS);		 /* an empty list */
	expect(make("web.test", "\0\x0a\0\0", 4), NET_NOT_TLS);	 /* two of another kind */
	expect(make("web.test", "\0\x0b\0\7x", 5), NET_NOT_TLS); /* too short */
	expect(make("web.test", "\0", 1), NET_NOT_TLS);
	/* two names in one list; a name of another type; bytes behind the list */
	expect(make(NULL, "\0\0\0\x1a\0\x18\0\0\x08web.test\0\0\x0aother.test", 30), NET_NOT_TLS);
	expect(make(NULL, "\0\0\0\x0d\0\x0b\1\0\x08web.test", 17), NET_NOT_TLS);
	expect(make(NULL, "\0\0\0\x0e\0\x0b\0\0\x08web.testx", 18), NET_NOT_TLS);
}

static void records(void **state)
{
	uint8_t body[600];
	unsigned reason;
	const size_t len = make("web.test", NULL, 0) - 5;
	size_t at = 0;

	(void)state;
	memcpy(body, wire + 5, len);
	for (size_t i = 0; i < len; i++) { /* one byte in each */
		at = put(at, "\x16\3\1\0\1", 5);
		at = put(at, body + i, 1);
	}
	expect(at, NET_OK);
	assert_int_equal(check(at - 1, &reason), 0);
	at = put(at - 6, "\x17\3\3\0\1x", 6); /* other records between */
	expect(at, NET_NOT_TLS);
	at = make("web.test", NULL, 0);
	wire[at++] = 1; /* another message behind it, in its record */
	wire[4]++;
	expect(at, NET_NOT_TLS);
}

static void rubbish(void **state)
{
	unsigned reason;
	size_t len;

	(void)state;
	for (unsigned c = 0; c < 256; c++) {
		wire[0] = (uint8_t)c;
		assert_int_equal(check(1, &reason), c == 22 ? 0 : -EACCES);
	}
	put(0, "\x16\2\0\0\5", 5);
	expect(5, NET_NOT_TLS);
	put(0, "\x16\3\1\0\0", 5);
	expect(5, NET_NOT_TLS);
	put(0, "\x16\3\1\x40\1", 5);
	expect(5, NET_NOT_TLS);
	put(0, "\x16\3\1\0\5\2", 6); /* another message */
	expect(6, NET_NOT_TLS);
	put(0, "\x16\3\1\0\4\1\x40\0\0", 9); /* one that is too long */
	expect(9, NET_NOT_TLS);
	/* every length but the right one */
	len = make("web.test", NULL, 0);
	for (size_t i = 9; i < len; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			wire[i] ^= (uint8_t)(1 << bit);
			check(len, &reason);
			wire[i] ^= (uint8_t)(1 << bit);
		}
	expect(len, NET_OK);
}

static int next(struct hello *h, const char *bytes, size_t len)
{
	unsigned reason = NET_OK;

	return hello_check(h, (const uint8_t *)bytes, len, "web.test", &reason);
}

#define NEXT(h, bytes) next(h, bytes, sizeof(bytes) - 1)

static void later_records(void **state)
{
	const struct hello greeted = {.greeted = true};
	struct hello h = greeted;
	unsigned reason;
	size_t len;

	(void)state;
	assert_int_equal(NEXT(&h, "\x17\3\3\0\1x and more"), 15); /* data: done */
	assert_true(h.done);
	assert_int_equal(NEXT(&h, "anything"), 8);
	h = greeted; /* TLS 1.2: a key exchange in the clear */
	assert_int_equal(NEXT(&h, "\x16\3\3\0\x25"), 0);
	assert_int_equal(NEXT(&h, "\x16\3\3\0\x25\x10\0\0\x21\x20xxxxxxxxxxxxxxxx"), 26);
	assert_true(h.done);
	h = greeted; /* resumed: a change, and a finish that is encrypted and looks like nothing */
	assert_int_equal(NEXT(&h, "\x14\3\3\0\1"), 0);
	assert_int_equal(NEXT(&h, "\x14\3\3\0\1\1"), 6);
	assert_int_equal(NEXT(&h, "\x16\3\3\0\x28\1\xab\xcd\xef"
				  "fghijklmnopqrstuvwxyz"),
			 30);
	assert_true(h.done);
	h = greeted; /* a second hello */
	len = make("eve.test", NULL, 0);
	assert_int_equal(hello_check(&h, wire, len, "web.test", &reason), -EACCES);
	assert_int_equal(reason, NET_SERVER_NAME);
	h.changed = true;
	assert_int_equal(hello_check(&h, wire, len, "web.test", &reason), -EACCES);
	len = make("web.test", NULL, 0);
	assert_int_equal(hello_check(&h, wire, len, "web.test", &reason), len);
	assert_false(h.done);
	h = greeted; /* one that is longer than we read, as some servers do */
	h.changed = true;
	assert_int_equal(NEXT(&h, "\x16\3\3\x40\0\1\0\x41\0\3\3xxxxxxxxxxxxxxxx"), 0);
	assert_false(h.done); /* and will be refused once it is all there */
	h = greeted;	      /* after early data there may be another */
	h.early = true;
	assert_int_equal(NEXT(&h, "\x17\3\3\0\4xx"), 7);
	assert_int_equal(NEXT(&h, "xx\x16"), 2);
	assert_false(h.done);
	len = make("eve.test", NULL, 0);
	assert_int_equal(hello_check(&h, wire, len, "web.test", &reason), -EACCES);
	h = greeted;
	assert_int_equal(NEXT(&h, "GET / HTTP/1.1"), -EACCES);
	assert_int_equal(NEXT(&h, "\x16\3\3\0\0"), -EACCES);
}

static void early_data_is_seen(void **state)
{
	const size_t len = make("web.test", "\0\x2a\0\0", 4);
	struct hello h = {0};
	unsigned reason;

	(void)state;
	assert_int_equal(hello_check(&h, wire, len, "web.test", &reason), len);
	assert_true(h.early);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),	 cmocka_unit_test(extensions),
		cmocka_unit_test(records),	 cmocka_unit_test(rubbish),
		cmocka_unit_test(later_records), cmocka_unit_test(early_data_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
