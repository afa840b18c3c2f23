/* SPDX-License-Identifier: Apache-2.0 */
/* What is installed next, for whom, and what is forgotten. */
/* modules: vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vm/build/package_internal.h"

#define USERS 16u
#define OLD   600000u

enum { ALICE = 1, BOB, CAROL };

static uv_loop_t loop;
static struct context ctx;
static struct package_jobs jobs;
static struct wait users[USERS];
static unsigned nusers;
static struct package_jobs *const in = &jobs;

static int setup(void **state)
{
	(void)state;
	memset(&ctx, 0, sizeof(ctx));
	memset(&jobs, 0, sizeof(jobs));
	memset(users, 0, sizeof(users));
	nusers = 0;
	assert_int_equal(uv_loop_init(&loop), 0);
	ctx.loop = &loop;
	TAILQ_INIT(&in->installs);
	TAILQ_INIT(&in->waits);
	in->ctx = &ctx;
	return 0;
}

static int teardown(void **state)
{
	struct package_job *job;

	(void)state;
	while ((job = TAILQ_FIRST(&in->installs)))
		package_job_forget(in, job);
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

static struct package_job *job_of(const char *name)
{
	const struct layer_need need = {.packages = name, .language = "python"};
	struct package_job *job = package_job_find(in, name);

	if (!job) {
		char key[DIGEST_HEX] = "";

		snprintf(key, sizeof(key), "%s", name);
		job = package_job_new(in, key, &need);
	}
	assert_non_null(job);
	return job;
}

/* A user's sandbox waits for packages. */
static struct wait *want(uid_t owner, const char *name)
{
	struct wait *w = &users[nusers++];

	assert_true(nusers <= USERS);
	*w = (struct wait){.owner = owner};
	wait_for(w, &in->waits, job_of(name));
	return w;
}

/* The next one is this one, and is made. */
static void next(const char *name)
{
	struct package_job *job = package_job_choose(in);

	if (!name) {
		assert_null(job);
		return;
	}
	assert_non_null(job);
	assert_string_equal(job->key, name);
	job->step = PACKAGE_RUN;
	for (unsigned i = 0; i < nusers; i++)
		if (users[i].on == job)
			package_jobs_unwait(in, &users[i]);
	assert_ptr_equal(package_job_find(in, name), job);
	package_job_forget(in, job);
}

static void in_turn(void **state)
{
	(void)state;
	want(ALICE, "a1");
	want(ALICE, "a2");
	want(ALICE, "a3");
	want(ALICE, "a4");
	next("a1");
	/* Who comes later has nobody's queue before him. */
	want(BOB, "b1");
	want(BOB, "b2");
	want(CAROL, "c1");
	next("b1");
	next("c1");
	next("a2");
	next("b2");
	next("a3");
	/* What somebody has asked for long ago comes as soon as for who has had no turn. */
	want(ALICE, "a5");
	want(CAROL, "a5");
	next("a5");
	next("a4");
	next(NULL);
}

/* Templates are a user like any other, and so is who asks. */
static void not_only_sessions(void **state)
{
	struct package_ask ask = {.owner = BOB};

	(void)state;
	job_of("t1")->prepared = true;
	job_of("t2")->prepared = true;
	job_of("ask")->ask = &ask;
	want(ALICE, "a1");
	want(ALICE, "a2");
	next("a1");
	next("t1");
	next("ask");
	next("a2");
	next("t2");
	next(NULL);
}

/* More users than can be remembered. */
static void many_users(void **state)
{
	char name[16];

	(void)state;
	for (unsigned i = 0; i < 2 * PACKAGE_TURNS; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		nusers = 0;
		want(100 + i, name);
		next(name);
	}
	assert_int_equal(in->nserved, PACKAGE_TURNS);
	assert_int_equal(in->served[0], 100 + 2 * PACKAGE_TURNS - 1);
	assert_int_equal(in->served[PACKAGE_TURNS - 1], 100 + PACKAGE_TURNS);
	want(100 + PACKAGE_TURNS, "known");
	want(100, "unknown");
	next("unknown");
	next("known");
	assert_int_equal(in->nserved, PACKAGE_TURNS);
}

/* What nobody waits for is not made, unless it has begun or a template is to have it. */
static void unwanted(void **state)
{
	struct package_ask ask = {.owner = BOB};
	struct wait *first = want(ALICE, "a1"), *second = want(BOB, "a1");

	(void)state;
	package_jobs_unwait(in, first);
	assert_non_null(package_job_find(in, "a1"));
	package_jobs_unwait(in, first); /* no more than once */
	package_jobs_unwait(in, second);
	assert_null(package_job_find(in, "a1"));
	next(NULL);
	first = want(ALICE, "t1");
	package_job_find(in, "t1")->prepared = true;
	package_jobs_unwait(in, first);
	assert_non_null(package_job_find(in, "t1"));
	first = want(ALICE, "ask");
	package_job_find(in, "ask")->ask = &ask;
	package_jobs_unwait(in, first);
	assert_non_null(package_job_find(in, "ask"));
	first = want(ALICE, "begun");
	package_job_find(in, "begun")->step = PACKAGE_RUN;
	package_jobs_unwait(in, first);
	assert_non_null(package_job_find(in, "begun"));
}

/* A failure is known for a while, and not for good. */
static void failures(void **state)
{
	const struct layer_need need = {.form = LAYER_TREE,
					.host = true,
					.language = "python",
					.packages = "x==1",
					.source = ""};
	const uint64_t now = uv_now(&loop);
	struct package_job *job = job_of("old");
	struct problem p;

	(void)state;
	job->step = PACKAGE_FAILED;
	job->ended_at = now - OLD;
	job = job_of("new");
	job->step = PACKAGE_FAILED;
	job->ended_at = now - OLD + 1;
	job = job_of("waits");
	job->prepared = true;
	job->ended_at = now - OLD;
	/* There is nothing that it could be installed with. */
	assert_int_equal(package_jobs_ask(in, &need, NULL, &p), -ENOENT);
	assert_null(package_job_find(in, "old"));
	assert_non_null(package_job_find(in, "new"));
	assert_non_null(package_job_find(in, "waits"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(not_only_sessions, setup, teardown),
		cmocka_unit_test_setup_teardown(many_users, setup, teardown),
		cmocka_unit_test_setup_teardown(unwanted, setup, teardown),
		cmocka_unit_test_setup_teardown(failures, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
