/* SPDX-License-Identifier: Apache-2.0 */
/* What one user may have, where he has many sessions: limits are met exactly, however seldom all is summed up. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "fs/session/network.h"
#include "fs/session/quota.h"
#include "tests/unit/fixture/fixture.h"

#define MANY 300u
#define MINE 4321u
#define TEXT (1u << 20)

static struct session *sessions[MANY];

static void make(struct fixture *fx)
{
	char name[32];

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		assert_int_equal(session_create(fx->fs, 1, name, MINE, MINE, &sessions[i]), 0);
	}
}

/* Of a text, quota.c looks at nothing but the length. */
static void set_text(struct session *s, size_t len)
{
	s->front.last_code.len = len;
}

static void test_texts(void **state)
{
	struct fixture *fx = *state;
	unsigned n = 0;

	make(fx);
	for (; n < MANY && quota_check(fx->fs, sessions[n], TEXT) == 0; n++)
		set_text(sessions[n], TEXT);
	/* The sessions themselves count as well. */
	assert_in_range(n, QUOTA_BYTES / TEXT - 10, QUOTA_BYTES / TEXT);
	for (unsigned i = 0; i < 3 * MANY; i++)
		assert_int_equal(quota_check(fx->fs, sessions[0], TEXT), -EDQUOT);
	assert_int_equal(problem_kept(&sessions[0]->front.error)->code, PROBLEM_TOO_MUCH_TEXT);
	/* At once, and so does what was said of it. */
	set_text(sessions[7], 0);
	assert_int_equal(quota_check(fx->fs, sessions[9], TEXT - sizeof(struct problem)), 0);
	set_text(sessions[7], TEXT);
	assert_int_equal(quota_check(fx->fs, sessions[9], TEXT), -EDQUOT);
	for (unsigned i = 0; i < n; i++)
		set_text(sessions[i], 0);
	/* What was asked for, and not taken, is nothing. */
	for (unsigned i = 0; i < 3 * QUOTA_BYTES / TEXT; i++)
		assert_int_equal(quota_check(fx->fs, sessions[i % MANY], TEXT), 0);
}

static void test_others(void **state)
{
	struct fixture *fx = *state;
	struct session *other;

	make(fx);
	assert_int_equal(session_create(fx->fs, 1, "other", MINE + 1, 0, &other), 0);
	for (unsigned i = 0; i < MANY; i++)
		set_text(sessions[i], TEXT);
	assert_int_equal(quota_check(fx->fs, sessions[0], 0), -EDQUOT);
	assert_int_equal(quota_check(fx->fs, other, 100 * TEXT), 0);
	for (unsigned i = 0; i < MANY; i++)
		set_text(sessions[i], 0);
}

/* Return: whether it fits, and is there then. */
static bool save(struct fixture *fx, struct session *s)
{
	struct saved *saved = fake_saved_new(500, true);
	struct problem why;

	if (quota_saved(fx->fs, s, saved, &why) < 0) {
		assert_int_equal(why.code, PROBLEM_TOO_MUCH_SAVED);
		saved_unref(saved);
		return false;
	}
	asleep_begin(s, saved);
	return true;
}

static void test_saved(void **state)
{
	struct fixture *fx = *state;
	unsigned n = 0;

	make(fx);
	fx->conf.saved_bytes = 200 * 1500; /* 1000 of each are memory */
	while (save(fx, sessions[n]))
		n++;
	assert_int_equal(n, 200);
	assert_int_equal(quota_saved_total(fx->fs), 200 * 1500);
	/* Copies share it. */
	for (unsigned i = n; i < MANY; i++)
		asleep_begin(sessions[i], saved_ref(sessions[0]->asleep.saved));
	assert_int_equal(quota_saved_total(fx->fs), 200 * 1500);
	for (unsigned i = 0; i < MANY; i++)
		assert_false(save(fx, sessions[5]));
	asleep_end(sessions[9]);
	assert_true(save(fx, sessions[9]));
	assert_false(save(fx, sessions[10]));
	for (unsigned i = 0; i < 100; i++) /* again and again, in place of what there was */
		asleep_end(sessions[i]);
	for (unsigned i = 1; i < 100; i++)
		assert_true(save(fx, sessions[i]));
}

/* The memory that machines began from is on the disk once. */
static void test_bases(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved[3] = {fake_saved_new(500, true), fake_saved_new(500, true),
				  fake_saved_new(500, true)};
	struct problem why;

	make(fx);
	for (unsigned i = 0; i < 3; i++) {
		saved[i]->base_bytes = 10000;
		snprintf(saved[i]->base, sizeof(saved[i]->base), "%s", i < 2 ? "one" : "other");
		asleep_begin(sessions[i], saved[i]);
	}
	assert_int_equal(quota_saved_total(fx->fs), 3 * 1500 + 2 * 10000);
	asleep_end(sessions[0]); /* whoever has been there first */
	assert_int_equal(quota_saved_total(fx->fs), 2 * 1500 + 2 * 10000);
	fx->conf.saved_bytes = 2 * 1500 + 2 * 10000;
	assert_int_equal(quota_saved(fx->fs, sessions[1], saved[1], &why), 0);
	assert_false(save(fx, sessions[3]));
	asleep_end(sessions[2]);
	assert_true(save(fx, sessions[3]));
}

/* What one woke from stays, where others have it as well. */
static void test_woken(void **state)
{
	struct fixture *fx = *state;
	struct saved *from = fake_saved_new(500, true), *more = fake_saved_new(500, true);
	struct problem why;

	make(fx);
	fx->conf.saved_bytes = 2000; /* two take 3000 */
	sessions[1]->asleep.before = saved_ref(from);
	assert_int_equal(quota_saved(fx->fs, sessions[1], more, &why), 0);
	asleep_begin(sessions[0], saved_ref(from)); /* another copy of it */
	assert_int_equal(quota_saved(fx->fs, sessions[1], more, &why), -EDQUOT);
	saved_unref(from);
	saved_unref(more);
}

static void test_sessions(void **state)
{
	struct fixture *fx = *state;
	struct quotas *q = &fx->conf.quota;
	struct problem why;
	struct session *s;

	q->each.sessions = 2;
	assert_int_equal(quota_session(fx->fs, MINE, &why), 0);
	assert_int_equal(session_create(fx->fs, 1, "a", MINE, MINE, &s), 0);
	assert_int_equal(session_create(fx->fs, 1, "b", MINE, MINE, &s), 0);
	assert_int_equal(session_create(fx->fs, 1, "c", MINE, MINE, &s), -EDQUOT);
	assert_int_equal(quota_session(fx->fs, MINE, &why), -EDQUOT);
	assert_int_equal(why.code, PROBLEM_TOO_MANY_SESSIONS);
	assert_non_null(strstr(why.cause, "2 sessions of 2"));
	assert_non_null(strstr(why.fix, "administrator"));
	assert_int_equal(session_create(fx->fs, 1, "c", MINE + 1, MINE, &s), 0);
	/* All together; the fixture has one. */
	q->all.sessions = 4;
	assert_int_equal(quota_session(fx->fs, MINE + 2, &why), -EDQUOT);
	assert_non_null(strstr(why.cause, "all users together"));
	q->each.sessions = 0;
	assert_int_equal(session_create(fx->fs, 1, "d", MINE, MINE, &s), -EDQUOT);
	q->all.sessions = 0;
	assert_int_equal(session_create(fx->fs, 1, "d", MINE, MINE, &s), 0);
}

static void test_checkpoints(void **state)
{
	struct fixture *fx = *state;
	struct checkpoint *cp;
	struct problem why;

	make(fx);
	fx->conf.max_checkpoints = 5;
	fx->conf.checkpoint_bytes = UINT64_MAX;
	fx->conf.quota.each.checkpoints = 3;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(
			checkpoint_new(sessions[i / 2], i % 2 ? "b" : "a", NULL, &cp, &why), 0);
	assert_int_equal(quota_checkpoints_used(fx->fs, &(uid_t){MINE}), 3);
	assert_int_equal(checkpoint_new(sessions[7], "c", NULL, &cp, &why), -EDQUOT);
	assert_int_equal(why.code, PROBLEM_OVER_QUOTA);
	assert_non_null(strstr(why.cause, "3 checkpoints of 3"));
	checkpoint_remove(sessions[0], checkpoint_find(sessions[0], "a"));
	assert_int_equal(checkpoint_new(sessions[7], "c", NULL, &cp, &why), 0);
	fx->conf.quota.each.checkpoints = 0;
	fx->conf.quota.all.checkpoints = 3;
	assert_int_equal(checkpoint_new(sessions[8], "c", NULL, &cp, &why), -EDQUOT);
	assert_non_null(strstr(why.cause, "all users together"));
}

static void test_disk(void **state)
{
	struct fixture *fx = *state;
	const uid_t mine = MINE;
	struct quota_count count[2] = {{.uid = MINE + 1}, {.uid = MINE}};
	struct problem why;
	unsigned n = 0;

	make(fx);
	fx->conf.quota.each.disk = 10 * 1500;
	for (unsigned i = 0; i < 10; i++) {
		struct saved *saved = fake_saved_new(500, true);

		assert_int_equal(quota_saved(fx->fs, sessions[i], saved, &why), 0);
		asleep_begin(sessions[i], saved);
		n++;
	}
	assert_int_equal(quota_disk_used(fx->fs, &mine), 10 * 1500);
	quota_count(fx->fs, count, 2); /* the same of several */
	assert_int_equal(count[1].disk, 10 * 1500);
	assert_int_equal(count[0].disk, 0);
	assert_int_equal(quota_disk(fx->fs, MINE, 1, &why), -EDQUOT);
	assert_int_equal(why.code, PROBLEM_OVER_QUOTA);
	assert_int_equal(quota_saved(fx->fs, sessions[20], NULL, &why), -EDQUOT);
	assert_int_equal(quota_begin(fx->fs, MINE, &why), -EDQUOT);
	/* A copy takes nothing. */
	assert_int_equal(quota_saved(fx->fs, sessions[20], sessions[1]->asleep.saved, &why), 0);
	assert_int_equal(quota_disk(fx->fs, MINE + 1, 1, &why), 0);
	/* The records in state_dir count, too. */
	asleep_end(sessions[0]);
	assert_int_equal(quota_disk(fx->fs, MINE, 1500, &why), 0);
	sessions[0]->on_disk.bytes = 1;
	assert_int_equal(quota_disk(fx->fs, MINE, 1500, &why), -EDQUOT);
	assert_int_equal(quota_disk(fx->fs, MINE, 1499, &why), 0);
	sessions[0]->on_disk.bytes = 0;
	/* All together. */
	fx->conf.quota.each.disk = 0;
	fx->conf.quota.all.disk = 1500;
	assert_int_equal(quota_disk(fx->fs, MINE + 1, 1, &why), -EDQUOT);
	assert_non_null(strstr(why.cause, "all users together"));
	for (unsigned i = 1; i < n; i++)
		asleep_end(sessions[i]);
	assert_int_equal(quota_disk(fx->fs, MINE + 1, 1, &why), 0);
}

static void test_processors(void **state)
{
	struct fixture *fx = *state;
	struct problem why;

	quota_cpu_add(fx->fs, MINE, 999999);
	assert_int_equal(quota_begin(fx->fs, MINE, &why), 0); /* there is no limit */
	fx->conf.quota.each.cpu_s_day = 1;
	assert_int_equal(quota_begin(fx->fs, MINE, &why), 0);
	quota_cpu_add(fx->fs, MINE, 1);
	assert_int_equal(quota_begin(fx->fs, MINE, &why), -EDQUOT);
	assert_int_equal(why.code, PROBLEM_OVER_QUOTA);
	assert_non_null(strstr(why.cause, "1 seconds of processors today, of 1"));
	assert_non_null(strstr(why.cause, "begins anew at 00:00 UTC, in "));
	assert_int_equal(quota_begin(fx->fs, MINE + 1, &why), 0);
	/* What goes on is let be for a while. */
	assert_false(quota_is_far_over(fx->fs, MINE, &why) || fx->fs->enforce);
	quota_cpu_add(fx->fs, MINE, 2000000);
	assert_true(quota_is_far_over(fx->fs, MINE, &why) && fx->fs->enforce);
	assert_false(quota_is_far_over(fx->fs, MINE + 1, &why));
	fx->conf.quota.all.cpu_s_day = 3;
	assert_int_equal(quota_begin(fx->fs, MINE + 1, &why), -EDQUOT);
	assert_non_null(strstr(why.cause, "all users'"));
}

static void test_bytes(void **state)
{
	struct fixture *fx = *state;
	struct problem why;

	assert_true(quota_net_left(fx->fs, MINE) == UINT64_MAX);
	fx->conf.quota.each.net_bytes_day = 1000;
	quota_net_add(fx->fs, MINE, 400);
	assert_int_equal(quota_net_left(fx->fs, MINE), 600);
	fx->conf.quota.all.net_bytes_day = 500;
	assert_int_equal(quota_net_left(fx->fs, MINE), 100);
	assert_int_equal(quota_net_left(fx->fs, MINE + 1), 100);
	quota_net_add(fx->fs, MINE, 700);
	assert_int_equal(quota_net_left(fx->fs, MINE), 0);
	quota_net_problem(fx->fs, MINE, &why);
	assert_non_null(strstr(why.cause, "1100 bytes today, of 1000"));
	assert_int_equal(quota_net_left(fx->fs, MINE + 1), 0);
	quota_net_problem(fx->fs, MINE + 1, &why);
	assert_non_null(strstr(why.cause, "all users'"));
}

/* Who has no bytes left reaches nothing, whoever's rules would let him. */
static void test_rules(void **state)
{
	struct fixture *fx = *state;
	struct session *s;

	assert_int_equal(session_create(fx->fs, 1, "s", MINE, MINE, &s), 0);
	free(fx->conf.limits.first_rules);
	fx->conf.limits.first_rules = strdup("allow * web.test");
	assert_string_equal(network_policy(s, &s->settings).first, "allow * web.test");
	fx->conf.quota.each.net_bytes_day = 1000;
	quota_net_add(fx->fs, MINE, 1000);
	assert_string_equal(network_policy(s, &s->settings).first, "");
	assert_string_equal(network_policy(s, &s->settings).rules, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_texts),	   fx_test(test_others), fx_test(test_saved),
		fx_test(test_bases),	   fx_test(test_woken),	 fx_test(test_sessions),
		fx_test(test_checkpoints), fx_test(test_disk),	 fx_test(test_processors),
		fx_test(test_bytes),	   fx_test(test_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
