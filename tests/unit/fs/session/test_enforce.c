/* SPDX-License-Identifier: Apache-2.0 */
/* A day's bytes of the network: when they are used up nothing can be reached, and when the next day begins all that could before. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fs/session/quota.h"
#include "tests/unit/fixture/fixture.h"

#define TOP   "python/demo/"
#define DAY_S 86400

/* In place of the C library's: the day is what a test says, and begins when it says so. */
static time_t ahead_s;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t id, struct timespec *ret)
{
	const int r = (int)syscall(SYS_clock_gettime, id, ret);

	if (id == CLOCK_REALTIME)
		ret->tv_sec += ahead_s;
	return r;
}

/* It is so many seconds before midnight. */
static void before_midnight(int seconds)
{
	struct timespec now;

	ahead_s = 0;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	ahead_s = DAY_S - now.tv_sec % DAY_S - seconds;
}

/* Both clocks go on. */
static void pass(int seconds)
{
	ahead_s += seconds;
	clock_advance((uint64_t)seconds * 1000);
}

static char first_rules[] = "allow * first.test";
static const char settings[] =
	"allow = a.test\nrules = allow GET b.test/v1*\nask = yes\nask_s = 7\n"
	"net_bytes = 5000\nnet_connections = 60\nnet_rate = 70\ncheckpoint_runs = 0\n";

static int setup(void **state)
{
	struct fixture *fx;
	int r;

	before_midnight(3600);
	r = fx_setup(state);
	fx = *state;
	if (r == 0) {
		fx->conf.quota.each.net_bytes_day = 1000;
		fx->conf.limits.first_rules = first_rules;
	}
	return r;
}

static int teardown(void **state)
{
	struct fixture *fx = *state;

	fx->conf.limits.first_rules = NULL;
	return fx_teardown(state);
}

static void has_all(const struct sandbox *s, const char *allow)
{
	assert_string_equal(s->allow, allow);
	assert_string_equal(s->rules, "allow GET b.test/v1*");
	assert_string_equal(s->first, "allow * first.test");
	assert_true(s->policy.ask);
	assert_int_equal(s->policy.ask_s, 7);
	assert_int_equal(s->policy.most.bytes, 5000);
	assert_int_equal(s->policy.most.connections, 60);
	assert_int_equal(s->policy.rate, 70);
}

static void has_nothing(const struct sandbox *s)
{
	assert_string_equal(s->allow, "");
	assert_string_equal(s->rules, "");
	assert_string_equal(s->first, "");
	assert_false(s->policy.ask || s->policy.learn);
}

static struct sandbox *running(struct fixture *fx)
{
	struct sandbox *s;

	fx_network(fx, settings);
	s = fx_run(fx, "x");
	has_all(s, "a.test");
	return s;
}

static void use_up(struct fixture *fx)
{
	quota_net_add(fx->fs, fx_demo(fx)->uid, 1000);
	clock_advance(0);
}

static void test_midnight(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = running(fx);

	quota_net_add(fx->fs, fx_demo(fx)->uid, 999);
	clock_advance(0);
	has_all(s, "a.test");
	quota_net_add(fx->fs, fx_demo(fx)->uid, 1);
	clock_advance(0);
	has_nothing(s);
	fx_expect_error(fx, "python/demo", "over-quota");
	fx_expect_in(fx, TOP "error",
		     "1000 bytes today, of 1000; it begins anew at 00:00 UTC, in 1 h 00 min");
	fx_expect(fx, TOP "state", "running\n"); /* runs go on */
	pass(3590);
	has_nothing(s);
	pass(15);
	has_all(s, "a.test");
	/* The next day ends as well. */
	use_up(fx);
	has_nothing(s);
	pass(DAY_S);
	has_all(s, "a.test");
	fake_exit(s, VM_DONE, 0);
}

/* What its owner changes meanwhile is what it has then. */
static void test_changed_meanwhile(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = running(fx);

	use_up(fx);
	assert_int_equal(fx_add(fx, TOP "net/allow", "c.test\n"), 0);
	fx_expect(fx, TOP "net/allow", "a.test\nc.test\n");
	has_nothing(s);
	assert_int_equal(fx_put(fx, TOP "net/rules", "deny * d.test\n"), 0);
	has_nothing(s);
	assert_int_equal(fx_put(fx, TOP "net/rules", "allow GET b.test/v1*\n"), 0);
	pass(3605);
	has_all(s, "a.test c.test");
}

/* Sandboxes that begin when nothing is left have nothing, and those that are not up yet when it is midnight get it. */
static void test_begins_without(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_network(fx, settings);
	use_up(fx);
	assert_int_equal(fx_put(fx, TOP "in", "x"), 0);
	s = fake_sandbox();
	has_nothing(s);
	pass(3605); /* it waits for a place, say */
	has_all(s, "a.test");
	fake_state(s, SANDBOX_READY);
	assert_string_equal(s->code, "x");
}

/* Nor do those keep it that were not up when it was used up. */
static void test_used_up_meanwhile(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_network(fx, settings);
	assert_int_equal(fx_put(fx, TOP "in", "x"), 0);
	s = fake_sandbox();
	has_all(s, "a.test");
	use_up(fx);
	has_nothing(s);
}

/* What a mount before has used up, this one has not seen; nor has it anything else to wait for. */
static void test_of_a_mount_before(void **state)
{
	struct fixture *fx = *state;
	const struct spent used = {.bytes = 1000};
	const struct timespec now = clock_now();
	struct second two;
	struct sandbox *s;
	struct fs *first;

	for (size_t i = 0; i < fx->conf.ntemplates; i++)
		fx->conf.template[i].settings.idle_timeout_s = 0;
	second_begin(&two, fx);
	first = fx_serve(fx, two.fs);
	clock_advance(0);
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0);
	account_spend(&two.fs->accounts, fx_demo(fx)->uid, &used, account_day(&now));
	fx_network(fx, settings);
	s = fx_run(fx, "x");
	fake_exit(s, VM_DONE, 0);
	has_nothing(s);
	pass(3605);
	has_all(s, "a.test");
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	fake_settle();
	mount_stop(two.fs);
	fx_serve(fx, first);
	second_free(&two);
}

/* Of all users together. */
static void test_of_all(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = running(fx);

	fx->conf.quota.each.net_bytes_day = 0;
	fx->conf.quota.all.net_bytes_day = 1000;
	quota_net_add(fx->fs, fx_demo(fx)->uid + 1, 1000);
	clock_advance(0);
	has_nothing(s);
	fx_expect_in(fx, TOP "error", "all users' sandboxes together");
	pass(3605);
	has_all(s, "a.test");
}

/* Somebody else's networks are his. */
static void test_of_another(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = running(fx);

	quota_net_add(fx->fs, fx_demo(fx)->uid + 1, 2000);
	clock_advance(0);
	has_all(s, "a.test");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_midnight),	      TEST(test_changed_meanwhile),
		TEST(test_begins_without),    TEST(test_used_up_meanwhile),
		TEST(test_of_a_mount_before), TEST(test_of_all),
		TEST(test_of_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
