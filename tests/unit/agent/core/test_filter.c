/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of user code that shares the agent's id: what reaches the agent by the number of a thread. */
/* modules: agent/core/filter.c */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/core/filter.h"

/* This process is the agent; its thread waits for a lock. */
static pthread_barrier_t barrier;
static pid_t thread_id;

static void *wait_thread(void *arg)
{
	(void)arg;
	thread_id = gettid();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static int set_limit(pid_t whose)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	return prlimit(whose, RLIMIT_NOFILE, &limit, NULL) < 0 ? -errno : 0;
}

static int get_limit(pid_t whose)
{
	struct rlimit limit;

	return prlimit(whose, RLIMIT_NOFILE, NULL, &limit) < 0 ? -errno : 0;
}

/* User code. Return: the line of the first thing that is not as it should be, or 0. */
#define check(what)                      \
	do {                             \
		if (!(what))             \
			return __LINE__; \
	} while (0)

static int user_code(void)
{
	const pid_t agent = getppid();
	struct rlimit limit;

	/* Without the filter it could: they share an id. */
	check(set_limit(agent) == 0 && set_limit(thread_id) == 0);
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	check(filter_confine(FILTER_AGENT | FILTER_LIMITS) == 0);
	check(set_limit(thread_id) == -EPERM);
	check(set_limit(agent) == -EPERM);
	check(set_limit(1) == -EPERM && get_limit(1) == -EPERM);
	/* What programs do all the time. */
	check(set_limit(0) == 0 && get_limit(0) == 0);
	check(get_limit(getpid()) == 0);
	check(getrlimit(RLIMIT_CORE, &limit) == 0 && setrlimit(RLIMIT_CORE, &limit) == 0);
	/* The pointer's upper half counts, too. */
	check(syscall(SYS_prlimit64, thread_id, RLIMIT_NOFILE, 1ul << 32, NULL) < 0 &&
	      errno == EPERM);
	/* Process 1 as before. */
	check(kill(1, 0) < 0 && errno == EPERM);
	check(setpriority(PRIO_PROCESS, 1, 0) < 0 && errno == EPERM);
	check(setpriority(PRIO_USER, getuid(), 0) < 0 && errno == EPERM);
	check(setpriority(PRIO_PROCESS, 0, 0) == 0);
	return 0;
}

static void test_threads_of_the_agent(void **state)
{
	pthread_t thread;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_thread, NULL), 0);
	pthread_barrier_wait(&barrier);
	pid = fork();
	if (pid == 0) {
		int line = user_code();

		if (line)
			fprintf(stderr, "%s:%d\n", __FILE__, line);
		_exit(line != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_of_the_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
