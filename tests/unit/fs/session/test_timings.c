/* SPDX-License-Identifier: Apache-2.0 */
/* How long things took: each histogram has a name of its own, by which the next daemon finds it. */
/* modules: fs/session/timings.c vm/base/histogram.c vm/base/record.c vm/base/buf.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/session/timings.h"

/* Instead of run.c, which would bring the whole mount. */
const char *run_state_str(enum run_state state)
{
	static const char *const names[] = {"queued", "running", "done", "timeout",
					    "killed", "oom",	 "lost", "refused"};

	return names[state];
}

static void fill(struct timings *t)
{
	struct run r = {.submitted = {100, 0}, .started = {102, 0}, .ended = {103, 500000000}};

	timings_start(t, "warm", "process", 10, 0);
	timings_start(t, "saved", "local", 10, 5000000);
	timings_start(t, "no such way", "process", 10, 5000000);
	timings_sent(t, &r);
	for (unsigned s = RUN_DONE; s < RUN_NSTATES; s++) {
		r.state = (enum run_state)s;
		*r.job = '\0';
		timings_ended(t, &r, "python");
		timings_ended(t, &r, "something else");
		strcpy(r.job, "name");
		timings_ended(t, &r, "");
	}
	for (unsigned op = 0; op < VM_NFILEOPS; op++)
		for (unsigned by = 0; by < TIMING_NBYS; by++)
			timings_file(t, (enum vm_file_op)op, (enum timing_by)by, op);
}

struct all {
	struct buf text, records;
	unsigned n, at[TIMING_NFAMILIES];
};

static int take(void *data, const struct timing *of)
{
	struct all *a = data;
	char name[160];
	size_t at;

	snprintf(name, sizeof(name), "\n%s{%s}\n", timings_name(of->family), of->labels);
	assert_null(strstr(buf_str(&a->text), name));
	buf_printf(&a->text, "%s", name);
	at = record_begin(&a->records, 1, 0);
	timings_put(of, &a->records);
	assert_int_equal(record_end(&a->records, at), 0);
	a->n++;
	a->at[of->family]++;
	return 0;
}

static void test_names(void **state)
{
	struct timings t = {0};
	struct all a = {0};

	(void)state;
	fill(&t);
	assert_int_equal(timings_each(&t, take, &a), 0);
	assert_int_equal(a.at[TIMING_START], 2);
	assert_int_equal(a.at[TIMING_PLACE], 1);
	assert_int_equal(a.at[TIMING_WAIT], 1);
	assert_int_equal(a.at[TIMING_RUN],
			 2 * (TIMING_STATES - 1)); /* who was refused took no time */
	assert_int_equal(a.at[TIMING_JOB], TIMING_STATES - 1);
	assert_int_equal(a.at[TIMING_FILE], 3 * 24);
	assert_non_null(strstr(buf_str(&a.text), "{start=\"saved\",backend=\"other\"}"));
	assert_non_null(strstr(buf_str(&a.text), "{language=\"other\",state=\"lost\"}"));
	assert_non_null(strstr(buf_str(&a.text), "{op=\"drop_locks\",by=\"saved\"}"));
	assert_int_equal(t.run[0][0].sum_us, 1500000);
	assert_int_equal(t.wait[0].sum_us, 2000000);
	buf_clear(&a.text);
	buf_clear(&a.records);
}

static void test_the_next_daemon(void **state)
{
	struct timings t = {0}, there = {0};
	struct record_reader r;
	struct all a = {0};
	struct record rec;
	struct buf other = {0};

	(void)state;
	fill(&t);
	(void)timings_each(&t, take, &a);
	r = record_reader(a.records.data, a.records.len);
	while (record_next(&r, &rec) > 0)
		assert_int_equal(timings_get(&there, rec.fields), 0);
	assert_memory_equal(&t, &there, sizeof(t));

	/* Of a version that counts something else. */
	record_str(&other, 1, "no_such_seconds");
	record_str(&other, 2, "op=\"read\"");
	record_close(&other, record_open(&other, 3));
	assert_int_equal(timings_get(&there, record_reader(other.data, other.len)), 0);
	assert_memory_equal(&t, &there, sizeof(t));
	buf_clear(&other);
	buf_clear(&a.text);
	buf_clear(&a.records);
}

static void test_stops(void **state)
{
	struct timings t = {0};
	struct run r = {.state = RUN_DONE};

	(void)state;
	timings_ended(&t, &r, "python"); /* it never began */
	r = (struct run){.state = RUN_DONE, .started = {100, 0}, .ended = {99, 0}};
	timings_ended(&t, &r, "python"); /* the clock was set back */
	assert_int_equal(histogram_count(&t.run[0][0]), 1);
	assert_int_equal(t.run[0][0].sum_us, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_the_next_daemon),
		cmocka_unit_test(test_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
