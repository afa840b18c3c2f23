/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of templates: made, found again, given up, and made again when they are of no use. */
/* modules: tests/unit/fixture/template_fixture.c */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	bed_begin_building(&spec);
	bed_open(&bed.user[1], &spec, "cold");
	bed_pass(100);
	assert_int_equal(bed_recorded(), 1);
}

static void build_fails(void **state)
{
	const struct sandbox_spec spec = bed_spec();
	struct template *t;

	(void)state;
	machines.dies[MACHINE_RECORD] = true;
	bed_open(&bed.user[0], &spec, "cold");
	t = bed_template();
	bed_pass(1000);
	bed_assert_state(t, TEMPLATE_NONE);
	assert_int_equal(bed_recorded(), 1);
	assert_non_null(strstr(t->problem, "it was to die"));
	bed_pass(MINUTE);
	bed_assert_state(t, TEMPLATE_BROKEN);
	assert_int_equal(bed_recorded(), 3);
	bed_pass(9 * MINUTE);
	bed_open(&bed.user[1], &spec, "cold");
	assert_int_equal(bed_recorded(), 3);
	machines.dies[MACHINE_RECORD] = false;
	bed_pass(2 * MINUTE);
	bed_assert_state(t, TEMPLATE_READY);
	assert_string_equal(t->problem, "");
	assert_int_equal(t->nready, 2);
}

static void save_fails(void **state)
{
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	machines.save_error = "no";
	bed_open(&bed.user[0], &spec, "cold");
	bed_pass(1000);
	bed_assert_state(bed_template(), TEMPLATE_NONE);
	assert_non_null(strstr(bed_template()->problem, "QEMU can't copy a machine: no"));
	machines.save_error = NULL;
	bed_pass(10000);
	bed_assert_state(bed_template(), TEMPLATE_READY);
}

/* ---- clones that don't work ---- */

/* It is made again, and if that is no better, it is left for a while. */
static void clones_fail(void **state)
{
	const struct sandbox_spec spec = bed_spec();
	struct template *t;

	(void)state;
	machines.dies[MACHINE_CLONE] = true;
	bed_open(&bed.user[0], &spec, "cold");
	bed_pass(2 * MINUTE);
	t = bed_template();
	bed_assert_state(t, TEMPLATE_BROKEN);
	assert_int_equal(bed_recorded(), 3);
	assert_int_equal(machines.started[MACHINE_CLONE], 9);
	assert_non_null(strstr(t->problem, "it was to die"));
	machines.dies[MACHINE_CLONE] = false;
	bed_pass(7 * MINUTE);
	bed_open(&bed.user[1], &spec, "cold");
	bed_pass(4 * MINUTE);
	bed_assert_state(t, TEMPLATE_READY);
	bed_open(&bed.user[2], &spec, "warm");
}

/* The user's own clone does not work: the same sandbox boots, and is looked after as any other. */
static void retried(bool at_once)
{
	struct sandbox_spec spec = bed_spec();

	spec.pool.target = 0;
	bed_open_first(&spec);
	if (at_once)
		machines.start_error[MACHINE_CLONE] = -EIO;
	else
		machines.dies[MACHINE_CLONE] = true;
	bed_open(&bed.user[1], &spec, "cold");
	assert_int_equal(machines.started[MACHINE_CLONE], at_once ? 0 : 1);
	bed_pass(2 * MINUTE);
	assert_int_equal(bed.user[1].nclosed, 0);
	machines_of(bed.user[1].s->guest)->mute = true;
	bed_pass(MINUTE);
	assert_int_equal(bed.user[1].nclosed, 1);
	assert_string_equal(problem_code_str(bed.user[1].problem.code), "agent-silent");
	bed_assert_state(bed_template(), TEMPLATE_READY);
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
	struct sandbox_spec spec = bed_spec();
	struct template *t;

	(void)state;
	spec.pool.target = 0;
	t = bed_open_first(&spec);
	machines.sleeps[MACHINE_CLONE] = true;
	bed_ask(&bed.user[1], &spec);
	bed_settle();
	machines_of(bed.user[1].s->guest)->mute = true;
	bed_pass(16000);
	assert_non_null(strstr(t->problem, "did not answer within 15 s"));
	assert_int_equal(bed.user[1].nready, 1);
	assert_string_equal(bed_start_of(&bed.user[1]), "cold");
}

/* What a clone is not to blame for ends the sandbox, on its way up and between clone and machine. */
static void given_up(bool while_retrying)
{
	struct sandbox_spec spec = bed_spec();
	struct problem p = {.code = PROBLEM_PORT_TAKEN};
	struct template *t;

	spec.pool.target = 0;
	t = bed_open_first(&spec);
	machines.sleeps[MACHINE_CLONE] = true;
	bed_ask(&bed.user[1], &spec);
	bed_settle();
	assert_int_equal(machines.started[MACHINE_CLONE], 1);
	assert_int_equal(bed.user[1].nready, 0);
	if (while_retrying)
		guest_fail(bed.user[1].s->guest, &(struct problem){.code = PROBLEM_AGENT_LOST});
	sandbox_fail(bed.user[1].s, &p);
	bed_settle();
	assert_int_equal(bed.user[1].nclosed, 1);
	assert_string_equal(problem_code_str(bed.user[1].problem.code), "port-taken");
	assert_int_equal(bed.user[1].nready, 0);
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
	const struct sandbox_spec spec = bed_spec();
	struct template *t;

	(void)state;
	t = bed_open_first(&spec);
	machines.words = "another machine";
	bed_open(&bed.user[1], &spec, "cold");
	assert_int_equal(t->nready, 0);
	bed_pass(2000);
	bed_assert_state(t, TEMPLATE_READY);
	assert_int_equal(bed_recorded(), 2);
	assert_int_equal(t->nready, 2);
	bed_open(&bed.user[2], &spec, "warm");
}

static void key_changes_while_building(void **state)
{
	const struct sandbox_spec spec = bed_spec();
	struct template *t;

	(void)state;
	t = bed_begin_saving(&spec);
	machines.words = "another machine";
	machines.save_sleeps = false;
	template_refresh_all(&bed.vm->pool);
	bed_settle();
	assert_null(t->builder);
	assert_int_equal(bed_recorded(), 1);
	bed_pass(2000);
	bed_assert_state(t, TEMPLATE_READY);
	assert_int_equal(bed_recorded(), 2);
	bed_open(&bed.user[1], &spec, "warm");
}

static void found_again(void **state)
{
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	bed_begin_loading(&spec);
	bed_ask(&bed.user[1], &spec);
	bed_ask(&bed.user[2], &spec);
	bed_settle();
	bed_close(&bed.user[2]); /* does not wait any more */
	machines_release_jobs();
	bed_settle();
	bed_assert_state(bed_template(), TEMPLATE_READY);
	assert_string_equal(bed_start_of(&bed.user[0]), "snapshot");
	assert_string_equal(bed_start_of(&bed.user[1]), "snapshot");
	assert_int_equal(bed.user[1].nready, 1);
	bed_pass(MINUTE);
	assert_int_equal(bed_recorded(), 0);
}

static void key_changes_while_loading(void **state)
{
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	bed_begin_loading(&spec);
	machines.words = "another machine";
	template_refresh_all(&bed.vm->pool);
	machines_release_jobs();
	bed_settle();
	assert_int_equal(bed.user[0].nready, 1);
	assert_string_equal(bed_start_of(&bed.user[0]), "cold");
	assert_int_equal(template_memory(&bed.vm->pool), 0);
	bed_open(&bed.user[1], &spec, "cold");
	bed_pass(2000);
	bed_assert_state(bed_template(), TEMPLATE_READY);
	assert_int_equal(bed_recorded(), 1);
}

/* While files are read there is no key, and nothing is made without. */
static void key_unknown(void **state)
{
	const struct sandbox_spec spec = bed_spec();
	struct template *t;

	(void)state;
	t = bed_open_first(&spec);
	machines.describe_error = -EAGAIN;
	bed_open(&bed.user[1], &spec, "cold");
	bed_pass(MINUTE);
	assert_string_equal(t->key, "");
	assert_int_equal(t->nready, 0);
	assert_int_equal(bed_recorded(), 1);
	machines.describe_error = 0;
	template_refresh_all(&bed.vm->pool);
	bed_pass(1000);
	bed_assert_state(t, TEMPLATE_READY); /* it was the same key after all */
	assert_int_equal(bed_recorded(), 1);
}

/* Neither when the time comes to try once more what was broken. */
static void key_unknown_while_broken(void **state)
{
	const struct sandbox_spec spec = bed_spec();
	struct template *t;

	(void)state;
	machines.dies[MACHINE_RECORD] = true;
	bed_open(&bed.user[0], &spec, "cold");
	bed_pass(MINUTE);
	t = bed_template();
	bed_assert_state(t, TEMPLATE_BROKEN);
	machines.describe_error = -EAGAIN;
	template_refresh_all(&bed.vm->pool);
	bed_pass(9 * MINUTE);
	bed_open(&bed.user[1], &spec, "cold");
	bed_pass(2 * MINUTE);
	assert_int_equal(bed_recorded(), 3);
	machines.describe_error = 0;
	machines.dies[MACHINE_RECORD] = false;
	machines.words = "another machine";
	template_refresh_all(&bed.vm->pool);
	bed_pass(2000);
	bed_assert_state(t, TEMPLATE_READY); /* another machine need not wait */
}

/* ---- what is on the disk ---- */

static void damage(const char *file)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/snapshots/%s/%s", bed.cache, bed_template()->key, file);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	close(fd);
}

static void damaged(void **state)
{
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	bed_open_first(&spec);
	damage("state");
	bed_restart(32);
	bed_open(&bed.user[0], &spec, "cold");
	bed_pass(2000);
	bed_assert_state(bed_template(), TEMPLATE_READY);
	assert_int_equal(bed_recorded(), 1);
	bed_restart(32);
	bed_open(&bed.user[0], &spec, "snapshot");
}

static void other_processor(void **state)
{
	const struct sandbox_spec spec = bed_spec();

	(void)state;
	bed_open_first(&spec);
	bed_restart(32);
	machines.khz += machines.khz / 1000;
	bed_open(&bed.user[0], &spec, "cold");
	bed_pass(2000);
	bed_assert_state(bed_template(), TEMPLATE_READY);
	assert_int_equal(bed_recorded(), 1);
}

/* Without a place on the disk it still serves this mount. */
static void not_kept(void **state)
{
	const struct sandbox_spec spec = bed_spec();
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/snapshots", bed.cache);
	close(open(path, O_WRONLY | O_CREAT, 0600)); /* a file, where a directory is to be */
	bed_open_first(&spec);
	bed_open(&bed.user[1], &spec, "warm");
}

/* ---- memory ---- */

static void gives_memory_back(void **state)
{
	struct sandbox_spec spec = bed_spec();
	struct template *t;

	(void)state;
	spec.pool.target = 0;
	t = bed_open_first(&spec);
	assert_int_equal(template_memory(&bed.vm->pool), t->snapshot.bytes);
	assert_true(t->snapshot.bytes > 0);
	assert_false(template_yield(&bed.vm->pool)); /* somebody has it */
	bed_close(&bed.user[0]);
	assert_true(template_yield(&bed.vm->pool));
	assert_int_equal(template_memory(&bed.vm->pool), 0);
	assert_false(template_yield(&bed.vm->pool));
	bed_open(&bed.user[1], &spec, "snapshot");
}

/* ---- odd kinds ---- */

static struct sandbox_spec odd_kind(unsigned n)
{
	struct sandbox_spec spec = bed_spec();

	spec.memory_mb += n;
	spec.ad_hoc = true;
	spec.pool.target = 0;
	return spec;
}

static unsigned with_snapshot(void)
{
	const struct template *t;
	unsigned n = 0;

	TAILQ_FOREACH(t, &bed.vm->pool.templates, link)
		n += t->snapshot.ram >= 0;
	return n;
}

static void odd_ones(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= ODD; i++) {
		const struct sandbox_spec spec = odd_kind(i);

		bed_open(&bed.user[0], &spec, "cold");
		bed_pass(MINUTE);
		assert_int_equal(bed_recorded(), i - 1); /* once is not enough */
		bed_close(&bed.user[0]);
		bed_open(&bed.user[0], &spec, "cold");
		bed_pass(MINUTE);
		assert_int_equal(bed_recorded(), i);
		assert_int_equal(with_snapshot(), MIN(i, 4u));
		bed_close(&bed.user[0]);
	}
	/* The first has to be read again, and another one goes for it. */
	for (unsigned i = 1; i <= 2; i++) {
		const struct sandbox_spec spec = odd_kind(i);

		bed_open(&bed.user[0], &spec, "snapshot");
		bed_pass(MINUTE);
		assert_int_equal(with_snapshot(), 4);
		bed_close(&bed.user[0]);
	}
	assert_int_equal(bed_recorded(), ODD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)
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
