/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner: requests and news that get lost leave no process that nobody could end. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/base/fdpass.h"
#include "vm/spawn/child.h"
#include "vm/spawn/spawner_internal.h"
#include "vm/base/util.h"

struct result {
	struct child child;
	bool over;
	unsigned ends; /* has to be 1 */
	int failed, status;
	char step[256];
};

static void on_failed(struct child *c, int err, const char *step)
{
	struct result *r = c->data;

	r->failed = err;
	snprintf(r->step, sizeof(r->step), "%s", step);
	r->over = true;
	r->ends++;
}

static void on_exited(struct child *c, int status)
{
	struct result *r = c->data;

	r->status = status;
	r->over = true;
	r->ends++;
}

/* Asks for a program with one argument; what it says goes to @out, if there is one, and @near is held. */
static void ask_holding(struct result *r, const char *program, const char *arg, int out, int near)
{
	const char *const argv[] = {program, arg, NULL}, *const envp[] = {NULL};
	const struct free_job job = {
		.argv = argv, .envp = envp, .target = {{0, 1}}, .ntargets = out >= 0 ? 1 : 0};
	char request[SPAWN_MESSAGE_MAX];
	const ssize_t n = free_pack(&job, request, sizeof(request));
	const struct spawn_spec spec = {request, (size_t)n, &out, out >= 0, &near, near >= 0};

	assert_true(n > 0);
	memset(r, 0, sizeof(*r));
	r->child = (struct child){.failed = on_failed, .exited = on_exited, .data = r};
	assert_int_equal(child_start(sp, &spec, &r->child), 0);
}

static void ask(struct result *r, const char *program, const char *arg, int out)
{
	ask_holding(r, program, arg, out, -1);
}

/* The one between daemon and spawner, in either of them. */
static int find_socket(void)
{
	for (int fd = STDERR_FILENO + 1; fd < 256; fd++) {
		socklen_t len = sizeof(int);
		int type;

		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET)
			return fd;
	}
	abort();
}

/* In the spawner: so many descriptors are under way that the kernel lets nobody without privileges send more. */
static int job_without_fds(const void *data, const void *request, size_t len, size_t nfds,
			   struct spawn_job *ret_job)
{
	static bool done;
	struct rlimit few;
	int fds[FDPASS_MAX] = {0}, pair[2];

	if (!done) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
			abort();
		for (int i = 0; i < 8; i++) {
			if (fdpass_send(pair[0], "", 1, fds, FDPASS_MAX, 0) < 0)
				abort();
		}
		getrlimit(RLIMIT_NOFILE, &few);
		few.rlim_cur = 7 * FDPASS_MAX;
		if (setrlimit(RLIMIT_NOFILE, &few) < 0 || (geteuid() == 0 && seteuid(64999) < 0))
			abort();
		done = true;
	}
	return free_rules.job(data, request, len, nfds, ret_job);
}

/* It runs, and what it could be held by can't be sent: it is ended, and that is said. */
static void started_unsendable(void **state)
{
	static const struct spawner_rules rules = {.job = job_without_fds};
	struct result r;

	spawner_fixture_start(&rules);
	ask(&r, "/bin/sleep", "1000", -1);
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, -ETOOMANYREFS);
	assert_non_null(strstr(r.step, "descriptors"));
	spawner_fixture_await_childless();
	assert_int_equal(r.ends, 1);
	spawner_fixture_teardown(state);
}

/* In the spawner: it has ended, and that it was started has not been said. */
static int job_unheard(const void *data, const void *request, size_t len, size_t nfds,
		       struct spawn_job *ret_job)
{
	const struct spawn_note note = {.op = SPAWN_NOTE_EXITED, .id = 1};

	(void)data;
	(void)request;
	(void)len;
	(void)nfds;
	(void)ret_job;
	if (fdpass_send(find_socket(), &note, sizeof(note), NULL, 0, 0) < 0)
		abort();
	return -EPERM;
}

static void ended_unheard(void **state)
{
	static const struct spawner_rules rules = {.job = job_unheard};
	struct result r;

	spawner_fixture_start(&rules);
	ask(&r, "/bin/true", "", -1);
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, -ESRCH);
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(r.ends, 1);
	spawner_fixture_teardown(state);
}

/* The spawner is told to kill what the daemon has heard nothing of yet, and may never. */
static void killed_unheard(void **state)
{
	struct pollfd p = {.events = POLLIN};
	struct result r;
	int pipes[2];
	char byte;

	spawner_fixture_start(&free_rules);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	ask(&r, "/bin/sleep", "1000", pipes[1]);
	close(pipes[1]);
	child_kill(&r.child);
	p.fd = pipes[0];
	assert_int_equal(poll(&p, 1, patience_ms()), 1);
	assert_int_equal(read(pipes[0], &byte, 1), 0);
	close(pipes[0]);
	assert_false(r.over); /* nobody has looked */
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, 0);
	assert_true(WIFSIGNALED(r.status));
	assert_int_equal(r.ends, 1);
	spawner_fixture_teardown(state);
}

/* A request that waited for room in the socket, and then is one that this takes never. */
static void unsendable_request(void **state)
{
	static char text[SPAWN_MESSAGE_MAX - 4096];
	struct result small[20], big;
	const int least = 1; /* the kernel makes some thousand bytes of it */

	spawner_fixture_start(&free_rules);
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(setsockopt(find_socket(), SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)),
			 0);
	kill(spawner_pid(sp), SIGSTOP);
	for (size_t i = 0; i < ARRAY_SIZE(small); i++)
		ask(&small[i], "/bin/true", "", -1);
	ask(&big, "/bin/true", text, -1);
	kill(spawner_pid(sp), SIGCONT);
	for (size_t i = 0; i < ARRAY_SIZE(small); i++) {
		spawner_fixture_await(&small[i].over);
		assert_int_equal(small[i].failed, 0);
		assert_int_equal(small[i].status, 0);
	}
	spawner_fixture_await(&big.over);
	assert_int_equal(big.failed, -EMSGSIZE);
	assert_int_equal(big.ends, 1);
	spawner_fixture_teardown(state);
}

/* In the spawner: how often the kernel has no memory for news. */
static int without_memory;

/* In the daemon: how often the kernel does not take a request of this kind, and why. */
static struct {
	enum spawn_op op; /* 0: any that has descriptors */
	int times, err;
} refused;

static bool is_refused(const struct msghdr *msg)
{
	struct spawn_request req = {0};

	if (refused.times <= 0 || msg->msg_iov->iov_len < sizeof(req))
		return false;
	memcpy(&req, msg->msg_iov->iov_base, sizeof(req));
	return refused.op ? req.op == refused.op : msg->msg_controllen > 0;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's are reserved. */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (without_memory > 0) {
		without_memory--;
		errno = ENOBUFS;
		return -1;
	}
	if (is_refused(msg)) {
		refused.times--;
		errno = refused.err;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, msg, flags);
}

static int job_unsayable(const void *data, const void *request, size_t len, size_t nfds,
			 struct spawn_job *ret_job)
{
	(void)data;
	(void)request;
	(void)len;
	(void)nfds;
	(void)ret_job;
	without_memory = 3;
	return -EPERM;
}

static void on_died(void *data)
{
	*(bool *)data = true;
}

/* Nothing was started, and that can't be said: it is said later, as nobody would hear of it otherwise. */
static void failed_unsayable(void **state)
{
	static const struct spawner_rules rules = {.job = job_unsayable};
	bool died = false;
	struct result r;

	spawner_fixture_start(&rules);
	spawner_watch(sp, on_died, &died);
	ask(&r, "/bin/true", "", -1);
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, -EPERM);
	assert_int_equal(r.ends, 1);
	assert_false(died);
	spawner_fixture_teardown(state);
}

/* Of the user's descriptors too many are on their way for a moment, or there is no memory: what is asked for has to wait, in its
 * order, and is done. */
static void request_waits(void **state)
{
	static const int errs[] = {ETOOMANYREFS, ENOBUFS, ENOMEM};
	struct result first, second, third;

	for (size_t i = 0; i < ARRAY_SIZE(errs); i++) {
		spawner_fixture_start(&free_rules);
		refused.err = errs[i];
		refused.times = 5;
		ask_holding(&first, "/bin/true", "", STDERR_FILENO,
			    STDERR_FILENO); /* what it has is held as well */
		ask(&second, "/bin/true", "", -1);
		ask_holding(&third, "/bin/true", "", STDERR_FILENO, STDERR_FILENO);
		assert_int_equal(sp->unsent.n, 5);
		spawner_fixture_await(&third.over);
		spawner_fixture_await(&second.over);
		spawner_fixture_await(&first.over);
		assert_int_equal(refused.times, 0);
		assert_int_equal(first.failed | second.failed | third.failed, 0);
		assert_int_equal(first.status | second.status | third.status, 0);
		assert_false(sp->crowded);
		spawner_fixture_teardown(state);
	}
}

/* It does not pass: who has asked is told, nothing of it is begun, and what can be asked for is. */
static void request_is_given_up(void **state)
{
	struct result first, second, other;

	spawner_fixture_start(&free_rules);
	refused.err = ETOOMANYREFS;
	refused.times = INT_MAX;
	ask_holding(&first, "/bin/sleep", "1000", STDERR_FILENO, STDERR_FILENO);
	ask_holding(&second, "/bin/sleep", "1000", STDERR_FILENO, STDERR_FILENO);
	ask(&other, "/bin/true", "", -1);
	while (!sp->crowded)
		uv_run(&loop, UV_RUN_ONCE);
	assert_false(first.over || second.over || other.over);
	sp->crowded_at -= 60000; /* a minute ago */
	spawner_fixture_await(&first.over);
	spawner_fixture_await(&second.over);
	spawner_fixture_await(&other.over);
	assert_int_equal(first.failed, -ETOOMANYREFS);
	assert_int_equal(second.failed, -ETOOMANYREFS);
	assert_int_equal(first.ends + second.ends, 2);
	assert_int_equal(other.failed | other.status, 0);
	refused.times = 0;
	spawner_fixture_await_childless();
	spawner_fixture_teardown(state);
}

/* The kernel does not take what nobody else would see to: that is the end of the spawner, and told. */
static void unsendable_kill(void **state)
{
	bool died = false;
	struct result r;

	spawner_fixture_start(&free_rules);
	spawner_watch(sp, on_died, &died);
	refused.err = EINVAL;
	refused.times = 1;
	refused.op = SPAWN_OP_KILL;
	sp->waits = true; /* so that it is queued */
	ask(&r, "/bin/sleep", "1000", -1);
	child_kill(&r.child);
	sp->waits = false;
	spawner_poll_again(sp);
	assert_int_equal(sp->unsent.n, 2);
	spawner_fixture_await(&died);
	refused.op = 0;
	assert_int_equal(r.failed, -EPIPE);
	assert_int_equal(r.ends, 1);
	spawner_fixture_teardown(state);
}

static void on_detached(void *data)
{
	(void)data;
}

/* An end that nobody waits for any longer: the loop has ended, and the spawner is about to be let go of. */
static void stopped_while_it_detaches(void **state)
{
	const pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		spawner_fixture_start(&free_rules);
		spawner_detach(sp, on_detached, NULL);
		uv_run(&loop, UV_RUN_NOWAIT);
		spawner_stop(sp);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(started_unsendable),
		cmocka_unit_test(ended_unheard),
		cmocka_unit_test(killed_unheard),
		cmocka_unit_test(unsendable_request),
		cmocka_unit_test(failed_unsayable),
		cmocka_unit_test(request_waits),
		cmocka_unit_test(request_is_given_up),
		cmocka_unit_test(unsendable_kill),
		cmocka_unit_test(stopped_while_it_detaches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
