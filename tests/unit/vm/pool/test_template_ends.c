/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a mount in each state of a template's snapshot; fx_teardown() looks at what is left. */
/* modules: tests/unit/fixture/template_fixture.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/fixture/template_fixture.h"

static void ends_while_loading(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_begin_loading(&spec);
	fx_stop();
	assert_int_equal(fx.user[0].nclosed, 1);
}

static void ends_while_booting_to_record(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_begin_building(&spec);
}

static void ends_while_saving(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_begin_saving(&spec);
}

static void ends_while_storing(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_open(&fx.user[0], &spec, "cold");
	machines_hold_jobs();
	fx_pass(2000);
	fx_assert_state(fx_template(), TEMPLATE_READY);
	assert_true(fx_template()->refs > 1 + fx_template()->nidle[IDLE_READY]); /* a job */
	fx_restart(32);
	fx_open(&fx.user[0], &spec, "snapshot"); /* it was put there all the same */
}

static void ends_while_trying_again(void **state)
{
	struct sandbox_spec spec = fx_spec();

	(void)state;
	spec.pool.target = 0;
	fx_open_first(&spec);
	machines.dies[MACHINE_CLONE] = machines.destroy_sleeps = true;
	fx_ask(&fx.user[1], &spec);
	fx_settle();
	/* The clone is being taken down; the machine that boots instead comes after it. */
	assert_string_equal(fx_start_of(&fx.user[1]), "cold");
	assert_true(guest_is_ending(fx.user[1].s->guest));
	sandbox_close(fx.user[1].s);
	machines.destroy_sleeps = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, fx_setup, fx_teardown)
		T(ends_while_loading), T(ends_while_booting_to_record), T(ends_while_saving),
		T(ends_while_storing), T(ends_while_trying_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
