/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a real sandbox, saved, looked at, and put into others: the agent as a process of the host, and in a jail. */
/* modules: vm tests/unit/fixture/daemon_fixture.c */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/fixture/daemon_fixture.h"
#include "vm/checkpoint/pack.h"
#include "vm/checkpoint/saved.h"
#include "vm/guest/internal.h"

/* With MEASURE, it is said how long it took. */

static bool with_pool;

static void open_with(struct heard *h, struct saved *from, unsigned files_mb)
{
	struct sandbox_spec spec = spec_of("raw");

	spec.memory_mb = 512;
	spec.limits.files_mb = files_mb;
	spec.limits.files_inodes = 200000;
	spec.from = from;
	spec.pool.target = spec.pool.low = with_pool;
	open_as(h, &spec);
}

static void start_from(struct heard *h, struct saved *from)
{
	open_with(h, from, 400);
	until_ready(h);
}

static struct saved *save(struct heard *h)
{
	h->nsaved = 0;
	assert_int_equal(sandbox_save(h->s, false), 0);
	assert_int_equal(sandbox_save(h->s, false), -EBUSY);
	await(h, &h->nsaved, 1);
	if (!h->saved)
		fail_msg("%s", h->problem.cause);
	return h->saved;
}

/* ---- tests ---- */

static const char fill[] =
	"mkdir -p d/e empty; echo hello >d/e/f; ln d/e/f hard; ln -s d/e/f link; ln -s /etc out\n"
	"head -c 3000000 /dev/urandom >large; truncate -s 1G hole; printf x | dd of=hole bs=1 "
	"seek=500M "
	"conv=notrunc 2>/dev/null\n"
	"mkfifo fifo; touch $'not\\xffutf8' \"$(printf 'n%.0s' {1..255})\"; echo secret >none; "
	"chmod 0 none\n"
	"chmod 1770 empty; touch -d @1234567890.123456789 d; chmod 711 .; mkdir locked; touch "
	"locked/in; chmod 0 locked\n";
static const char look[] =
	"stat -c '%n %F %a %h %s %Y %u %g' . * d/* d/e/*; stat -c '%n %b' hole large; cksum large "
	"d/e/f; readlink link out\n"
	"[ hard -ef d/e/f ] && echo one; stat -c %y d; chmod 600 none; cat none; chmod 0 none\n"
	"tail -c +524288001 hole | head -c 1; chmod 700 locked; ls locked; chmod 0 locked\n";

static void goes_round(void **state)
{
	static struct heard first, second;
	struct sandbox_info info;
	struct saved *saved;
	struct pack_attr a;
	char *before;
	uint32_t e;

	(void)state;
	start_from(&first, NULL);
	sandbox_info(first.s, &info);
	assert_string_equal(info.lost, "");
	run(&first, fill);
	before = strdup(run(&first, look));
	saved = save(&first);
	/* It goes on. */
	assert_string_equal(run(&first, "echo more >more; cat d/e/f"), "hello\n");
	finish(&first);
	/* What it was can be looked at without it. */
	assert_int_equal(pack_lookup(saved->pack, PACK_ROOT, "more", &e), -ENOENT);
	assert_int_equal(pack_lookup(saved->pack, PACK_ROOT, "hole", &e), 0);
	pack_attr(saved->pack, e, &a);
	assert_int_equal(a.size, 1u << 30);
	assert_true(a.blocks <= 256);
	assert_int_equal(pack_lookup(saved->pack, PACK_ROOT, "link", &e), 0);
	assert_string_equal(pack_target(saved->pack, e), "d/e/f");
	assert_int_equal(pack_flaws(saved->pack).changed, 0);
	assert_int_equal(pack_flaws(saved->pack).left_out, 1);
	assert_true(saved_files_bytes(saved) < 4u << 20);
	/* More than one can begin with it. */
	for (unsigned i = 0; i < 2; i++) {
		start_from(&second, saved);
		sandbox_info(second.s, &info);
		assert_false(info.kept);
		assert_non_null(strstr(info.lost, "files"));
		assert_string_equal(run(&second, look), before);
		run(&second, "rm -rf d large; chmod 700 locked; rm -rf locked");
		finish(&second);
	}
	saved_unref(saved);
	free(before);
}

static void goes_round_of_an_idle_one(void **state)
{
	static struct heard first, second;
	struct saved *saved;

	with_pool = true; /* one is begun for the next */
	start_from(&first, NULL);
	run(&first, "echo x >f; sleep 0.1");
	saved = save(&first);
	start_from(&second, saved);
	assert_string_equal(run(&second, "cat f"), "x\n");
	finish(&first);
	finish(&second);
	saved_unref(saved);
	with_pool = false;
	(void)state;
}

static void is_no_run_meanwhile(void **state)
{
	const struct sandbox_run r = {.id = 900, .code = "true", .code_len = 4, .limit = {1, 1}};
	const struct sandbox_job j = {.id = SANDBOX_JOB_ID + 1, .code = {"true", 4}};
	static struct heard h;

	(void)state;
	start_from(&h, NULL);
	run(&h, "head -c 100000000 /dev/zero | tr '\\0' x >f");
	assert_int_equal(sandbox_save(h.s, false), 0);
	assert_int_equal(sandbox_run(h.s, &r), -EBUSY);
	assert_int_equal(sandbox_job(h.s, &j), -EBUSY);
	assert_int_equal(sandbox_freeze(h.s), -EBUSY);
	await(&h, &h.nsaved, 1);
	assert_non_null(h.saved);
	/* Streamed into one place: the daemon needs no more than the files. */
	assert_true(saved_files_bytes(h.saved) < 101u << 20);
	saved_unref(h.saved);
	/* A reset ends it, and nobody is told. */
	h.nsaved = 0;
	assert_int_equal(sandbox_save(h.s, false), 0);
	while (!h.s->guest->pack.maker)
		uv_run(&here->loop, UV_RUN_ONCE);
	assert_int_equal(sandbox_reset(h.s), 0);
	h.state = SANDBOX_STARTING;
	until_ready(&h);
	assert_int_equal(h.nsaved, 0);
	saved_unref(save(&h));
	/* So does its end. */
	h.nsaved = 0;
	assert_int_equal(sandbox_save(h.s, false), 0);
	while (!h.s->guest->pack.maker)
		uv_run(&here->loop, UV_RUN_ONCE);
	finish(&h);
	assert_int_equal(h.nsaved, 0);
}

static void says_what_does_not_fit(void **state)
{
	static struct heard h;
	struct saved *saved;

	(void)state;
	start_from(&h, NULL);
	run(&h, "mkdir d; head -c 3000000 /dev/zero | tr '\\0' x >d/big");
	saved = save(&h);
	finish(&h);
	open_with(&h, saved, 2);
	while (!h.nclosed)
		uv_run(&here->loop, UV_RUN_ONCE);
	assert_int_equal(h.problem.code, PROBLEM_NOT_RESTORED);
	assert_non_null(strstr(h.problem.cause, "d/big: No space left on device"));
	finish(&h);
	/* Nor is there anything left of it that would be in the way of the next one. */
	start_from(&h, saved);
	assert_string_equal(run(&h, "wc -c <d/big"), "3000000\n");
	finish(&h);
	saved_unref(saved);
}

/* What it could store can be saved, and put into as much room. */
static void counts_as_the_sandbox_does(void **state)
{
	static struct heard h;
	struct saved *saved;

	(void)state;
	open_with(&h, NULL, 1);
	until_ready(&h);
	run(&h, "t=$(printf 'x%.0s' {1..120}); for i in {1..3000}; do ln -s $t $i; done; "
		"head -c 2000000 /dev/zero | tr '\\0' x >big; ls | wc -l >&2; true");
	saved = save(&h);
	finish(&h);
	open_with(&h, saved, 1);
	until_ready(&h);
	assert_string_equal(run(&h, "wc -c <big; ls | wc -l"), "1048576\n3001\n");
	finish(&h);
	saved_unref(saved);
}

/* How long the loop is kept from other sandboxes at most, in ms, as a timer sees it. */
static uv_timer_t pulse;
static uint64_t pulse_at, pulse_gap;

static void on_pulse(uv_timer_t *timer)
{
	const uint64_t now = uv_hrtime();

	(void)timer;
	pulse_gap = MAX(pulse_gap, now - pulse_at);
	pulse_at = now;
}

static void pulse_begin(void)
{
	pulse_gap = 0;
	pulse_at = uv_hrtime();
	uv_timer_init(&here->loop, &pulse);
	uv_timer_start(&pulse, on_pulse, 1, 1);
}

static void pulse_end(const char *what)
{
	on_pulse(&pulse);
	uv_close((uv_handle_t *)&pulse, NULL);
	uv_run(&here->loop, UV_RUN_NOWAIT);
	printf("             %s: the loop was busy for at most %.1f ms\n", what,
	       (double)pulse_gap / 1e6);
}

static double seconds(void)
{
	return (double)uv_hrtime() / 1e9;
}

static void measure(const char *what, double amount, const char *unit, double from)
{
	printf("             %s: %.0f %s/s\n", what, amount / (seconds() - from), unit);
}

/* Much data, and many files. */
static void is_fast(void **state)
{
	static const char *const code[] = {
		"head -c 100000000 /dev/urandom >f",
		"for d in {1..50}; do mkdir $d; for f in {1..1000}; do echo $f >$d/$f; done; done"};
	static const double amount[] = {95.4, 50000};
	static const char *const unit[] = {"MiB", "files"};

	(void)state;
	if (!getenv("MEASURE"))
		skip();
	for (unsigned i = 0; i < 2; i++) {
		static struct heard h;
		struct saved *saved;
		double from, empty;

		start_from(&h, NULL);
		run(&h, code[i]);
		pulse_begin();
		from = seconds();
		saved = save(&h);
		measure("packed", amount[i], unit[i], from);
		pulse_end("packing");
		finish(&h);
		from = seconds();
		start_from(&h, NULL);
		empty = seconds() - from;
		finish(&h);
		from = seconds();
		pulse_begin();
		start_from(&h, saved);
		measure("put back", amount[i], unit[i], from + empty);
		pulse_end("putting back");
		printf("             an empty one starts in %.0f ms, the pack takes %.1f MiB\n",
		       empty * 1e3, (double)saved_files_bytes(saved) / (1 << 20));
		finish(&h);
		saved_unref(saved);
	}
}

int main(void)
{
	const struct CMUnitTest child[] = {
		cmocka_unit_test_setup_teardown(goes_round, begin_child, end),
		cmocka_unit_test_setup_teardown(is_no_run_meanwhile, begin_child, end),
		cmocka_unit_test_setup_teardown(is_fast, begin_child, end),
	};
	const struct CMUnitTest process[] = {
		cmocka_unit_test_setup_teardown(goes_round, begin_process, end),
		cmocka_unit_test_setup_teardown(goes_round_of_an_idle_one, begin_process, end),
		cmocka_unit_test_setup_teardown(is_no_run_meanwhile, begin_process, end),
		cmocka_unit_test_setup_teardown(says_what_does_not_fit, begin_process, end),
		cmocka_unit_test_setup_teardown(counts_as_the_sandbox_does, begin_process, end),
		cmocka_unit_test_setup_teardown(is_fast, begin_process, end),
	};
	const struct CMUnitTest machine[] = {
		cmocka_unit_test_setup_teardown(goes_round, begin_machine, end),
		cmocka_unit_test_setup_teardown(says_what_does_not_fit, begin_machine, end),
		cmocka_unit_test_setup_teardown(is_fast, begin_machine, end),
	};

	leave(run_three("test_save", child, process, machine));
}
