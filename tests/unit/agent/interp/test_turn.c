/* SPDX-License-Identifier: Apache-2.0 */
/* The native part of drivers, in a process that is its own agent: where the descriptors of a turn go, and in
 * which order, as another thread sees it; and the pages that tell of forks. */
/* modules: images/drivers/turn.c images/drivers/turn_renew.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/interp/driver.h"
#include "images/drivers/turn.h"

#define MANY 80 /* ranges, more than are noted */

enum { IN, OUT, ERR, CODE, RECORDS };

/* What another thread does after each step of putting descriptors in place. */
static void (*thread)(void);

int dup2(int fd, int fd2)
{
	int r = (int)syscall(SYS_dup3, fd, fd2, 0);

	if (thread)
		thread();
	return r;
}

int dup3(int fd, int fd2, int flags)
{
	int r = (int)syscall(SYS_dup3, fd, fd2, flags);

	if (thread)
		thread();
	return r;
}

/* The driver runs in a child, whose parent sends turns. */
struct turn {
	int read[5]; /* our ends */
	int fds[5];
	int n;
};

static void make_turn(struct turn *t, int n)
{
	static const int mark[] = {0, DRIVER_MARK_STDOUT, DRIVER_MARK_STDERR, 0,
				   DRIVER_MARK_RECORDS};

	t->n = n;
	for (int i = 0; i < n; i++) {
		int p[2];

		assert_return_code(pipe2(p, O_NONBLOCK | O_CLOEXEC), 0);
		t->read[i] = p[0];
		t->fds[i] = p[1];
		if (mark[i])
			assert_return_code(fcntl(p[1], F_SETSIG, mark[i]), 0);
	}
	close(t->fds[CODE]);
	t->fds[CODE] = memfd_create("code", MFD_CLOEXEC);
}

static void send_turn(int ctl, const struct turn *t)
{
	struct driver_msg msg = {.type = DRIVER_RUN};
	struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
	union {
		char buf[CMSG_SPACE(5 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	struct cmsghdr *c;

	hdr.msg_controllen = CMSG_SPACE((size_t)t->n * sizeof(int));
	c = CMSG_FIRSTHDR(&hdr);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)t->n * sizeof(int));
	memcpy(CMSG_DATA(c), t->fds, (size_t)t->n * sizeof(int));
	assert_int_equal(sendmsg(ctl, &hdr, 0), sizeof(msg));
}

static size_t held(int fd)
{
	int n = 0;

	assert_return_code(ioctl(fd, FIONREAD, &n), 0);
	return (size_t)n;
}

/* Run @driver with two turns, of which the second has @n descriptors. */
static void two_turns(void (*driver)(void), struct turn turns[2], int n)
{
	const struct driver_msg first = {.type = DRIVER_KEY};
	const int on = 1;
	int ctl[2], status;
	pid_t pid;

	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl), 0);
	assert_return_code(setsockopt(ctl[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	assert_int_equal(send(ctl[0], &first, sizeof(first), 0), sizeof(first));
	make_turn(&turns[0], 5);
	make_turn(&turns[1], n);
	pid = fork();
	assert_return_code(pid, errno);
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		(void)syscall(SYS_dup3, null, 0, 0);
		if (turn_open(ctl[1]) >= 0)
			driver();
		_exit(1);
	}
	for (int i = 0; i < 2; i++) {
		send_turn(ctl[0], &turns[i]);
		for (int j = 0; j < turns[i].n; j++)
			close(turns[i].fds[j]);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(ctl[0]);
	close(ctl[1]);
}

static void receive(void)
{
	struct driver_msg msg;

	if (turn_receive(&msg, 0) != DRIVER_RUN)
		_exit(2);
}

static void print(void)
{
	if (turn_record(STDOUT_FILENO, "x", 1) == 0)
		(void)!write(STDOUT_FILENO, "x", 1);
}

static void print_in_both(void)
{
	receive();
	print();
	receive();
	print();
	_exit(0);
}

static void without_descriptors(void)
{
	const struct rlimit few = {200, 200};

	receive();
	print();
	(void)setrlimit(RLIMIT_NOFILE, &few);
	receive();
	print();
	_exit(0);
}

static void with_a_thread(void)
{
	receive();
	thread = print;
	receive();
	thread = NULL;
	_exit(0);
}

static void a_turn_with_records(void **state)
{
	struct turn t[2];

	(void)state;
	two_turns(print_in_both, t, 5);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(held(t[i].read[RECORDS]), sizeof(struct driver_record) + 1);
		assert_int_equal(held(t[i].read[OUT]), 0);
	}
}

/* What is written in it must not go where the last turn's records went. */
static void a_turn_without_records(void **state)
{
	struct turn t[2];

	(void)state;
	two_turns(print_in_both, t, 4);
	assert_int_equal(held(t[0].read[RECORDS]), sizeof(struct driver_record) + 1);
	assert_int_equal(held(t[1].read[OUT]), 1);
}

static void a_turn_whose_pipe_has_no_place(void **state)
{
	struct turn t[2];

	(void)state;
	two_turns(without_descriptors, t, 5);
	assert_int_equal(held(t[0].read[RECORDS]), sizeof(struct driver_record) + 1);
	assert_int_equal(held(t[1].read[OUT]), 1);
}

/* As soon as the outputs are the new turn's, so is the pipe for records. */
static void another_thread_prints(void **state)
{
	struct turn t[2];

	(void)state;
	two_turns(with_a_thread, t, 5);
	assert_int_equal(held(t[0].read[RECORDS]), 0);
	assert_int_equal(held(t[0].read[OUT]), 0);
	assert_true(held(t[1].read[RECORDS]) > 0);
}

/* --- pages that tell of forks ------------------------------------------------------------------ */

static long page;

/* A range of its own, with something in it. */
static char *tell_tale(void)
{
	char *p = mmap(NULL, 3 * (size_t)page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	p += page;
	assert_return_code(mprotect(p, (size_t)page, PROT_READ | PROT_WRITE), 0);
	assert_return_code(madvise(p, (size_t)page, MADV_WIPEONFORK), 0);
	*p = 'x';
	return p;
}

static void forget(char *p)
{
	assert_return_code(munmap(p - page, 3 * (size_t)page), 0);
}

static void pages_are_wiped(void **state)
{
	char *p = tell_tale();

	(void)state;
	assert_true(turn_renew(false) >= 1);
	assert_int_equal(*p, 'x');
	assert_true(turn_renew(true) >= 1);
	assert_int_equal(*p, 0);
	forget(p);
}

/* Too many to be known beforehand is an error, and all are wiped nevertheless. */
static void many_pages(void **state)
{
	char *p[MANY];

	(void)state;
	for (int i = 0; i < MANY; i++)
		p[i] = tell_tale();
	assert_int_equal(turn_renew(false), -E2BIG);
	(void)turn_renew(true);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(*p[i], 0);
		forget(p[i]);
	}
}

/* What was mapped in the place of such pages is left alone. */
static void pages_that_were_replaced(void **state)
{
	char *p = tell_tale(), *kept = tell_tale();

	(void)state;
	assert_true(turn_renew(false) >= 2);
	assert_ptr_equal(mmap(p - page, 3 * (size_t)page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p - page);
	*p = 'y';
	assert_true(turn_renew(true) >= 1);
	assert_int_equal(*p, 'y');
	assert_int_equal(*kept, 0);
	forget(p);
	forget(kept);
}

/* Before a machine is copied, everything is known; unless something has happened since, which the caller says. */
static void pages_before_a_copy(void **state)
{
	char *p = tell_tale(), *late;

	(void)state;
	turn_renew_prepare();
	assert_int_equal(*p, 'x');
	late = tell_tale();
	assert_true(turn_renew(true) >= 1);
	assert_int_equal(*p, 0);
	assert_int_equal(*late, 'x');
	turn_renew_forget();
	assert_true(turn_renew(true) >= 2);
	assert_int_equal(*late, 0);
	forget(p);
	forget(late);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_with_records),
		cmocka_unit_test(a_turn_without_records),
		cmocka_unit_test(a_turn_whose_pipe_has_no_place),
		cmocka_unit_test(another_thread_prints),
		cmocka_unit_test(pages_are_wiped),
		cmocka_unit_test(many_pages),
		cmocka_unit_test(pages_that_were_replaced),
		cmocka_unit_test(pages_before_a_copy),
	};

	page = sysconf(_SC_PAGESIZE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
