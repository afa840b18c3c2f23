/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal of a job, with somebody who shows more than can ever be read. */
/* modules: agent/job/tty.c agent/core/loop.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/core/conn.h"
#include "agent/core/guest_env.h"
#include "agent/core/util.h"
#include "agent/job/tty.h"
#include "agent/output/stream.h"

#define MUCH (1 << 20)

static const struct guest_env env;
static struct loop loop;
static struct output output;
static struct tty tty;
static int slave;
static bool full;
static size_t shown;

bool conn_full(const struct conn *c)
{
	(void)c;
	return full;
}

int stream_put(struct stream *s, const void *data, size_t len)
{
	const size_t n = MIN(len, (size_t)s->limit_left);

	(void)data;
	shown += len;
	s->limit_left -= n;
	s->output->credit -= n;
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	alarm(30); /* what does not come back */
	assert_int_equal(loop_init(&loop), 0);
	output = (struct output){.loop = &loop, .credit = MUCH};
	for (int i = 0; i < 2; i++)
		output.out[i] = (struct stream){.output = &output, .limit_left = MUCH};
	tty = (struct tty){.master.fd = -1, .output = &output};
	assert_int_equal(tty_open(&tty, &env, 24 << 16 | 80, &slave), 0);
	full = false;
	shown = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tty_close(&tty);
	assert_null(loop.timers);
	close_fd(&slave);
	loop_fini(&loop);
	return 0;
}

/* As if somebody wrote faster than it is read. */
static void never_empty(void)
{
	const int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	assert_true(zero >= 0);
	assert_int_equal(dup3(zero, tty.master.fd, O_CLOEXEC), tty.master.fd);
	close(zero);
	tty.master.events = 0;
}

/* It comes back, and goes on later; past the limit as well. */
static void in_turns(void **state)
{
	size_t before;

	(void)state;
	output.out[0].limit_left = 1000;
	never_empty();
	tty.master.ready(&tty.master, EPOLLIN);
	for (int i = 0; i < 3; i++) {
		assert_in_range(shown, 1, MUCH);
		assert_true(tty.again.armed);
		before = shown;
		tty.again.fire(&tty.again);
		assert_true(shown > before);
	}
}

/* What it has to wait for brings it on; else nothing is read. */
static void waits(void **state)
{
	size_t before;

	(void)state;
	never_empty();
	tty_resume(&tty);
	assert_int_equal(shown, 0);
	full = true;
	tty.master.ready(&tty.master, EPOLLIN);
	assert_int_equal(shown, 0);
	assert_false(tty.again.armed);
	full = false;
	tty_resume(&tty);
	assert_true(shown > 0);
	loop_disarm(&loop, &tty.again);
	before = shown;
	tty_resume(&tty);
	assert_int_equal(shown, before);
	output.credit = 10;
	tty.master.ready(&tty.master, EPOLLIN);
	assert_int_equal(shown, before + 10);
	assert_false(tty.again.armed);
}

/* After the end no more is taken than there can have been. */
static void ends(void **state)
{
	(void)state;
	never_empty();
	tty_settle(&tty);
	output.credit = 100;
	assert_false(tty_drain(&tty));
	assert_int_equal(shown, 100);
	output.credit = MUCH;
	assert_true(tty_drain(&tty));
	assert_in_range(shown, 4096, 65536);
	assert_false(tty.again.armed);
}

/* All that the kernel keeps is taken. */
static void kept(void **state)
{
	static const size_t sizes[] = {1, 7, 2048, 65536};
	static char some[65536];
	size_t wrote;
	ssize_t n;

	(void)state;
	memset(some, 'x', sizeof(some));
	assert_int_equal(fcntl(slave, F_SETFL, O_NONBLOCK), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		wrote = shown = 0;
		while ((n = write(slave, some, sizes[i])) > 0)
			wrote += (size_t)n;
		assert_int_equal(errno, EAGAIN);
		print_message("%zu bytes, written in pieces of %zu\n", wrote, sizes[i]);
		tty_settle(&tty);
		assert_true(tty_drain(&tty));
		assert_int_equal(shown, wrote);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_turns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ends, set_up, tear_down),
		cmocka_unit_test_setup_teardown(kept, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
