/* SPDX-License-Identifier: Apache-2.0 */
/* What machines run on: facts are believed, accidents are asked about again. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/order/order.h"
#include "vm/backend/probe.h"
#include "vm/spawn/child.h"
#include "vm/spawn/spawner.h"
#include "vm/spawn/server.h"
#include "vm/base/util.h"

static char dir[] = "/tmp/xsbx-probe.XXXXXX";
static char program[64], calls[64], trial[64];
static unsigned ndone;
static bool closed;

static void on_done(struct probe *p)
{
	assert_true(p->done);
	ndone++;
}

static void on_closed(struct probe *p)
{
	(void)p;
	closed = true;
}

/* In the spawner: the test's program is QEMU. */
static int job(const void *data, const void *request, size_t len, size_t nfds,
	       struct spawn_job *ret_job)
{
	const struct order *order = request;

	(void)data;
	if (len != sizeof(*order) || nfds != 1 ||
	    (order->program != ORDER_QEMU_VERSION && order->program != ORDER_KVM_TRIAL))
		return -EPERM;
	ret_job->argv[0] = order->program == ORDER_KVM_TRIAL ? trial : program;
	ret_job->argv[1] = "--version";
	ret_job->envp[0] = "PATH=/usr/bin:/bin";
	ret_job->target[0] = (struct spawn_target){0, STDOUT_FILENO};
	ret_job->ntargets = 1;
	return 0;
}

static int setup(void **state)
{
	static const struct spawner_rules rules = {.job = job};

	(void)state;
	spawner_fixture_start(&rules);
	return 0;
}

/* A QEMU of which each call adds a line to `calls`. */
static void write_qemu(const char *script)
{
	FILE *f = fopen(program, "we");

	assert_non_null(f);
	fprintf(f, "#!/bin/sh\necho >>%s\n%s\n", calls, script);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(program, 0755), 0);
}

#define ANSWERS "echo 'QEMU emulator version 9.9.9 (test)'"

static unsigned ncalls(void)
{
	struct stat st;

	return stat(calls, &st) < 0 ? 0 : (unsigned)st.st_size;
}

static void begin_with(struct probe *p, enum accel_wish wish)
{
	*p = (struct probe){0};
	ndone = 0;
	closed = false;
	assert_int_equal(probe_start(p, &loop, sp, wish, on_done), 0);
	assert_false(p->done);
}

static void begin(struct probe *p)
{
	begin_with(p, ACCEL_TCG);
}

static void await(const struct probe *p)
{
	while (!p->done)
		uv_run(&loop, UV_RUN_ONCE);
}

static void end(struct probe *p)
{
	probe_close(p, on_closed);
	while (!closed)
		uv_run(&loop, UV_RUN_ONCE);
	unlink(program);
	unlink(calls);
	unlink(trial);
}

static void answers(void **state)
{
	struct probe p;

	(void)state;
	write_qemu(ANSWERS);
	begin(&p);
	await(&p);
	assert_string_equal(p.qemu, "9.9.9");
	assert_false(p.fatal);
	assert_false(p.unclear);
	assert_int_equal(ndone, 1);
	end(&p);
}

/* Machines are held back until it is asked again, and meanwhile it is said why. */
static void killed_once(void **state)
{
	struct probe p;

	(void)state;
	write_qemu("[ $(wc -l <\"$0.calls\") -gt 1 ] || kill -9 $$\n" ANSWERS);
	begin(&p);
	while (!p.tries)
		uv_run(&loop, UV_RUN_ONCE);
	assert_false(p.done);
	assert_non_null(strstr(p.problem.cause, "signal 9"));
	assert_int_equal(ndone, 0);
	await(&p);
	assert_false(p.fatal);
	assert_string_equal(p.qemu, "9.9.9");
	assert_int_equal(p.tries, 0);
	assert_int_equal(ndone, 1);
	assert_int_equal(ncalls(), 2);
	end(&p);
}

/* It dies each time: that is said, and it is asked again later by itself. */
static void killed_always(void **state)
{
	struct probe p;

	(void)state;
	write_qemu("kill -11 $$");
	begin(&p);
	await(&p);
	assert_true(p.fatal);
	assert_string_equal(problem_code_str(p.problem.code), "no-qemu");
	assert_non_null(strstr(p.problem.cause, "signal 11"));
	assert_true(ncalls() > 2);
	assert_int_equal(ndone, 1);
	write_qemu(ANSWERS);
	assert_true(uv_is_active((uv_handle_t *)&p.timer));
	uv_timer_start(&p.timer, p.timer.timer_cb, 1, 0);
	while (p.fatal)
		uv_run(&loop, UV_RUN_ONCE);
	assert_true(p.done);
	assert_int_equal(ndone, 2);
	end(&p);
}

/* A fact is believed at once; but when somebody needs a machine it is looked whether it still is one. */
static void installed_later(void **state)
{
	struct probe p;

	(void)state;
	begin(&p);
	await(&p);
	assert_true(p.fatal);
	assert_false(uv_is_active((uv_handle_t *)&p.timer));
	assert_non_null(strstr(p.problem.fix, "Install"));
	write_qemu(ANSWERS);
	probe_want(&p);
	assert_true(p.done); /* it was asked a moment ago */
	uv_update_time(&loop);
	p.asked_at = uv_now(&loop) - 60000;
	probe_want(&p);
	assert_false(p.done);
	await(&p);
	assert_false(p.fatal);
	assert_int_equal(ndone, 2);
	probe_want(&p); /* there is nothing to mend */
	assert_true(p.done);
	end(&p);
}

/* Closed in the middle of a question, and between two. */
static void closed_early(void **state)
{
	struct probe p;

	(void)state;
	write_qemu("exec sleep 1000");
	begin(&p);
	end(&p);
	assert_int_equal(ndone, 0);
	write_qemu("kill -9 $$");
	begin(&p);
	while (!p.tries)
		uv_run(&loop, UV_RUN_ONCE);
	end(&p);
	assert_int_equal(ndone, 0);
}

static void write_trial(const char *script)
{
	FILE *f = fopen(trial, "we");

	assert_non_null(f);
	fprintf(f, "#!/bin/sh\n%s\n", script);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(trial, 0755), 0);
}

/* A struct kvm_verdict with nothing but its state. */
#define SAYS(state) "printf '\\00" state "\\000\\000\\000'; head -c 252 /dev/zero"
static_assert(KVM_UNUSABLE == 0 && KVM_USABLE == 2, "what SAYS() is called with");

/* While a trial of KVM comes to no end machines are emulated, or run with KVM if that is the wish; then it is
 * tried again, and what it says counts. */
static void kvm_undecided(void **state)
{
	struct probe p;

	(void)state;
	write_qemu(ANSWERS);
	write_trial("kill -9 $$");
	begin_with(&p, ACCEL_AUTO);
	await(&p);
	assert_string_equal(p.accel, "tcg");
	assert_false(p.fatal);
	assert_true(uv_is_active((uv_handle_t *)&p.timer));
	write_trial(SAYS("2"));
	uv_timer_start(&p.timer, p.timer.timer_cb, 1, 0);
	while (ndone < 2)
		uv_run(&loop, UV_RUN_ONCE);
	assert_string_equal(p.accel, "kvm");
	assert_false(p.unclear);
	end(&p);
}

static void kvm_wanted(void **state)
{
	struct probe p;

	(void)state;
	write_qemu(ANSWERS);
	write_trial("kill -9 $$");
	begin_with(&p, ACCEL_KVM);
	await(&p);
	assert_string_equal(p.accel, "kvm");
	assert_false(p.fatal);
	end(&p);
	write_qemu(ANSWERS);
	write_trial(SAYS("0"));
	begin_with(&p, ACCEL_KVM);
	await(&p);
	assert_string_equal(problem_code_str(p.problem.code), "kvm-unusable");
	end(&p);
}

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(program, sizeof(program), "%s/qemu", dir);
	snprintf(calls, sizeof(calls), "%s/qemu.calls", dir);
	snprintf(trial, sizeof(trial), "%s/trial", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, spawner_fixture_teardown)

/* Whoever goes on where another one has died asks nothing that was answered. */
static void known(void **state)
{
	struct record_reader fields;
	struct buf out = {0};
	struct probe p, next = {0};

	(void)state;
	write_qemu(ANSWERS);
	begin(&p);
	assert_false(probe_is_known(&p));
	await(&p);
	assert_true(probe_is_known(&p));
	assert_int_equal(ncalls(), 1);
	probe_put(&p, &out);
	ndone = 0;
	fields = record_reader(out.data, out.len);
	probe_prepare(&next, &loop, sp, ACCEL_TCG, on_done);
	assert_int_equal(probe_get(&next, fields), 0);
	assert_false(next.done);
	probe_go(&next);
	assert_true(next.done);
	assert_int_equal(ndone, 1);
	assert_string_equal(next.qemu, p.qemu);
	assert_string_equal(next.accel, "tcg");
	assert_int_equal(ncalls(), 1);
	closed = false;
	probe_close(&next, on_closed);
	while (!closed)
		uv_run(&loop, UV_RUN_ONCE);
	/* Who was told nothing asks. */
	next = (struct probe){0};
	probe_prepare(&next, &loop, sp, ACCEL_TCG, on_done);
	probe_go(&next);
	await(&next);
	assert_int_equal(ncalls(), 2);
	closed = false;
	probe_close(&next, on_closed);
	while (!closed)
		uv_run(&loop, UV_RUN_ONCE);
	buf_clear(&out);
	closed = false;
	end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(answers),	 T(killed_once),   T(killed_always), T(installed_later),
		T(closed_early), T(kvm_undecided), T(kvm_wanted),    T(known),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
