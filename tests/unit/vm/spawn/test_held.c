/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner keeps of the daemon's lasts as long as that needs it, and not longer. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/spawn/final.h"
#include "vm/spawn/held.h"
#include "vm/base/util.h"

#define SOON_MS 50 /* for what must not happen */

/* Has the process ended, though perhaps nobody has reaped it? */
static bool gone_within(pid_t pid, int ms)
{
	_cleanup_close_ int fd = pidfd_open(pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd < 0 || poll(&p, 1, ms) > 0;
}

/* Is the other end gone, at once or after a while? */
static bool ended_within(int fd, int ms)
{
	struct pollfd p = {.fd = fd};

	return poll(&p, 1, ms) > 0 && (p.revents & POLLHUP);
}

/* Gives the writing end of a pipe away as the connection. Return: the reading end. */
static int mounted(void)
{
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(spawner_mounted(sp, p[1]), 0);
	close(p[1]);
	return p[0];
}

/* It is there until the daemon is not, and is not behind children that take their time, or hang between fork and exec. */
static void connection_of_dead(void **state)
{
	const int fd = mounted();

	(void)state;
	assert_false(ended_within(fd, SOON_MS));
	kill(spawner_fixture_daemon, SIGKILL);
	assert_true(ended_within(fd, patience_ms()));
	close(fd);
}

static void connection_of_unmounted(void **state)
{
	const int fd = mounted();

	(void)state;
	assert_false(ended_within(fd, SOON_MS));
	spawner_unmount(sp);
	assert_true(ended_within(fd, patience_ms()));
	close(fd);
}

/* Sees of its own what it has, and nothing else. */
static unsigned ndone;

static void on_done(struct program *p)
{
	(void)p;
	ndone++;
}

static void not_for_children(void **state)
{
	const int fd = mounted();
	const char *const argv[] = {"/bin/sh", "-c", "exec ls /proc/self/fd", NULL};
	struct program c = {0};

	(void)state;
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 60000, on_done), 0);
	while (!ndone)
		uv_run(&loop, UV_RUN_ONCE);
	assert_string_equal(c.output, "0\n1\n2\n3\n");
	close(fd);
}

/* ---- ends of children ---- */

struct result {
	struct child child;
	bool started, over;
	int failed, status;
};

static void on_started(struct child *c)
{
	((struct result *)c->data)->started = true;
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct result *r = c->data;

	(void)step;
	r->failed = err;
	r->over = true;
}

static void on_exited(struct child *c, int status)
{
	struct result *r = c->data;

	r->status = status;
	r->over = true;
}

/* Asks for a program; @far is its standard output, @near our end of it, which the spawner keeps. Closes both. */
static void ask(struct result *r, const char *const argv[], int far, int near)
{
	const char *const envp[] = {NULL};
	const struct free_job job = {.argv = argv, .envp = envp, .target = {{0, 1}}, .ntargets = 1};
	char request[SPAWN_MESSAGE_MAX];
	const ssize_t n = free_pack(&job, request, sizeof(request));
	const struct spawn_spec spec = {request, (size_t)n, &far, 1, &near, 1};

	assert_true(n > 0);
	memset(r, 0, sizeof(*r));
	r->child = (struct child){
		.started = on_started, .failed = on_failed, .exited = on_exited, .data = r};
	assert_int_equal(child_start(sp, &spec, &r->child), 0);
	close(far);
	close(near);
}

/* A pair of which the test has a copy of the far end, on which it sees whether there is a near one. */
static int ask_paired(struct result *r, const char *const argv[])
{
	int pair[2], copy;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	copy = fcntl(pair[1], F_DUPFD_CLOEXEC, 0);
	ask(r, argv, pair[1], pair[0]);
	return copy;
}

/* We have none any more, and it has, until its end was heard. */
static void ends_of_running(void **state)
{
	static const char *const argv[] = {"/bin/sleep", "1000", NULL};
	struct result r;
	const int far = ask_paired(&r, argv);

	(void)state;
	spawner_fixture_await(&r.started);
	assert_false(ended_within(far, SOON_MS));
	child_kill(&r.child);
	/* It ends, and nobody has heard that. */
	assert_true(gone_within(r.child.pid, patience_ms()));
	assert_false(ended_within(far, SOON_MS));
	spawner_fixture_await(&r.over);
	assert_true(ended_within(far, patience_ms()));
	close(far);
}

/* To write to it is no error. */
static void no_broken_pipe(void **state)
{
	static const char *const argv[] = {"/bin/sh", "-c", "sleep 0.1; echo on; exit 7", NULL};
	struct result r;
	int p[2];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	ask(&r, argv, p[1], p[0]);
	spawner_fixture_await(&r.over);
	assert_int_equal(r.status, W_EXITCODE(7, 0));
}

/* Nor are they kept of what never began. */
static void ends_of_failed(void **state)
{
	static const char *const argv[] = {"/nonexistent/program", NULL};
	struct result r;
	const int far = ask_paired(&r, argv);

	(void)state;
	spawner_fixture_await(&r.over);
	assert_int_equal(r.failed, -ENOENT);
	/* When it is gone as well, which is heard and acknowledged once more. */
	for (int ms = 0; !ended_within(far, 10); ms += 10) {
		assert_true(ms < patience_ms());
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	close(far);
}

/* ---- the tables ---- */

static void finals(void **state)
{
	struct finals f = {0};

	(void)state;
	assert_null(final_unsaid(&f));
	for (uint32_t id = 1; id <= 5000; id++) {
		const struct spawn_note note = {.op = SPAWN_NOTE_EXITED, .id = id};

		assert_int_equal(final_add(&f, &note), 0);
	}
	/* Of a daemon that acknowledges nothing the oldest are gone. */
	assert_true(f.n < 5000);
	assert_true(final_unsaid(&f)->note.id == 5000 - f.n + 1);
	final_unsaid(&f)->said = true;
	assert_true(final_unsaid(&f)->note.id == 5000 - f.n + 2);
	final_forget(&f, 1);
	for (uint32_t id = 2; id < 5000; id++)
		final_forget(&f, id);
	assert_int_equal(f.n, 1);
	assert_int_equal(final_unsaid(&f)->note.id, 5000);
	final_forget(&f, 5000);
	assert_int_equal(f.n, 0);
	free(f.item);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void table(void **state)
{
	struct held h = {0};
	int fds[4];

	(void)state;
	assert_int_equal(held_add(&h, HELD_CONNECTION, 1, -1), -EBADF);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dup(STDERR_FILENO);
		assert_int_equal(held_add(&h, HELD_CONNECTION, i % 2, fds[i]), 0);
	}
	held_drop(&h, HELD_ENDS, 1);
	held_drop(&h, HELD_CONNECTION, 7);
	assert_int_equal(h.n, 4);
	held_drop(&h, HELD_CONNECTION, 1);
	assert_int_equal(h.n, 2);
	assert_true(is_open(fds[0]) && is_open(fds[2]));
	assert_false(is_open(fds[1]) || is_open(fds[3]));
	held_drop(&h, HELD_CONNECTION, 0);
	assert_int_equal(h.n, 0);
	assert_false(is_open(fds[0]) || is_open(fds[2]));
	/* In a child those of the table alone are closed. */
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dup(STDERR_FILENO);
		if (i != 2)
			assert_int_equal(held_add(&h, HELD_ENDS, i, fds[i]), 0);
	}
	held_leave(&h);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		assert_int_equal(is_open(fds[i]), i == 2);
	close(fds[2]);
	free(h.item);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, spawner_fixture_setup, spawner_fixture_teardown)
		T(connection_of_dead),	  T(connection_of_unmounted), T(not_for_children),
		T(ends_of_running),	  T(no_broken_pipe),	      T(ends_of_failed),
		cmocka_unit_test(finals), cmocka_unit_test(table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
