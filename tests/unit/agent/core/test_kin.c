/* SPDX-License-Identifier: Apache-2.0 */
/* Whose child a process is, says which stream it has: whoever asks first, and whatever else has a number. */
/* modules: agent/core/kin.c agent/core/chacha.c agent/core/proc.c */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/core/kin.h"

#define CHILDREN 4

static struct kin_all all;

static pid_t child(void)
{
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		for (;;)
			pause();
	}
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Four children of ours, the interpreter, who ask last first if @backward; @more: others get numbers as well. */
static void draw(uint32_t run, bool backward, bool more, uint8_t keys[CHILDREN + 1][CHACHA_KEY])
{
	uint8_t seed[CHACHA_KEY];
	pid_t pids[CHILDREN];

	kin_run(&all, run, seed);
	for (unsigned i = 0; i < CHILDREN; i++) {
		kin_fork(&all, getpid(), 0);
		pids[i] = child();
		if (more)
			end(child()); /* which nobody has heard of, as of a thread */
	}
	for (unsigned k = 0; k < CHILDREN; k++) {
		const unsigned i = backward ? CHILDREN - 1 - k : k;
		const struct kin *kin = kin_find(&all, pids[i], 0);

		assert_non_null(kin);
		memcpy(keys[i], kin->key, CHACHA_KEY);
	}
	memcpy(keys[CHILDREN], kin_find(&all, getpid(), 0)->key, CHACHA_KEY);
	for (unsigned i = 0; i < CHILDREN; i++)
		end(pids[i]);
}

static void begin(uint8_t seed)
{
	memset(&all, 0, sizeof(all));
	all.key[0] = seed;
	kin_interp(&all, getpid());
}

static void children(void **state)
{
	uint8_t one[CHILDREN + 1][CHACHA_KEY], other[CHILDREN + 1][CHACHA_KEY];

	(void)state;
	begin(1);
	draw(1, false, false, one);
	for (unsigned i = 0; i <= CHILDREN; i++) {
		for (unsigned k = 0; k < i; k++)
			assert_memory_not_equal(one[i], one[k], CHACHA_KEY);
	}
	begin(1);
	draw(1, true, false, other);
	assert_memory_equal(one, other, sizeof(one));
	begin(1);
	draw(1, false, true, other);
	assert_memory_equal(one, other, sizeof(one));
	draw(2, false, false, other);
	for (unsigned i = 0; i <= CHILDREN; i++)
		assert_memory_not_equal(one[i], other[i], CHACHA_KEY);
	draw(1, false, false, other); /* whatever was before */
	assert_memory_equal(one, other, sizeof(one));
	begin(2);
	draw(1, false, false, other);
	for (unsigned i = 0; i <= CHILDREN; i++)
		assert_memory_not_equal(one[i], other[i], CHACHA_KEY);
}

static void interpreters(void **state)
{
	uint8_t seed[CHACHA_KEY], same[CHACHA_KEY], start[CHACHA_KEY];

	(void)state;
	begin(3);
	memcpy(start, kin_find(&all, getpid(), 0)->key, sizeof(start));
	assert_true(kin_run(&all, 4, seed));
	assert_false(kin_run(&all, 5, same));
	kin_interp(&all, getpid()); /* another one, at the same run */
	assert_true(kin_run(&all, 4, same));
	assert_memory_equal(seed, same, sizeof(seed));
	assert_memory_not_equal(start, kin_find(&all, getpid(), 0)->key, sizeof(start));
}

static void jobs(void **state)
{
	uint8_t key[CHACHA_KEY];
	const pid_t one = child(), other = child();

	(void)state;
	begin(4);
	memcpy(key, kin_find(&all, one, 7)->key, sizeof(key));
	assert_memory_not_equal(key, kin_find(&all, other, 7)->key, sizeof(key));
	begin(4);
	assert_memory_equal(key, kin_find(&all, other, 7)->key, sizeof(key));
	assert_memory_not_equal(key, kin_find(&all, one, 8)->key, sizeof(key));
	end(one);
	end(other);
	assert_null(kin_find(&all, one + 0x3000000, 8)); /* past the largest number */
}

/* More of them than are remembered: those that have ended are forgotten first. */
static void many(void **state)
{
	uint8_t seed[CHACHA_KEY], key[CHACHA_KEY];

	(void)state;
	begin(5);
	kin_run(&all, 1, seed);
	memcpy(key, kin_find(&all, getpid(), 0)->key, sizeof(key));
	for (unsigned i = 0; i < KIN_MAX + 40; i++) {
		pid_t pid;

		kin_fork(&all, getpid(), 0);
		pid = child();
		assert_non_null(kin_find(&all, pid, 0));
		end(pid);
	}
	assert_true(all.n <= KIN_MAX);
	assert_memory_equal(key, kin_find(&all, getpid(), 0)->key, sizeof(key));
	assert_int_equal(kin_find(&all, getpid(), 0)->forks, KIN_MAX + 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children),
		cmocka_unit_test(interpreters),
		cmocka_unit_test(jobs),
		cmocka_unit_test(many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
