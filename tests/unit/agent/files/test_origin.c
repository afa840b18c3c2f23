/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs and jobs can have changed a file last, by the times that this host's kernel sets. */
/* modules: agent/files/origin.c agent/files/inodes.c agent/protocol.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/files/origin.h"
#include "vm/base/util.h"

#define JOB PROTO_JOB_ID

static struct origin o;
static int file;

static int setup(void **state)
{
	(void)state;
	file = memfd_create("file", MFD_CLOEXEC);
	origin_init(&o, false);
	return file < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	origin_fini(&o);
	return close(file);
}

/* A step of the kernel's clock for files, so that what follows is not of the same one. */
static void step(void)
{
	usleep(o.fine ? 0 : 12000);
}

static void author(uint32_t id, const char *name)
{
	step();
	origin_author(&o, id, proto_cstr(name));
	origin_begin(&o, id);
}

static void end(uint32_t id, enum origin_state state)
{
	origin_end(&o, id, state);
	step();
}

static struct stat touch(void)
{
	struct stat st;

	assert_int_equal(fstat(file, &st), 0); /* as who asks does */
	assert_int_equal(pwrite(file, "x", 1, 0), 1);
	assert_int_equal(fstat(file, &st), 0);
	return st;
}

static void is(const struct stat *st, const char *want)
{
	char text[PROTO_ORIGIN_MAX + 1];
	const size_t len = origin_of(&o, st, text);

	assert_string_equal(text, want);
	assert_int_equal(len, strlen(text));
}

static void test_one_after_the_other(void **state)
{
	struct stat before = touch(), first, second;

	(void)state;
	author(1, "run 1");
	first = touch();
	is(&first, "run 1");
	end(1, ORIGIN_CLOSED);
	author(2, "run 2");
	second = touch();
	end(2, ORIGIN_CLOSED);
	is(&before, "");
	is(&first, "run 1");
	is(&second, "run 2");
	touch();
	is(&(struct stat){.st_ctim = {INT32_MAX, 0}}, "after run 2");
}

static void test_several(void **state)
{
	struct stat both, job, one;

	(void)state;
	author(JOB, "job a");
	job = touch();
	author(1, "run 1");
	both = touch();
	end(1, ORIGIN_CLOSED);
	one = touch();
	end(JOB, ORIGIN_CLOSED);
	is(&job, "job a");
	is(&both, "run 1 or job a");
	is(&one, "job a");
}

/* What a run has left behind can write until it is gone. */
static void test_left(void **state)
{
	struct stat between, later, gone;

	(void)state;
	author(1, "run 1");
	end(1, ORIGIN_ENDED);
	between = touch();
	is(&between, "run 1"); /* nobody has looked yet */
	assert_true(origin_ended(&o));
	origin_look(&o, true, true);
	assert_false(origin_ended(&o));
	author(2, "run 2");
	later = touch();
	end(2, ORIGIN_ENDED);
	origin_look(&o, false, true);
	is(&later, "run 2 or run 1");
	assert_int_equal(o.nleft, 1);
	origin_look(&o, false, false);
	assert_int_equal(o.nleft, 0);
	step();
	author(3, "run 3");
	gone = touch();
	is(&gone, "run 3");
	is(&later, "run 2 or run 1");
	is(&between, "run 1");
}

static void test_client(void **state)
{
	struct stat st, both;

	(void)state;
	author(1, "run 1");
	end(1, ORIGIN_CLOSED);
	origin_request(&o);
	st = touch();
	origin_requested(&o);
	is(&st, "client");
	step();
	author(2, "run 2");
	origin_request(&o);
	both = touch();
	origin_requested(&o);
	is(&both, "client or run 2");
	step();
	both = touch();
	is(&both, "run 2");
	end(2, ORIGIN_CLOSED);
}

/* The host changes a name or attributes: who wrote it is the same; but not if something is written then. */
static void test_kept(void **state)
{
	struct origin_held held;
	struct stat st;

	(void)state;
	author(1, "run 1");
	st = touch();
	end(1, ORIGIN_CLOSED);
	for (unsigned i = 0; i < 2 * ORIGIN_NOTES; i++) {
		held = origin_hold(&o, &st);
		origin_request(&o);
		st = touch();
		origin_requested(&o);
		origin_keep(&o, held, &st);
		is(&st, "run 1");
	}
	step();
	origin_request(&o);
	st = touch();
	origin_requested(&o);
	is(&st, "client");
	assert_int_equal(origin_hold(&o, &st).text, 0);
}

static void test_unpacked(void **state)
{
	struct stat st, other;

	(void)state;
	author(1, "run 1");
	end(1, ORIGIN_CLOSED);
	origin_unpacking(&o);
	st = touch();
	assert_int_equal(origin_inherit(&o, st.st_ino, proto_cstr("run 4 of x or client")), 0);
	other = st;
	other.st_ino++;
	step();
	origin_unpacked(&o);
	is(&st, "run 4 of x or client");
	is(&other, "");
	step();
	author(2, "run 2");
	st = touch();
	end(2, ORIGIN_CLOSED);
	is(&st, "run 2");
	origin_unpacking(&o); /* again */
	is(&st, "run 2");
}

/* Over a directory of the host's there are times that are nobody's. */
static void test_over(void **state)
{
	(void)state;
	o.over = true;
	author(1, "run 1");
	end(1, ORIGIN_CLOSED);
	is(&(struct stat){.st_ctim = {INT32_MAX, 0}}, "");
	o.over = false;
	is(&(struct stat){.st_ctim = {INT32_MAX, 0}}, "after run 1");
}

/* There is an end to what is known: then it is said, and nobody else is named. */
static void test_many(void **state)
{
	struct stat first, last;
	char name[32];

	(void)state;
	author(1, "run 1");
	first = touch();
	end(1, ORIGIN_CLOSED);
	for (unsigned i = 2; i < 20000; i++) {
		snprintf(name, sizeof(name), "run %u", i);
		origin_author(&o, i, proto_cstr(name));
		origin_begin(&o, i);
		origin_end(&o, i, ORIGIN_CLOSED);
	}
	step();
	author(20000, "run 20000");
	last = touch();
	is(&first, "earlier");
	is(&last, "run 20000");
	assert_true(o.n <= ORIGIN_PERIODS && o.ntexts <= ORIGIN_TEXTS);
}

/* Those of the host alone do not push out runs. */
static void test_many_of_the_host(void **state)
{
	struct stat first;

	(void)state;
	author(1, "run 1");
	first = touch();
	end(1, ORIGIN_CLOSED);
	for (unsigned i = 0; i < 3 * ORIGIN_PERIODS; i++) {
		o.client_last = false;
		origin_request(&o);
		origin_requested(&o);
	}
	is(&first, "run 1");
}

static void test_names(void **state)
{
	char want[PROTO_ORIGIN_MAX + 1] = "", name[32];
	struct stat st;

	(void)state;
	/* One that is a part of another is there all the same. */
	author(1, "job client");
	origin_request(&o);
	st = touch();
	origin_requested(&o);
	is(&st, "client or job client");
	end(1, ORIGIN_CLOSED);
	for (unsigned i = 1; i <= 20; i++) {
		snprintf(name, sizeof(name), "job %u", i);
		author(JOB + i, name);
	}
	st = touch();
	for (unsigned i = 20; i > 14; i--)
		snprintf(want + strlen(want), sizeof(want) - strlen(want), "%sjob %u",
			 i == 20 ? "" : " or ", i);
	snprintf(want + strlen(want), sizeof(want) - strlen(want), " or others");
	is(&st, want);
}

/* One that never began is nobody; without a name it is not told to be another's. */
static void test_not_begun(void **state)
{
	struct stat st;

	(void)state;
	origin_author(&o, 1, proto_cstr("run 1"));
	origin_end(&o, 1, ORIGIN_ENDED);
	st = touch();
	is(&st, "");
	author(2, "run 2");
	end(2, ORIGIN_CLOSED);
	origin_author(&o, 3, proto_cstr(""));
	origin_begin(&o, 3);
	st = touch();
	is(&st, "earlier");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_one_after_the_other),
		T(test_several),
		T(test_left),
		T(test_client),
		T(test_kept),
		T(test_unpacked),
		T(test_over),
		T(test_many),
		T(test_many_of_the_host),
		T(test_names),
		T(test_not_begun),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
