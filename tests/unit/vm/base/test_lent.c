/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors are lent to another process by number, and are all there for who comes after this one. */
/* modules: tests/unit/fixture/pipes.c vm/base/lent.c vm/base/fdbag.c vm/base/fdpass.c vm/jail/seccomp.c vm/spawn/holder.c */
/* libs: seccomp */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/pipes.h"
#include "vm/base/fdbag.h"
#include "vm/base/fdpass.h"
#include "vm/base/lent.h"
#include "vm/spawn/holder.h"

#define MANY 50 /* more than one packet has room for */

/* So many messages with descriptors can't be sent: there are too many on their way. */
static int crowded;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (message->msg_controllen && crowded > 0) {
		crowded--;
		errno = ETOOMANYREFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

static int control;
static pid_t holder;

static int setup(void **state)
{
	(void)state;
	holder = holder_start(&control);
	return holder > 0 ? 0 : -1;
}

static int teardown(void **state)
{
	int status;

	(void)state;
	lent_end();
	close(control);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_int_equal(status, 0); /* it ended by itself, in good order */
	return 0;
}

static bool is_held(int writing)
{
	struct pollfd p = {.fd = writing, .events = POLLERR};

	return poll(&p, 1, 50) == 0 || !(p.revents & POLLERR);
}

static void inherit(struct fdbag *bag)
{
	*bag = (struct fdbag){.owned = true};
	assert_int_equal(lent_inherit(holder_admit(control), fdbag_set, bag), 0);
}

static void nothing_is_lent(void **state)
{
	int other, fd = pipe_new(&other);

	(void)state;
	assert_int_equal(lent_put(fd), 0);
	assert_int_equal(lent_failed(), 0);
	lent_forget(fd);
	lent_committed();
	lent_close(&fd);
	assert_int_equal(fd, -1);
	lent_close(&fd);
	assert_true(pipe_is_closed(other));
	close(other);
}

/* One number as long as it is open; a descriptor of the same number is another one. */
static void numbers(void **state)
{
	int others[2], fd = pipe_new(&others[0]), again;
	unsigned n;

	(void)state;
	assert_int_equal(lent_begin(holder_admit(control)), 0);
	assert_int_equal(lent_put(-1), 0);
	n = lent_put(fd);
	assert_int_equal(n, 1);
	assert_int_equal(lent_put(fd), n);
	again = dup(fd);
	assert_int_equal(lent_put(again), 2);
	lent_close(&again);
	lent_close(&fd);
	fd = pipe_new(&others[1]);
	assert_int_equal(lent_put(fd), 3); /* nothing was committed */
	assert_true(is_held(others[0]));
	lent_committed();
	assert_true(pipe_is_closed(others[0]));
	again = dup(fd);
	assert_int_equal(lent_put(again), 1); /* the least that is free */
	assert_int_equal(lent_failed(), 0);
	lent_close(&again);
	lent_forget(fd); /* who closes it himself */
	close(fd);
	assert_true(is_held(others[1]));
	lent_committed();
	assert_true(pipe_is_closed(others[1]));
	close(others[0]);
	close(others[1]);
}

/* A process ends at once; all that it had lent is there for the next, and for the one after that. */
static void inherited(void **state)
{
	int others[MANY], fd[MANY], taken;
	struct fdbag bag, bag2;
	ino_t was[MANY];

	(void)state;
	assert_int_equal(lent_begin(holder_admit(control)), 0);
	for (int i = 0; i < MANY; i++) {
		fd[i] = pipe_new(&others[i]);
		was[i] = pipe_number(fd[i]);
		assert_int_equal(lent_put(fd[i]), i + 1);
	}
	lent_close(&fd[7]); /* not committed */
	lent_close(&fd[8]);
	lent_committed();
	fd[8] = pipe_new(&others[8]);
	was[8] = pipe_number(fd[8]);
	assert_in_range(lent_put(fd[8]), 8, 9); /* in the socket, and no more */
	lent_end();
	for (int i = 0; i < MANY; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	inherit(&bag);
	assert_true(bag.n >= MANY - 1);
	for (unsigned i = 1; i <= MANY; i++) {
		if (i == 8 || i == 9)
			continue;
		taken = fdbag_take(&bag, i);
		assert_true(taken >= 0);
		assert_int_equal(pipe_number(taken), was[i - 1]);
		assert_int_equal(lent_put(taken), i); /* it is lent still */
		fd[i - 1] = taken;
	}
	/* What nobody has taken is not needed. */
	fdbag_clear(&bag);
	lent_committed();
	assert_true(pipe_is_closed(others[8]));
	lent_end();
	for (int i = 0; i < MANY; i++)
		if (i != 7 && i != 8)
			close(fd[i]);
	inherit(&bag2);
	assert_int_equal(fdbag_take(&bag2, 8), -1);
	assert_int_equal(fdbag_take(&bag2, 9), -1);
	taken = fdbag_take(&bag2, MANY);
	assert_int_equal(pipe_number(taken), was[MANY - 1]);
	close(taken);
	fdbag_clear(&bag2);
	for (int i = 0; i < MANY; i++)
		close(others[i]);
}

/* A bag whose numbers are those of what is lent. */
static void in_a_bag(void **state)
{
	struct fdbag bag = {.number = lent_put};
	int other, fd = pipe_new(&other);

	(void)state;
	assert_int_equal(fdbag_put(&bag, fd), 0);
	assert_true(bag.failed);
	bag.failed = false;
	assert_int_equal(lent_begin(holder_admit(control)), 0);
	assert_int_equal(fdbag_put(&bag, fd), lent_put(fd));
	assert_int_equal(fdbag_put(&bag, -1), 0);
	assert_false(bag.failed);
	assert_int_equal(bag.n, 0);
	fdbag_clear(&bag);
	lent_close(&fd);
	close(other);
}

/* The holder believes nothing, and goes on. */
static void nonsense(void **state)
{
	struct lent_word w = {.op = LENT_HOLD, .number = LENT_MAX + 1};
	int sock = holder_admit(control), other, fd = pipe_new(&other);
	const char more[64] = "";
	struct fdbag bag;

	(void)state;
	assert_true(fdpass_send(sock, &w, sizeof(w), &fd, 1, 0) > 0);
	w.number = 0;
	assert_true(fdpass_send(sock, &w, sizeof(w), &fd, 1, 0) > 0);
	w.op = LENT_DROP;
	assert_true(fdpass_send(sock, &w, sizeof(w), NULL, 0, 0) > 0);
	w = (struct lent_word){.op = 99, .number = 1};
	assert_true(fdpass_send(sock, &w, sizeof(w), &fd, 1, 0) > 0);
	assert_true(fdpass_send(sock, &w, 3, &fd, 1, 0) > 0);
	assert_true(fdpass_send(sock, more, sizeof(more), &fd, 1, 0) > 0);
	w = (struct lent_word){.op = LENT_HOLD, .number = 3};
	close(fd);
	assert_true(pipe_is_closed(other)); /* nothing of it was kept */
	close(other);
	fd = pipe_new(&other);
	w.number = LENT_MAX;
	assert_true(fdpass_send(sock, &w, sizeof(w), &fd, 1, 0) > 0);
	close(sock);
	inherit(&bag);
	assert_int_equal(bag.n, LENT_MAX);
	close(fdbag_take(&bag, LENT_MAX));
	fdbag_clear(&bag);
	close(fd);
	close(other);
}

static void end_holder(void)
{
	int status;

	kill(holder, SIGKILL);
	assert_int_equal(waitpid(holder, &status, 0), holder);
}

/* Without the holder nothing is lost, as long as this process lives: another one is given all that is lent then, by the same
 * numbers, behind the next commit. */
static void another_holder(void **state)
{
	int others[5], fd[5];
	struct fdbag bag;
	ino_t was[5];

	(void)state;
	for (int i = 0; i < 5; i++) {
		fd[i] = pipe_new(&others[i]);
		was[i] = pipe_number(fd[i]);
	}
	assert_int_equal(lent_begin(holder_admit(control)), 0);
	assert_false(lent_is_away());
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(lent_put(fd[i]), i + 1);
	end_holder();
	close(control);
	assert_int_equal(lent_put(fd[3]), 4);
	assert_true(lent_is_away());
	lent_close(&fd[0]);
	lent_close(&fd[1]);
	assert_int_equal(lent_put(fd[4]), 5);
	assert_int_equal(setup(state), 0);
	assert_true(lent_is_away());
	lent_committed();
	lent_again(holder_admit(control));
	assert_false(lent_is_away());
	assert_int_equal(lent_failed(), 0);
	assert_int_equal(lent_put(fd[2]), 3);
	lent_close(&fd[2]); /* not committed */
	fd[0] = pipe_new(&others[0]);
	was[0] = pipe_number(fd[0]);
	assert_in_range(lent_put(fd[0]), 1, 2);
	lent_end();
	for (int i = 0; i < 5; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	inherit(&bag);
	for (unsigned i = 1; i <= 5; i++) {
		static const int of[] = {0, 0, 2, 3, 4}; /* 1 or 2 is the new one */
		const int taken = fdbag_take(&bag, i);

		if (i > 2)
			assert_true(taken >= 0);
		if (taken >= 0)
			assert_int_equal(pipe_number(taken), was[of[i - 1]]);
		if (taken >= 0)
			close(taken);
	}
	fdbag_clear(&bag);
	for (int i = 0; i < 5; i++)
		close(others[i]);
}

/* A second one ends while it is being given all; and one is given up. */
static void holders_end(void **state)
{
	int other, fd = pipe_new(&other);
	struct fdbag bag;

	(void)state;
	assert_int_equal(lent_begin(holder_admit(control)), 0);
	assert_int_equal(lent_put(fd), 1);
	for (int i = 0; i < 2; i++) {
		const int sock = holder_admit(control);

		end_holder();
		close(control);
		lent_committed();
		lent_again(sock);
		assert_true(lent_is_away());
		assert_int_equal(setup(state), 0);
	}
	lent_again(holder_admit(control));
	lent_lose();
	lent_committed();
	assert_true(lent_is_away());
	assert_int_equal(lent_failed(), 0);
	lent_again(holder_admit(control));
	assert_false(lent_is_away());
	lent_end();
	inherit(&bag);
	close(fd);
	fd = fdbag_take(&bag, 1);
	assert_true(fd >= 0);
	close(fd);
	fdbag_clear(&bag);
	close(other);
}

/* Return: in ms, from @from. */
static long since(const struct timespec *from)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - from->tv_sec) * 1000 + (now.tv_nsec - from->tv_nsec) / 1000000;
}

/* One that does not hear is waited for once, and not each time. */
static void one_that_is_deaf(void **state)
{
	int others[MANY], fd[MANY], sock = holder_admit(control), n = 0;
	struct timespec from;

	(void)state;
	assert_int_equal(kill(holder, SIGSTOP), 0);
	assert_int_equal(lent_begin(sock), 0);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int round = 0; round < 1000 && !lent_is_away(); round++) {
		for (n = 0; n < MANY; n++) {
			fd[n] = pipe_new(&others[n]);
			assert_true(lent_put(fd[n]) > 0);
		}
		for (n = 0; n < MANY; n++) {
			lent_close(&fd[n]);
			close(others[n]);
		}
		lent_committed();
	}
	assert_true(lent_is_away());
	assert_in_range(since(&from), 0, 10000);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (n = 0; n < MANY; n++) {
		fd[n] = pipe_new(&others[n]);
		assert_true(lent_put(fd[n]) > 0);
	}
	lent_committed();
	assert_in_range(since(&from), 0, 1000);
	assert_int_equal(lent_failed(), 0);
	for (n = 0; n < MANY; n++) {
		lent_close(&fd[n]);
		close(others[n]);
	}
	assert_int_equal(kill(holder, SIGCONT), 0);
}

/* ... nor is one that could not be told anything for a while, for which it can do nothing. */
static void one_in_a_crowd(void **state)
{
	int others[3], fd[3];
	struct timespec from;
	struct fdbag bag;

	(void)state;
	for (int i = 0; i < 3; i++)
		fd[i] = pipe_new(&others[i]);
	assert_int_equal(lent_begin(holder_admit(control)), 0);
	crowded = 250;
	assert_int_equal(lent_put(fd[0]), 1);
	assert_int_equal(crowded, 0);
	assert_false(lent_is_away());
	/* But not for ever. */
	crowded = INT_MAX;
	clock_gettime(CLOCK_MONOTONIC, &from);
	assert_int_equal(lent_put(fd[1]), 2);
	assert_in_range(since(&from), 1000, 10000);
	crowded = 0;
	assert_true(lent_is_away());
	assert_true(lent_is_crowded());
	assert_int_equal(lent_failed(), 0);
	assert_int_equal(lent_put(fd[2]), 3);
	lent_committed();
	lent_again(holder_admit(control));
	assert_false(lent_is_away());
	assert_false(lent_is_crowded());
	/* One that has ended is another matter. */
	end_holder();
	close(control);
	lent_close(&fd[0]);
	lent_committed();
	assert_true(lent_is_away());
	assert_false(lent_is_crowded());
	assert_int_equal(setup(state), 0);
	lent_committed();
	lent_again(holder_admit(control));
	lent_end();
	inherit(&bag);
	assert_int_equal(bag.n, 3);
	fdbag_clear(&bag);
	for (int i = 0; i < 3; i++) {
		close(others[i]);
		if (i)
			close(fd[i]);
	}
}

/* What could not be lent for a reason of this process's own is said, and said at once. */
static void without_end(void **state)
{
	int other, fd = pipe_new(&other);

	(void)state;
	assert_int_equal(lent_begin(holder_admit(control)), 0);
	assert_int_equal(lent_put(fd), 1);
	lent_give_up(-EPIPE);
	assert_int_equal(lent_put(fd), 0);
	assert_int_equal(lent_failed(), -EPIPE);
	assert_true(lent_is_away());
	lent_committed();
	lent_again(holder_admit(control));
	assert_true(lent_is_away());
	lent_close(&fd);
	close(other);
}

/* Return: a connection whose last close waits for somebody who never reads. */
static int one_that_lingers(int *ret_other)
{
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct linger linger = {.l_onoff = 1, .l_linger = 60};
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	static const char bytes[65536];
	socklen_t len = sizeof(a);

	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	*ret_other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*ret_other >= 0);
	close(listener);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return fd;
}

/* The holder hears what is said, and gives all that it has, while one that it was to close does not let it. */
static void a_close_that_waits(void **state)
{
	int others[2], fd[2] = {one_that_lingers(&others[0]), pipe_new(&others[1])}, taken;
	struct timespec from;
	struct fdbag bag;
	unsigned n;

	(void)state;
	assert_int_equal(lent_begin(holder_admit(control)), 0);
	assert_int_equal(lent_put(fd[0]), 1);
	lent_close(&fd[0]);
	lent_committed();
	clock_gettime(CLOCK_MONOTONIC, &from);
	n = lent_put(fd[1]);
	lent_end();
	inherit(&bag);
	assert_in_range(since(&from), 0, 5000);
	taken = fdbag_take(&bag, n);
	assert_true(taken >= 0);
	close(taken);
	close(fd[1]);
	fdbag_clear(&bag);
	close(others[0]);
	close(others[1]);
}

/* Return: whether /proc says this of the holder. */
static bool is_said(const char *line)
{
	char path[64], text[4096] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)holder);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
	return strstr(text, line);
}

static void without_rights(void **state)
{
	struct fdbag bag;

	(void)state;
	inherit(&bag); /* it has answered, so it has begun */
	assert_int_equal(bag.n, 0);
	assert_true(is_said("\nCapPrm:\t0000000000000000\n"));
	assert_true(is_said("\nCapEff:\t0000000000000000\n"));
	assert_true(is_said("\nNoNewPrivs:\t1\n"));
#ifndef __SANITIZE_ADDRESS__
	assert_true(is_said("\nSeccomp:\t2\n"));
#endif
	fdbag_clear(&bag);
}

/* What the holder has no room for is not lost in silence: it ends. */
static void no_room(void **state)
{
	const struct rlimit few = {.rlim_cur = 16, .rlim_max = 16};
	int fd[MANY], others[MANY], status;
	struct pollfd p = {.events = POLLHUP};

	(void)state;
	assert_int_equal(prlimit(holder, RLIMIT_NOFILE, &few, NULL), 0);
	p.fd = control;
	assert_int_equal(lent_begin(holder_admit(control)), 0);
	for (int i = 0; i < MANY; i++) {
		fd[i] = pipe_new(&others[i]);
		(void)lent_put(fd[i]); /* each is in the socket; or it has ended already */
	}
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	assert_true(lent_put(STDIN_FILENO) > 0);
	assert_true(lent_is_away());
	lent_end();
	for (int i = 0; i < MANY; i++) {
		close(fd[i]);
		close(others[i]);
	}
	close(control);
	assert_int_equal(setup(state), 0);
}

static void too_early(int signum)
{
	(void)signum;
	_exit(4);
}

/* Somebody has closed what was lent by close(2), and something else has its place: that is found, also where it was lent before. */
static void verified(void **state)
{
	int other, fd = pipe_new(&other), status;
	const pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		signal(SIGABRT, too_early);
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		if (lent_begin(holder_admit(control)) < 0 || lent_put(fd) != 1)
			_exit(2);
		lent_verify(true);
		if (lent_put(fd) != 1 || lent_put(other) != 2 || lent_put(other) != 2)
			_exit(2);
		signal(SIGABRT, SIG_DFL);
		dup2(STDERR_FILENO, fd);
		(void)lent_put(fd);
		_exit(3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	close(fd);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_lent, setup, teardown),
		cmocka_unit_test_setup_teardown(numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(inherited, setup, teardown),
		cmocka_unit_test_setup_teardown(in_a_bag, setup, teardown),
		cmocka_unit_test_setup_teardown(nonsense, setup, teardown),
		cmocka_unit_test_setup_teardown(another_holder, setup, teardown),
		cmocka_unit_test_setup_teardown(holders_end, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_is_deaf, setup, teardown),
		cmocka_unit_test_setup_teardown(one_in_a_crowd, setup, teardown),
		cmocka_unit_test_setup_teardown(without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(a_close_that_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(without_rights, setup, teardown),
		cmocka_unit_test_setup_teardown(no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(verified, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
