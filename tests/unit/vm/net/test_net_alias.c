/* SPDX-License-Identifier: Apache-2.0 */
/* Synthetic addresses, and reports of what was refused. */
/* modules: vm/net/filter/alias.c vm/net/filter/denied.c vm/base/net_reason.c */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vm/net/filter/alias.h"
#include "vm/net/filter/denied.h"
#include "vm/base/net_reason.h"

static void addresses(void **state)
{
	struct aliases t = {0};
	uint32_t a, b, c;

	(void)state;
	assert_null(alias_find(&t, htonl(ALIAS_BASE), 1));
	assert_int_equal(alias_get(&t, "a.test", 1, &a), 0);
	assert_int_equal(alias_get(&t, "b.test", 1, &b), 0);
	assert_int_equal(alias_get(&t, "a.test", 1, &c), 0);
	assert_int_equal(a, c);
	assert_int_not_equal(a, b);
	assert_string_equal(alias_find(&t, b, 1)->name, "b.test");
	assert_null(alias_find(&t, htonl(ALIAS_BASE + 2), 1));
	assert_null(alias_find(&t, htonl(ALIAS_BASE - 1), 1));
	assert_null(alias_find(&t, 0, 1));
	alias_fini(&t);
}

static void recycling(void **state)
{
	struct aliases t = {0};
	uint32_t first = 0, second = 0, a;
	char name[20];

	(void)state;
	for (int i = 0; i < ALIAS_MAX; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		assert_int_equal(alias_get(&t, name, 1000 + (i > 0), &a), 0);
		if (i == 0)
			first = a;
		if (i == 1)
			second = a;
	}
	assert_int_equal(alias_get(&t, "new.test", 1001, &a), -ENOSPC);
	alias_find(&t, first, 1000)->users = 1;
	assert_int_equal(alias_get(&t, "new.test", 2000, &a), 0);
	assert_int_equal(a, second);
	assert_string_equal(alias_find(&t, a, 2000)->name, "new.test");
	assert_string_equal(alias_find(&t, first, 2000)->name, "n0.test");
	alias_fini(&t);
}

static void reports(void **state)
{
	struct denied d = {0};
	struct net_denied m;
	unsigned made = 0;
	char name[20];

	(void)state;
	assert_int_equal(denied_make(&d, NET_NAME, "a b\n\xff", 53, &m), 1);
	assert_string_equal(m.name, "a?b??");
	assert_int_equal(m.reason, NET_NAME);
	assert_int_equal(m.port, 53);
	assert_true(m.time_ms > 1600000000000);
	assert_int_equal(denied_make(&d, NET_NAME, "a b\n\xff", 53, &m), 0);
	assert_int_equal(denied_make(&d, NET_NAME, "a b\n\xff", 54, &m), 1);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		made += (unsigned)denied_make(&d, NET_NAME, name, 0, &m);
	}
	assert_in_range(made, 150, 600);
	assert_int_equal(d.total, 1003);
	assert_true(d.lost > 0);
	d.rate.filled_ms -= 1000;
	assert_int_equal(denied_make(&d, NET_NAME, "later", 0, &m), 1);
	assert_true(m.lost > 300);
	assert_int_equal(d.lost, 0);
	for (unsigned i = 0; i < NET_NREASONS; i++)
		assert_true(strlen(net_reason_str(i)) > 3);
	assert_string_equal(net_reason_str(NET_NREASONS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
		cmocka_unit_test(recycling),
		cmocka_unit_test(reports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
