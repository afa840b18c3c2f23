/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of templates: made, found again, given up, and made again when they are of no use. */
/* modules: tests/unit/fixture/template_fixture.c */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/fixture/template_fixture.h"

#define ODD 6

/* ---- making one ---- */

/* Nothing is waited for: whoever asks meanwhile boots. */
static void nobody_waits(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_begin_building(&spec);
	fx_open(&fx.user[1], &spec, "cold");
	fx_pass(100);
	assert_int_equal(fx_recorded(), 1);
}

static void build_fails(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	machines.dies[MACHINE_RECORD] = true;
	fx_open(&fx.user[0], &spec, "cold");
	t = fx_template();
	fx_pass(1000);
	fx_assert_state(t, TEMPLATE_NONE);
	assert_int_equal(fx_recorded(), 1);
	assert_non_null(strstr(t->problem, "it was to die"));
	fx_pass(MINUTE);
	fx_assert_state(t, TEMPLATE_BROKEN);
	assert_int_equal(fx_recorded(), 3);
	fx_pass(9 * MINUTE);
	fx_open(&fx.user[1], &spec, "cold");
	assert_int_equal(fx_recorded(), 3);
	machines.dies[MACHINE_RECORD] = false;
	fx_pass(2 * MINUTE);
	fx_assert_state(t, TEMPLATE_READY);
	assert_string_equal(t->problem, "");
	assert_int_equal(t->nidle[IDLE_READY], 2);
}

static void save_fails(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	machines.save_error = "no";
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(1000);
	fx_assert_state(fx_template(), TEMPLATE_NONE);
	assert_non_null(strstr(fx_template()->problem, "QEMU can't copy a machine: no"));
	machines.save_error = NULL;
	fx_pass(10000);
	fx_assert_state(fx_template(), TEMPLATE_READY);
}

/* ---- clones that don't work ---- */

/* It is made again, and if that is no better, it is left for a while. */
static void clones_fail(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	machines.dies[MACHINE_CLONE] = true;
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(2 * MINUTE);
	t = fx_template();
	fx_assert_state(t, TEMPLATE_BROKEN);
	assert_int_equal(fx_recorded(), 3);
	assert_int_equal(machines.started[MACHINE_CLONE], 9);
	assert_non_null(strstr(t->problem, "it was to die"));
	machines.dies[MACHINE_CLONE] = false;
	fx_pass(7 * MINUTE);
	fx_open(&fx.user[1], &spec, "cold");
	fx_pass(4 * MINUTE);
	fx_assert_state(t, TEMPLATE_READY);
	fx_open(&fx.user[2], &spec, "warm");
}

/* The user's own clone does not work: the same sandbox boots, and is looked after as any other. */
static void retried(bool at_once)
{
	struct sandbox_spec spec = fx_spec();

	spec.pool.target = 0;
	fx_open_first(&spec);
	if (at_once)
		machines.start_error[MACHINE_CLONE] = -EIO;
	else
		machines.dies[MACHINE_CLONE] = true;
	fx_open(&fx.user[1], &spec, "cold");
	assert_int_equal(machines.started[MACHINE_CLONE], at_once ? 0 : 1);
	fx_pass(2 * MINUTE);
	assert_int_equal(fx.user[1].nclosed, 0);
	machines_of(fx.user[1].s->guest)->mute = true;
	fx_pass(MINUTE);
	assert_int_equal(fx.user[1].nclosed, 1);
	assert_string_equal(problem_code_str(fx.user[1].problem.code), "agent-silent");
	fx_assert_state(fx_template(), TEMPLATE_READY);
}

static void clone_does_not_start(void **state)
{
	(void)state;
	retried(true);
}

static void clone_dies(void **state)
{
	(void)state;
	retried(false);
}

/* A clone has less time than a machine that boots; what is said of it names that time. */
static void clone_is_silent(void **state)
{
	struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	spec.pool.target = 0;
	t = fx_open_first(&spec);
	machines.sleeps[MACHINE_CLONE] = true;
	fx_ask(&fx.user[1], &spec);
	fx_settle();
	machines_of(fx.user[1].s->guest)->mute = true;
	fx_pass(16000);
	assert_non_null(strstr(t->problem, "did not answer within 15 s"));
	assert_int_equal(fx.user[1].nready, 1);
	assert_string_equal(fx_start_of(&fx.user[1]), "cold");
}

/* What a clone is not to blame for ends the sandbox, on its way up and between clone and machine. */
static void given_up(bool while_retrying)
{
	struct sandbox_spec spec = fx_spec();
	struct problem p = {.code = PROBLEM_PORT_TAKEN};
	struct template *t;

	spec.pool.target = 0;
	t = fx_open_first(&spec);
	machines.sleeps[MACHINE_CLONE] = true;
	fx_ask(&fx.user[1], &spec);
	fx_settle();
	assert_int_equal(machines.started[MACHINE_CLONE], 1);
	assert_int_equal(fx.user[1].nready, 0);
	if (while_retrying)
		guest_fail(fx.user[1].s->guest, &(struct problem){.code = PROBLEM_AGENT_LOST});
	sandbox_fail(fx.user[1].s, &p);
	fx_settle();
	assert_int_equal(fx.user[1].nclosed, 1);
	assert_string_equal(problem_code_str(fx.user[1].problem.code), "port-taken");
	assert_int_equal(fx.user[1].nready, 0);
	assert_int_equal(t->clone_failures, while_retrying);
}

static void clone_is_given_up(void **state)
{
	(void)state;
	given_up(false);
}

static void retry_is_given_up(void **state)
{
	(void)state;
	given_up(true);
}

/* ---- another key ---- */

static void key_changes_while_ready(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	machines.words = "another machine";
	fx_open(&fx.user[1], &spec, "cold");
	assert_int_equal(t->nidle[IDLE_READY], 0);
	fx_pass(2000);
	fx_assert_state(t, TEMPLATE_READY);
	assert_int_equal(fx_recorded(), 2);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	fx_open(&fx.user[2], &spec, "warm");
}

static void key_changes_while_building(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	t = fx_begin_saving(&spec);
	machines.words = "another machine";
	machines.save_sleeps = false;
	template_refresh_all(&fx.vm->pool);
	fx_settle();
	assert_null(t->builder);
	assert_int_equal(fx_recorded(), 1);
	fx_pass(2000);
	fx_assert_state(t, TEMPLATE_READY);
	assert_int_equal(fx_recorded(), 2);
	fx_open(&fx.user[1], &spec, "warm");
}

static void found_again(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_begin_loading(&spec);
	fx_ask(&fx.user[1], &spec);
	fx_ask(&fx.user[2], &spec);
	fx_settle();
	fx_close(&fx.user[2]); /* does not wait any more */
	machines_release_jobs();
	fx_settle();
	fx_assert_state(fx_template(), TEMPLATE_READY);
	assert_string_equal(fx_start_of(&fx.user[0]), "snapshot");
	assert_string_equal(fx_start_of(&fx.user[1]), "snapshot");
	assert_int_equal(fx.user[1].nready, 1);
	fx_pass(MINUTE);
	assert_int_equal(fx_recorded(), 0);
}

static void key_changes_while_loading(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_begin_loading(&spec);
	machines.words = "another machine";
	template_refresh_all(&fx.vm->pool);
	machines_release_jobs();
	fx_settle();
	assert_int_equal(fx.user[0].nready, 1);
	assert_string_equal(fx_start_of(&fx.user[0]), "cold");
	assert_int_equal(template_memory(&fx.vm->pool), 0);
	fx_open(&fx.user[1], &spec, "cold");
	fx_pass(2000);
	fx_assert_state(fx_template(), TEMPLATE_READY);
	assert_int_equal(fx_recorded(), 1);
}

/* While files are read there is no key, and nothing is made without. */
static void key_unknown(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	machines.describe_error = -EAGAIN;
	fx_open(&fx.user[1], &spec, "cold");
	fx_pass(MINUTE);
	assert_string_equal(t->key, "");
	assert_int_equal(t->nidle[IDLE_READY], 0);
	assert_int_equal(fx_recorded(), 1);
	machines.describe_error = 0;
	template_refresh_all(&fx.vm->pool);
	fx_pass(1000);
	fx_assert_state(t, TEMPLATE_READY); /* it was the same key after all */
	assert_int_equal(fx_recorded(), 1);
}

/* Neither when the time comes to try once more what was broken. */
static void key_unknown_while_broken(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	machines.dies[MACHINE_RECORD] = true;
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(MINUTE);
	t = fx_template();
	fx_assert_state(t, TEMPLATE_BROKEN);
	machines.describe_error = -EAGAIN;
	template_refresh_all(&fx.vm->pool);
	fx_pass(9 * MINUTE);
	fx_open(&fx.user[1], &spec, "cold");
	fx_pass(2 * MINUTE);
	assert_int_equal(fx_recorded(), 3);
	machines.describe_error = 0;
	machines.dies[MACHINE_RECORD] = false;
	machines.words = "another machine";
	template_refresh_all(&fx.vm->pool);
	fx_pass(2000);
	fx_assert_state(t, TEMPLATE_READY); /* another machine need not wait */
}

/* ---- what is on the disk ---- */

static void damage(const char *file)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/snapshots/%s/%s", fx.cache, fx_template()->key, file);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	close(fd);
}

static void damaged(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_open_first(&spec);
	damage("state");
	fx_restart(32);
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(2000);
	fx_assert_state(fx_template(), TEMPLATE_READY);
	assert_int_equal(fx_recorded(), 1);
	fx_restart(32);
	fx_open(&fx.user[0], &spec, "snapshot");
}

static void other_processor(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_open_first(&spec);
	fx_restart(32);
	machines.khz += machines.khz / 1000;
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(2000);
	fx_assert_state(fx_template(), TEMPLATE_READY);
	assert_int_equal(fx_recorded(), 1);
}

/* Without a place on the disk it still serves this mount. */
static void not_kept(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/snapshots", fx.cache);
	close(open(path, O_WRONLY | O_CREAT, 0600)); /* a file, where a directory is to be */
	fx_open_first(&spec);
	fx_open(&fx.user[1], &spec, "warm");
}

/* ---- memory ---- */

static void gives_memory_back(void **state)
{
	struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	spec.pool.target = 0;
	t = fx_open_first(&spec);
	assert_int_equal(template_memory(&fx.vm->pool), t->snapshot.bytes);
	assert_true(t->snapshot.bytes > 0);
	assert_false(template_yield(&fx.vm->pool)); /* somebody has it */
	fx_close(&fx.user[0]);
	assert_true(template_yield(&fx.vm->pool));
	assert_int_equal(template_memory(&fx.vm->pool), 0);
	assert_false(template_yield(&fx.vm->pool));
	fx_open(&fx.user[1], &spec, "snapshot");
}

/* ---- odd kinds ---- */

static struct sandbox_spec odd_kind(unsigned n)
{
	struct sandbox_spec spec = fx_spec();

	spec.memory_mb += n;
	spec.ad_hoc = true;
	spec.pool.target = 0;
	return spec;
}

static void odd_ones(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= ODD; i++) {
		const struct sandbox_spec spec = odd_kind(i);

		fx_open(&fx.user[0], &spec, "cold");
		fx_pass(MINUTE);
		assert_int_equal(fx_recorded(), i - 1); /* once is not enough */
		fx_close(&fx.user[0]);
		fx_open(&fx.user[0], &spec, "cold");
		fx_pass(MINUTE);
		assert_int_equal(fx_recorded(), i);
		assert_int_equal(fx_with_snapshot(), MIN(i, 4u));
		fx_close(&fx.user[0]);
	}
	/* The first has to be read again, and another one goes for it. */
	for (unsigned i = 1; i <= 2; i++) {
		const struct sandbox_spec spec = odd_kind(i);

		fx_open(&fx.user[0], &spec, "snapshot");
		fx_pass(MINUTE);
		assert_int_equal(fx_with_snapshot(), 4);
		fx_close(&fx.user[0]);
	}
	assert_int_equal(fx_recorded(), ODD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, fx_setup, fx_teardown)
		T(nobody_waits),
		T(build_fails),
		T(save_fails),
		T(clones_fail),
		T(clone_does_not_start),
		T(clone_dies),
		T(clone_is_silent),
		T(clone_is_given_up),
		T(retry_is_given_up),
		T(key_changes_while_ready),
		T(key_changes_while_building),
		T(found_again),
		T(key_changes_while_loading),
		T(key_unknown),
		T(key_unknown_while_broken),
		T(damaged),
		T(other_processor),
		T(not_kept),
		T(gives_memory_back),
		T(odd_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
