/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a mount in each state of a template's snapshot; bed_teardown() looks at what is left. */
/* modules: tests/unit/fixture/template_fixture.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/fixture/template_fixture.h"

static void ends_while_loading(void **state)
{
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	bed_begin_loading(&spec);
	bed_stop();
	assert_int_equal(bed.user[0].nclosed, 1);
}

static void ends_while_booting_to_record(void **state)
{
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	bed_begin_building(&spec);
}

static void ends_while_saving(void **state)
{
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	bed_begin_saving(&spec);
}

static void ends_while_storing(void **state)
{
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	bed_open(&bed.user[0], &spec, "cold");
	machines_hold_jobs();
	bed_pass(2000);
	bed_assert_state(bed_template(), TEMPLATE_READY);
	assert_true(bed_template()->refs > 1 + bed_template()->nready); /* a job */
	bed_restart(32);
	bed_open(&bed.user[0], &spec, "snapshot"); /* it was put there all the same */
}

static void ends_while_trying_again(void **state)
{
	struct sandbox_spec spec = bed_spec();

	(void)state;
	spec.pool.target = 0;
	bed_open_first(&spec);
	machines.dies[MACHINE_CLONE] = machines.destroy_sleeps = true;
	bed_ask(&bed.user[1], &spec);
	bed_settle();
	/* The clone is being taken down; the machine that boots instead comes after it. */
	assert_string_equal(bed_start_of(&bed.user[1]), "cold");
	assert_true(guest_is_ending(bed.user[1].s->guest));
	sandbox_close(bed.user[1].s);
	machines.destroy_sleeps = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)
		T(ends_while_loading), T(ends_while_booting_to_record), T(ends_while_saving),
		T(ends_while_storing), T(ends_while_trying_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
