/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping all user code, with processes that do what they can to go on. */
/* modules: agent/run/killer.c agent/run/freezer.c agent/core/proc.c agent/core/proc_signal.c agent/core/loop.c agent/core/log.c */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/run/freezer.h"
#include "agent/run/killer.h"
#include "agent/core/proc_signal.h"
#include "agent/core/util.h"
#include "tests/unit/fixture/patience.h"

#define SKIP	  77
#define PROCESSES 8
#define CROWD	  101

/* What each process has counted so far; shared with all of them. */
static atomic_uint *count;
static pid_t child[PROCESSES];
static unsigned nchildren;

static struct loop loop;
static struct freezer freezer;
static int answer; /* 1: there is none */

static void on_done(struct freezer *f, int err)
{
	assert_int_equal(f->state, err == 0 ? FREEZER_FROZEN : FREEZER_THAWED);
	assert_int_equal(answer, 1);
	answer = err;
	loop_stop(&loop, 0);
}

static int set_up(void **state)
{
	(void)state;
	count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(count != MAP_FAILED);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(loop_init(&loop), 0);
	freezer = (struct freezer){.loop = &loop, .done = on_done};
	nchildren = 0;
	answer = 1;
	return 0;
}

static int tear_down(void **state)
{
	uint64_t as_of;

	(void)state;
	freezer_thaw(&freezer);
	/* One that forks away may be overlooked once, where numbers of processes begin anew. */
	for (;;) {
		const pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0)
			break;
		if (pid == 0)
			proc_kill(NULL, &as_of);
	}
	signal(SIGCHLD, SIG_DFL);
	loop_fini(&loop);
	loop = (struct loop){0};
	munmap(count, 4096);
	return 0;
}

static void nap(unsigned ms)
{
	const struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};

	nanosleep(&t, NULL);
}

/* Starts a process that does @what with its number. */
static unsigned start(void (*what)(unsigned n))
{
	const unsigned n = nchildren++;

	assert_true(n < PROCESSES);
	child[n] = fork();
	assert_true(child[n] >= 0);
	if (child[n] == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		what(n);
		_exit(0);
	}
	return n;
}

static void await_progress(unsigned n)
{
	const unsigned was = count[n];

	for (unsigned ms = 0; count[n] == was; ms++) {
		assert_true((int)ms < patience_ms());
		nap(1);
	}
}

static void await_stop(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
}

static void freeze(int want)
{
	answer = 1;
	loop.stop = false;
	assert_int_equal(freezer_start(&freezer), 0);
	assert_int_equal(loop_run(&loop), 0);
	assert_int_equal(answer, want);
}

/* That one was in the way, for that reason; none if that is not known. */
static void expect_obstacle(enum proto_unstopped why, unsigned n, const char *name)
{
	const struct obstacle *o = &freezer.obstacle;

	assert_int_equal(o->why, why);
	if (why != PROTO_UNSTOPPED_UNKNOWN)
		assert_int_equal(o->who.pid, child[n]);
	assert_string_equal(o->name, name);
}

/* Nothing is counted for long enough that something would have been. */
static void expect_standstill(void)
{
	unsigned was[PROCESSES];

	for (unsigned i = 0; i < PROCESSES; i++)
		was[i] = count[i];
	nap(100);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(count[i], was[i]);
}

/* ---- what they do ---- */

static void counts(unsigned n)
{
	for (;; nap(1))
		count[n]++;
}

static void counts_busily(unsigned n)
{
	for (;;)
		count[n]++;
}

static void *counts_in_thread(void *arg)
{
	counts(*(unsigned *)arg);
	return NULL;
}

/* Only the second thread goes on: its leader has ended. */
static void counts_without_leader(unsigned n)
{
	static unsigned number;
	pthread_t thread;

	number = n;
	if (pthread_create(&thread, NULL, counts_in_thread, &number) == 0)
		pthread_exit(NULL);
}

/* Each process counts once, and is followed by its child: always another one. */
static void forks_away(unsigned n)
{
	for (;;) {
		const pid_t pid = fork();

		if (pid > 0)
			_exit(0);
		if (pid == 0)
			setsid();
		count[n]++;
	}
}

/* Out of sight of whoever looks for its parent's children. */
static void counts_detached(unsigned n)
{
	if (fork() == 0) {
		setsid();
		counts(n);
	}
}

static void on_continue(int number)
{
	(void)number;
}

/* The kernel sends it what wakes it up, again and again. */
static void wakes_itself(unsigned n)
{
	struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
	const struct itimerspec when = {{0, 200000000}, {0, 200000000}};
	timer_t timer;

	signal(SIGCONT, on_continue);
	if (timer_create(CLOCK_MONOTONIC, &how, &timer) == 0 &&
	    timer_settime(timer, 0, &when, NULL) == 0)
		counts(n);
}

static void is_woken(unsigned n)
{
	prctl(PR_SET_NAME, "awake");
	signal(SIGCONT, on_continue);
	counts(n);
}

/* Waits in the kernel for a child that neither ends nor becomes another program: no signal but SIGKILL
 * gets it out of there. */
static void cannot_be_stopped(unsigned n)
{
	prctl(PR_SET_NAME, "stuck");
	if (vfork() == 0) {   /* NOLINT: what is not done with it is the point */
		count[n] = 1; /* NOLINT */
		for (;;)
			pause();
	}
}

/* ---- tests ---- */

static void test_all_kinds(void **state)
{
	void (*const kinds[])(unsigned) = {counts, counts_busily, counts_without_leader, forks_away,
					   counts_detached};

	(void)state;
	signal(SIGCHLD, SIG_IGN); /* who has ended is gone, as where the agent reaps */
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		await_progress(start(kinds[i]));
	for (unsigned round = 0; round < 3; round++) {
		freeze(0);
		expect_standstill();
		assert_int_equal(freezer_check(&freezer), 0);
		freezer_thaw(&freezer);
		assert_int_equal(freezer.state, FREEZER_THAWED);
		for (unsigned i = 0; i < nchildren; i++)
			await_progress(i);
	}
}

static void on_killed(struct killer *k)
{
	(void)k;
	answer = 0;
	loop_stop(&loop, 0);
}

/* One with many others, who do nothing. */
static void idles_in_a_crowd(unsigned n)
{
	for (unsigned i = 1; i < CROWD && fork() > 0; i++)
		;
	for (count[n]++;; pause())
		;
}

/* Who is always another one by the time that he is looked at is found all the same, also among those that
 * stay. */
static void test_killed(void **state)
{
	struct killer killer = {.loop = &loop, .done = on_killed};
	struct proc_set keep = {0};
	unsigned crowd;

	(void)state;
	signal(SIGCHLD, SIG_IGN);
	crowd = start(idles_in_a_crowd);
	while (count[crowd] < CROWD)
		await_progress(crowd);
	assert_int_equal(proc_scan(&keep), 0);
	for (unsigned round = 0; round < 20; round++) {
		nchildren = 1;
		await_progress(start(forks_away));
		loop.stop = false;
		answer = 1;
		killer_start(&killer, &(struct proc_scope){.keep = &keep}, 0);
		assert_int_equal(loop_run(&loop), 0);
		assert_int_equal(answer, 0);
		expect_standstill();
	}
	proc_set_clear(&keep);
}

static void test_nobody(void **state)
{
	(void)state;
	freeze(0);
	assert_int_equal(freezer_check(&freezer), 0);
	freezer_thaw(&freezer);
	freezer_thaw(&freezer);
}

/* What somebody has stopped for reasons of his own stays so. */
static void test_stopped_before(void **state)
{
	unsigned still = start(counts), other = start(counts), was;

	(void)state;
	await_progress(still);
	await_progress(other);
	kill(child[still], SIGSTOP);
	await_stop(child[still]);
	was = count[still];
	freeze(0);
	expect_standstill();
	freezer_thaw(&freezer);
	await_progress(other);
	nap(50);
	assert_int_equal(count[still], was);
	kill(child[still], SIGCONT);
	await_progress(still);
}

/* ... and is nothing that runs; but when it is let go on meanwhile, that is seen. */
static void test_continued_meanwhile(void **state)
{
	unsigned still = start(counts);

	(void)state;
	await_progress(still);
	kill(child[still], SIGSTOP);
	await_stop(child[still]);
	freeze(0);
	kill(child[still], SIGCONT);
	await_progress(still);
	assert_int_equal(freezer_check(&freezer), -ECANCELED);
}

/* Let go on after it was found stopped, and before it was our turn: then it is we who have stopped it. */
static void test_continued_on_the_way(void **state)
{
	unsigned still = start(counts);

	(void)state;
	await_progress(still);
	kill(child[still], SIGSTOP);
	await_stop(child[still]);
	answer = 1;
	loop.stop = false;
	assert_int_equal(freezer_start(&freezer), 0);
	kill(child[still], SIGCONT);
	await_progress(still);
	assert_int_equal(loop_run(&loop), 0);
	assert_int_equal(answer, 0);
	freezer_thaw(&freezer);
	await_progress(still);
}

static void test_wakes_itself(void **state)
{
	unsigned n = start(wakes_itself);

	(void)state;
	await_progress(n);
	freeze(0);
	await_progress(n);
	assert_int_equal(freezer_check(&freezer), -ECANCELED);
	freezer_thaw(&freezer);
	await_progress(n);
}

/* Somebody who ended has run, too. */
static void test_killed_meanwhile(void **state)
{
	unsigned n = start(counts);

	(void)state;
	await_progress(n);
	freeze(0);
	assert_int_equal(freezer_check(&freezer), 0);
	kill(child[n], SIGKILL);
	assert_int_equal(waitpid(child[n], NULL, 0), child[n]);
	assert_int_equal(freezer_check(&freezer), -ECANCELED);
}

static void test_cannot_be_stopped(void **state)
{
	unsigned stuck = start(cannot_be_stopped), other = start(counts);

	(void)state;
	await_progress(other);
	while (!count[stuck])
		nap(1);
	freeze(-EBUSY);
	expect_obstacle(PROTO_UNSTOPPED_WAITS, stuck, "stuck");
	await_progress(other);
	kill(child[stuck], SIGKILL);
	assert_int_equal(waitpid(child[stuck], NULL, 0), child[stuck]);
	freeze(0);
	expect_obstacle(PROTO_UNSTOPPED_UNKNOWN, 0, "");
}

static void (*look)(struct loop_timer *t);
static unsigned woken;

/* As a timer would, whenever all were stopped. */
static void wake(struct loop_timer *t)
{
	kill(child[woken], SIGCONT);
	await_progress(woken);
	look(t);
}

/* Who is in the way is found among others who only come late to their stop. */
static void test_always_awake(void **state)
{
	unsigned other = start(counts);

	(void)state;
	woken = start(is_woken);
	await_progress(other);
	await_progress(woken);
	answer = 1;
	loop.stop = false;
	assert_int_equal(freezer_start(&freezer), 0);
	look = freezer.timer.fire;
	freezer.timer.fire = wake;
	assert_int_equal(loop_run(&loop), 0);
	assert_int_equal(answer, -EBUSY);
	expect_obstacle(PROTO_UNSTOPPED_WOKEN, woken, "awake");
	await_progress(other);
	await_progress(woken);
}

static void test_thawed_on_the_way(void **state)
{
	unsigned stuck = start(cannot_be_stopped), other = start(counts);

	(void)state;
	await_progress(other);
	while (!count[stuck])
		nap(1);
	assert_int_equal(freezer_start(&freezer), 0);
	freezer.timer.fire(&freezer.timer);
	freezer_thaw(&freezer);
	assert_int_equal(answer, 1);
	assert_false(freezer.timer.armed);
	await_progress(other);
}

/* Not by exit(): a sanitizer looks for leaks there, with a process of its own that traces this one. The first
 * of a PID namespace can't be traced from within, and where that has ended, nobody can be made any more. */
static void end(int status)
{
	fflush(NULL);
	(void)syscall(SYS_exit_group, status);
}

/* In a place of its own, where numbers of processes are few and nothing outlives the test. Return: the
 * status of what was done there. */
static int run_alone(int (*what)(void))
{
	int status = 0;
	pid_t pid;

	if (unshare((geteuid() ? CLONE_NEWUSER : 0) | CLONE_NEWPID | CLONE_NEWNS) < 0)
		return SKIP;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("proc", "/proc", "proc", 0, NULL) < 0)
			_exit(SKIP);
		end(what());
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return 1;
	return WEXITSTATUS(status);
}

static int test_all(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		test(test_all_kinds),
		test(test_killed),
		test(test_nobody),
		test(test_stopped_before),
		test(test_continued_meanwhile),
		test(test_continued_on_the_way),
		test(test_wakes_itself),
		test(test_killed_meanwhile),
		test(test_cannot_be_stopped),
		test(test_always_awake),
		test(test_thawed_on_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	int r = run_alone(test_all);

	if (r == SKIP)
		printf("this host lets nobody have processes of his own\n");
	end(r);
}
