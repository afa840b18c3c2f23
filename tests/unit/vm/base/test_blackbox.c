/* SPDX-License-Identifier: Apache-2.0 */
/* What has killed two processes, one after the other, is known to the third. */
/* modules: vm/base/blackbox.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vm/base/blackbox.h"

static void nowhere(void **state)
{
	(void)state;
	blackbox_use(NULL);
	blackbox_at(BLACKBOX_REQUEST, 1);
	assert_false(blackbox_is_poison(BLACKBOX_REQUEST, 1));
	assert_false(blackbox_is_poison(BLACKBOX_NOTHING, 0));
	blackbox_done();
}

static void twice(void **state)
{
	struct blackbox b = {0};

	(void)state;
	blackbox_use(&b);
	blackbox_at(BLACKBOX_REQUEST, 7);
	assert_false(blackbox_revive(&b, true));
	assert_false(blackbox_is_poison(BLACKBOX_REQUEST, 7));
	blackbox_at(BLACKBOX_REQUEST, 7);
	assert_true(blackbox_revive(&b, true));
	assert_true(blackbox_is_poison(BLACKBOX_REQUEST, 7));
	assert_false(blackbox_is_poison(BLACKBOX_REQUEST, 8));
	assert_false(blackbox_is_poison(BLACKBOX_SANDBOX, 7));
	/* That stays, whatever the next one dies of. */
	assert_false(blackbox_revive(&b, true));
	assert_true(blackbox_is_poison(BLACKBOX_REQUEST, 7));
	assert_false(blackbox_is_poison(BLACKBOX_NOTHING, 0));
}

/* Something else, nothing, or somebody else between the two. */
static void others(void **state)
{
	struct blackbox b = {0};

	(void)state;
	blackbox_use(&b);
	blackbox_at(BLACKBOX_REQUEST, 7);
	assert_false(blackbox_revive(&b, true));
	blackbox_at(BLACKBOX_SANDBOX, 7);
	assert_false(blackbox_revive(&b, true));
	blackbox_at(BLACKBOX_REQUEST, 7);
	assert_false(blackbox_revive(&b, true));
	blackbox_at(BLACKBOX_REQUEST, 7);
	blackbox_done(); /* it was not that */
	assert_false(blackbox_revive(&b, true));
	blackbox_at(BLACKBOX_REQUEST, 7);
	assert_false(blackbox_revive(&b, true));
	blackbox_at(BLACKBOX_REQUEST, 7);
	assert_false(blackbox_revive(&b, false)); /* somebody has killed it */
	blackbox_at(BLACKBOX_REQUEST, 7);
	assert_false(blackbox_revive(&b, true));
	/* What is within another is not what it is about. */
	blackbox_at(BLACKBOX_REQUEST, 9);
	blackbox_at(BLACKBOX_SANDBOX, 3);
	assert_false(blackbox_revive(&b, true));
	blackbox_at(BLACKBOX_REQUEST, 9);
	blackbox_at(BLACKBOX_SANDBOX, 4);
	assert_true(blackbox_revive(&b, true));
	assert_true(blackbox_is_poison(BLACKBOX_REQUEST, 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nowhere), cmocka_unit_test(twice),
					   cmocka_unit_test(others)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
