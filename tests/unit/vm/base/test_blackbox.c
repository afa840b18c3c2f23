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
	blackbox_written();
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

/* What kills when it is written down: behind the first death that nothing is known of. */
static void careful(void **state)
{
	struct blackbox b = {0};

	(void)state;
	blackbox_use(&b);
	assert_false(blackbox_is_careful());
	blackbox_at(BLACKBOX_REQUEST, 7);
	blackbox_done();
	assert_int_equal(b.kind, BLACKBOX_NOTHING);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(blackbox_revive(&b, true), 0);
		assert_true(blackbox_is_careful());
		blackbox_at(BLACKBOX_REQUEST, 5);
		blackbox_done();
		blackbox_written(); /* it was not that */
		assert_int_equal(b.kind, BLACKBOX_NOTHING);
		blackbox_at(BLACKBOX_REQUEST, 6);
		blackbox_done(); /* nothing had to be written */
		blackbox_at(BLACKBOX_REQUEST, 7);
		blackbox_written(); /* in between is not behind */
		blackbox_done();
		assert_int_equal(b.kind, BLACKBOX_REQUEST);
		assert_int_equal(b.id, 7);
	}
	assert_true(blackbox_revive(&b, true));
	assert_true(blackbox_is_poison(BLACKBOX_REQUEST, 7));
}

/* Not for ever, and not where somebody has killed it. */
static void calm(void **state)
{
	struct blackbox b = {0};

	(void)state;
	blackbox_use(&b);
	assert_false(blackbox_revive(&b, false));
	assert_false(blackbox_is_careful());
	assert_false(blackbox_revive(&b, true));
	for (unsigned i = 0; blackbox_is_careful(); i++) {
		assert_in_range(i, 0, 1000);
		blackbox_round();
	}
	blackbox_at(BLACKBOX_REQUEST, 7);
	blackbox_done();
	assert_int_equal(b.kind, BLACKBOX_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nowhere), cmocka_unit_test(twice),
					   cmocka_unit_test(others), cmocka_unit_test(careful),
					   cmocka_unit_test(calm)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
