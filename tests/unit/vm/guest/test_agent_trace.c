/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say of a run: how it gets into the log, and what a hostile one can make of that. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"
#include "vm/base/log.h"
#include "vm/guest/agent_trace.h"

#define SECOND 1000000000ull

/* ---- one frame ---- */

static int take(struct agent_trace *t, uint32_t id, uint64_t us, const void *words, size_t len,
		uint64_t now, struct agent_trace_line *ret_line)
{
	uint8_t bytes[1024];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct proto_in in;

	put_u64(&o, us);
	put_str(&o, (struct proto_str){words, (uint32_t)len});
	in = (struct proto_in){bytes, bytes + o.len, false};
	return agent_trace_take(t, id, &in, now, ret_line);
}

static void words(void **state)
{
	struct agent_trace t = {0};
	struct agent_trace_line l;
	char all[PROTO_TRACED_MAX + 1];

	(void)state;
	assert_int_equal(take(&t, 0, 0, "a step", 6, SECOND, &l), 1);
	assert_string_equal(l.text, "a step");
	assert_int_equal(take(&t, 0, 0, "", 0, SECOND, &l), 1);
	assert_string_equal(l.text, "");
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (char)(i * 7);
	assert_int_equal(take(&t, 0, 0, all, PROTO_TRACED_MAX, SECOND, &l), 1);
	assert_int_equal(strlen(l.text), PROTO_TRACED_MAX);
	for (const char *c = l.text; *c; c++)
		assert_true(*c >= ' ' && *c < 0x7f);
	assert_int_equal(take(&t, 0, 0, "a\n\0\x1b[1m\xe2\x82\xac", 10, SECOND, &l), 1);
	assert_string_equal(l.text, "a???[1m???");
	assert_int_equal(take(&t, 0, 0, all, PROTO_TRACED_MAX + 1, SECOND, &l), -EPROTO);
}

/* Each length of a frame but the right one is a mistake. */
static void lengths(void **state)
{
	uint8_t bytes[64] = {0};
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct agent_trace t = {0};
	struct agent_trace_line l;

	(void)state;
	put_u64(&o, 1);
	put_str(&o, proto_cstr("step"));
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		struct proto_in in = {bytes, bytes + len, false};

		assert_int_equal(agent_trace_take(&t, 0, &in, SECOND, &l),
				 len == o.len ? 1 : -EPROTO);
	}
}

/* No line is from before it was asked for, or from the future. */
static void times(void **state)
{
	struct agent_trace t = {.greeted = SECOND, .asked = 2 * SECOND, .run = 3};
	struct agent_trace_line l;

	(void)state;
	assert_int_equal(take(&t, 0, 500, "", 0, 3 * SECOND, &l), 1);
	assert_int_equal(l.at, SECOND + 500000);
	assert_int_equal(take(&t, 3, 500, "", 0, 3 * SECOND, &l), 1);
	assert_int_equal(l.at, 2 * SECOND + 500000);
	assert_int_equal(take(&t, 4, 500, "", 0, 3 * SECOND, &l), 1);
	assert_int_equal(l.at, SECOND + 500000);
	for (unsigned bit = 0; bit < 64; bit++) {
		assert_int_equal(take(&t, 3, 1ull << bit, "", 0, 3 * SECOND, &l), 1);
		assert_true(l.at >= 2 * SECOND && l.at <= 3 * SECOND);
	}
}

static void rate(void **state)
{
	struct agent_trace t = {0};
	struct agent_trace_line l;
	uint64_t now = 5 * SECOND;
	unsigned got = 0;

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		got += take(&t, 0, 0, "x", 1, now, &l) == 1;
	assert_int_equal(got, AGENT_TRACE_BURST);
	now += AGENT_TRACE_EVERY_NS;
	assert_int_equal(take(&t, 0, 0, "x", 1, now, &l), 1);
	assert_int_equal(l.lost, 10000 - AGENT_TRACE_BURST);
	assert_int_equal(take(&t, 0, 0, "x", 1, now, &l), 0);
	now += 3600 * SECOND;
	got = 0;
	for (unsigned i = 0; i < 10000; i++)
		got += take(&t, 0, 0, "x", 1, now, &l) == 1;
	assert_int_equal(got, AGENT_TRACE_BURST);
	/* However it asks: over a time there are no more. */
	got = 0;
	for (unsigned i = 0; i < 100000; i++, now += AGENT_TRACE_EVERY_NS / 10)
		got += take(&t, 0, 0, "x", 1, now, &l) == 1;
	assert_true(got <= 10000 + AGENT_TRACE_BURST && got > 5000);
}

/* ---- on its way through a guest ---- */

static int ends[2];
static char said[65536];

static int set_up(void **state)
{
	const int r = sandbox_fixture_setup(state);

	if (r != 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	log_open(LOG_LEVEL_DEBUG);
	log_relay(ends[1]);
	return 0;
}

static int tear_down(void **state)
{
	int r = sandbox_fixture_teardown(state);

	log_relay(-1);
	close(ends[0]);
	close(ends[1]);
	log_open(LOG_LEVEL_INFO);
	return r;
}

static const char *log_so_far(void)
{
	const ssize_t n = read(ends[0], said, sizeof(said) - 1);

	said[MAX(n, 0)] = '\0';
	return said;
}

static void send_traced(uint32_t id, const char *text)
{
	uint8_t bytes[512];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u64(&o, 1000);
	put_str(&o, proto_cstr(text));
	fake_send(PROTO_TRACED, 0, id, bytes, o.len);
}

static uint32_t flags_of_run(void)
{
	struct fake_frame *f = fake_expect(PROTO_RUN);
	struct proto_in in = payload(f);
	struct proto_run r;

	assert_int_equal(proto_run_unpack(&in, &r), 0);
	fake_free(f);
	return r.flags;
}

static void through_a_guest(void **state)
{
	const char *line;

	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	assert_true(flags_of_run() & PROTO_RUN_TRACE);
	log_so_far();
	send_traced(1, "step\n3spawner: process 1 ended, signal 9\n0error");
	send_exit(1, PROTO_HOW_DONE, 0);
	until(&seen[0], SANDBOX_READY);
	line = strstr(log_so_far(), "agent: step?3spawner: process 1 ended, signal 9?0error\n");
	assert_non_null(line);
	assert_null(strstr(said, "\n3spawner"));
	/* The console is the session's, and not for this. */
	assert_int_equal(seen[0].console.len, 0);

	/* It is off: what comes all the same is not written, but has to be right. */
	log_open(LOG_LEVEL_INFO);
	log_so_far();
	run_one(&seen[0], 2);
	assert_false(flags_of_run() & PROTO_RUN_TRACE);
	send_traced(2, "step");
	send_exit(2, PROTO_HOW_DONE, 0);
	until(&seen[0], SANDBOX_READY);
	assert_string_equal(log_so_far(), "");
	fake_send(PROTO_TRACED, 0, 2, "short", 5);
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_AGENT_PROTOCOL);
}

/* Of thousands of lines at once the log has some, and says of how many it has not. */
static void flood(void **state)
{
	const char *p, *out;
	unsigned n = 0, lost = 0, last = 0;

	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	log_so_far();
	for (unsigned i = 0; i < 2000; i++)
		send_traced(1, "flood");
	fake_settle();
	usleep(2 * AGENT_TRACE_EVERY_NS / 1000);
	for (unsigned i = 0; i < 1000; i++)
		send_traced(1, "flood");
	send_exit(1, PROTO_HOW_DONE, 0);
	until(&seen[0], SANDBOX_READY);
	for (p = log_so_far(); (p = strstr(p, "agent: flood")); p++)
		n++;
	for (p = said; (out = strstr(p, " lines of the agent's are left out")); p = out + 1) {
		while (out > said && out[-1] >= '0' && out[-1] <= '9')
			out--;
		last = (unsigned)strtoul(out, NULL, 10);
		lost += last;
		assert_true(strncmp(out - strlen("guest: "), "guest: ", 7) == 0);
		out = strchr(out, '\n');
	}
	assert_true(n > AGENT_TRACE_BURST);
	assert_int_equal(n + lost, 3000);
	/* What comes behind the last line that was taken is told as well, by the end of the run. */
	assert_true(last > 0 && !strstr(p, "agent: flood"));
	close_it(&seen[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words),
		cmocka_unit_test(lengths),
		cmocka_unit_test(times),
		cmocka_unit_test(rate),
		cmocka_unit_test_setup_teardown(through_a_guest, set_up, tear_down),
		cmocka_unit_test_setup_teardown(flood, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
