/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as records: rules, questions that wait and that were decided, the log of connections, what was used of a budget. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/shelf.c tests/unit/fixture/keep_fixture.c vm/base/record.c vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c fs/handover/generations.c */
/* modules: fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/sink.c fs/handover/files.c fs/handover/calls.c fs/handover/handles.c vm/base/problem_record.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
#include <errno.h>
#include <stdio.h>

#include "fs/handover/internal.h"
#include "fs/keep/keep.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/keep_fixture.h"
#include "tests/unit/fixture/shelf.h"

#define TOP "python/demo/"

static void log_one(struct sandbox *s, const char *path)
{
	const struct sandbox_logged what = fake_request(path);

	fake_logged(s, &what);
}

static void test_settings(void **state)
{
	struct fixture *fx = *state;
	struct second two;
	const struct net_policy *p;

	fx_put(fx, TOP "config",
	       "network = on\nallow = a.org\nrules = allow GET a.org/x%2A deny * a.org\n"
	       "secrets_file = /home/me/secrets\nsecrets = a.org bearer mine\nask = yes\n"
	       "ask_s = 7\nnet_bytes = 1500\nnet_rate = 3K\n");
	fx_ready(fx);
	kx_check_both(fx);
	kx_check(fx, &kx_at_rest, &two);
	p = &kx_in_second(&two, "demo")->settings.spec.policy;
	assert_string_equal(p->rules, "allow GET a.org/x%2A deny * a.org");
	assert_string_equal(p->secrets, "a.org bearer mine");
	assert_string_equal(p->secrets_file, "/home/me/secrets");
	assert_true(p->ask && p->ask_s == 7 && p->most.bytes == 1500 && p->rate == 3072);
	kx_end(&two);
}

static void test_questions(void **state)
{
	struct fixture *fx = *state;
	struct second two;
	struct sandbox *s;
	const struct question *q;

	fx_put(fx, TOP "config", "network = on\nask = yes\n");
	s = fx_ready(fx);
	fake_asks(s, 11, "GET", "https", "api.test", 443, "/a?b", 0);
	fake_asks(s, 12, "", "tcp", "api.test", 22, "", 3);
	fake_asks(s, 13, "GET", "http", "api.test", 80, "/", SANDBOX_RULE_FIRST | 1);
	kx_check_both(fx);
	assert_int_equal(fx_put(fx, TOP "net/pending/1/decision", "always\n"), 0);
	assert_int_equal(fx_rename(fx, TOP "net/pending/1", TOP "net/allowed/1", 0), 0);
	kx_check_both(fx);

	/* Of a daemon that has died they wait for the next one, */
	kx_check(fx, &kx_live, &two);
	q = question_find(kx_in_second(&two, "demo"), 2);
	assert_true(q && q->state == QUESTION_OPEN && q->id == 12 && q->rule == 3);
	assert_string_equal(q->host, "api.test");
	assert_string_equal(question_find(kx_in_second(&two, "demo"), 1)->decided,
			    question_find(fx_demo(fx), 1)->decided);
	assert_int_equal(kx_in_second(&two, "demo")->questions.last, 3);
	kx_end(&two);
	fake_asks_no_more(s, 12, SANDBOX_UNASKED_LATE);
	kx_check_both(fx);
	kx_check(fx, &kx_live, &two);
	q = question_find(kx_in_second(&two, "demo"), 2);
	assert_true(q && q->state == QUESTION_DENIED && q->lapsed);
	assert_false(question_find(kx_in_second(&two, "demo"), 1)->lapsed);
	kx_end(&two);
	fake_asks(s, 12, "", "tcp", "api.test", 22, "", 3);
	/* ... and after a power cut for nobody. */
	kx_check(fx, &kx_at_rest, &two);
	q = question_find(kx_in_second(&two, "demo"), 4);
	assert_true(q && q->state == QUESTION_DENIED && q->lapsed);
	assert_string_equal(q->decided, QUESTION_SANDBOX_GONE);
	assert_int_equal(kx_in_second(&two, "demo")->questions.n[QUESTION_OPEN], 0);
	assert_int_equal(kx_in_second(&two, "demo")->questions.n[QUESTION_DENIED], 3);
	kx_end(&two);
}

/* What the filter asks again after the daemon's death is the same question. */
static void test_asked_again(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, TOP "config", "network = on\nask = yes\n");
	s = fx_ready(fx);
	fake_asks(s, 11, "GET", "https", "api.test", 443, "/a?b", 0);
	fake_asks(s, 11, "GET", "https", "api.test", 443, "/a?b", 0);
	assert_string_equal(fx_ls(fx, TOP "net/pending"), "1 ");
	fake_asks_no_more(s, 11, SANDBOX_UNASKED_GONE);
	fake_asks(s, 11, "GET", "https", "api.test", 443, "/a?b", 0);
	assert_string_equal(fx_ls(fx, TOP "net/pending"), "2 ");
}

static void test_log(void **state)
{
	struct fixture *fx = *state;
	struct second two;
	struct sandbox *s;
	static char path[1024];

	memset(path, 'p', sizeof(path) - 1);
	fx_put(fx, TOP "config", "network = on\n");
	s = fx_ready(fx);
	s->traffic = (struct sandbox_traffic){.bytes_in = 100, .bytes_out = 11, .connections = 2};
	log_one(s, "/first");
	kx_check_both(fx);
	for (unsigned i = 0; i < CONNLOG_LINES + 500; i++) {
		log_one(s, i % 9 ? "/" : path);
		if (i == 7 || i == CONNLOG_LINES + 20)
			kx_check_both(fx);
	}
	kx_check_both(fx);
	kx_check(fx, &kx_live, &two);
	assert_int_equal(kx_in_second(&two, "demo")->connlog.n, CONNLOG_LINES);
	assert_int_equal(kx_in_second(&two, "demo")->connlog.gone, 501);
	assert_int_equal(kx_in_second(&two, "demo")->connlog.shown, fx_demo(fx)->connlog.shown);
	assert_int_equal(kx_in_second(&two, "demo")->net_now.bytes, 111);
	assert_int_equal(kx_in_second(&two, "demo")->net_now.requests, CONNLOG_LINES + 501);
	kx_end(&two);
	kx_check(fx, &kx_at_rest, &two);
	assert_int_equal(kx_in_second(&two, "demo")->connlog.n, CONNLOG_LINES);
	assert_int_equal(kx_in_second(&two, "demo")->net_now.requests, 0);
	assert_int_equal(kx_in_second(&two, "demo")->net_used.requests, CONNLOG_LINES + 501);
	assert_int_equal(kx_in_second(&two, "demo")->net_used.connections, 2);
	kx_end(&two);
}

/* Filters that have been taken over say the most that is taken of them, one after the other. */
static void test_the_most(void **state)
{
	struct fixture *fx = *state;
	const uint64_t most = 1ull << 60;
	struct second two;
	struct sandbox *s;

	fx_put(fx, TOP "config", "network = on\n");
	for (unsigned i = 0; i < 40; i++) {
		s = fx_ready(fx);
		s->traffic = (struct sandbox_traffic){
			.bytes_in = most, .bytes_out = most, .connections = most};
		network_sample(fx_demo(fx));
		kx_check_both(fx);
		assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
		assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
		assert_true(network_used(fx_demo(fx)).bytes >= 2 * most);
	}
	kx_check(fx, &kx_live, &two);
	assert_true(kx_in_second(&two, "demo")->net_used.bytes >= 2 * most);
	kx_end(&two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		kx_test(test_settings), kx_test(test_questions), kx_test(test_asked_again),
		kx_test(test_log),	kx_test(test_the_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
