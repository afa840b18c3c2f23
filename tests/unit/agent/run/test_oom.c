/* SPDX-License-Identifier: Apache-2.0 */
/* Was a program killed for lack of memory? */
/* modules: agent/run/oom.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/core/guest_env.h"
#include "agent/core/proc.h"
#include "agent/run/oom.h"

#define KILLED (PROTO_STATUS_SIGNAL + 9)

static uint64_t kills;
static unsigned asked;

uint64_t proc_oom_kills(void)
{
	asked++;
	return kills;
}

static void in_a_guest(void **state)
{
	static const struct guest_env env = {.guest = true};
	struct oom o = {.env = &env};
	uint64_t before;

	(void)state;
	kills = 3;
	oom_note(&o);
	before = o.kills;
	assert_int_equal(oom_how(&o, before, KILLED), PROTO_HOW_DONE);
	kills = 4;
	assert_int_equal(oom_how(&o, before, 0), PROTO_HOW_DONE);
	assert_int_equal(oom_how(&o, before, PROTO_STATUS_SIGNAL + 15), PROTO_HOW_DONE);
	assert_int_equal(oom_how(&o, before, KILLED), PROTO_HOW_OOM);
	/* Two may have ended of it; who began later has not. */
	assert_int_equal(oom_how(&o, before, KILLED), PROTO_HOW_OOM);
	assert_int_equal(oom_how(&o, o.kills, KILLED), PROTO_HOW_DONE);
}

/* To ask takes its time. */
static void just_asked(void **state)
{
	static const struct guest_env env = {.guest = true};
	struct oom o = {.env = &env};

	(void)state;
	asked = 0;
	oom_renew(&o);
	oom_renew(&o);
	assert_int_equal(asked, 1);
	o.at -= 2000000;
	oom_renew(&o);
	assert_int_equal(asked, 2);
}

/* There the kernel counts for everybody. */
static void elsewhere(void **state)
{
	static const struct guest_env env = {.jail = true};
	struct oom o = {.env = &env};

	(void)state;
	kills = asked = 0;
	oom_note(&o);
	kills = 1;
	assert_int_equal(oom_how(&o, o.kills, KILLED), PROTO_HOW_DONE);
	assert_int_equal(asked, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_a_guest),
		cmocka_unit_test(just_asked),
		cmocka_unit_test(elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
