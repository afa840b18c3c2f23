/* SPDX-License-Identifier: Apache-2.0 */
/* --takeover: what it says, and that it does not wait for ever. */
/* modules: vm fs/mountpoint.c fs/takeover.c */
/* libs: uv seccomp crypto */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/config/daemon.h"
#include "fs/mountpoint.h"
#include "fs/takeover.h"
#include "vm/base/fdpass.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"
#include "vm/spawn/heir_wire.h"

#define BACKLOG 1

static struct {
	char top[32], mountpoint[16];
	char *dir;
	struct conf conf;
	int listener;
	char said[1024];
} t;

static int setup(void **state)
{
	_cleanup_close_ int dir = -1;
	struct sockaddr_un a;

	(void)state;
	strcpy(t.top, "/tmp/xsbxfs-unit.XXXXXX");
	strcpy(t.mountpoint, "/mnt/there");
	assert_non_null(mkdtemp(t.top));
	t.conf.vm.runtime_dir = t.top;
	t.conf.mountpoint = t.mountpoint;
	t.dir = mountpoint_directory(t.top, t.mountpoint);
	assert_int_equal(mkdir(t.dir, 0700), 0);
	dir = open(t.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	a = heir_address(dir);
	t.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(t.listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(t.listener, BACKLOG), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (t.listener >= 0)
		close(t.listener);
	remove_tree_at_once(t.top);
	free(t.dir);
	return 0;
}

/* Return: its exit status; what it says is in t.said. */
static int run(unsigned patience_s)
{
	int pipe[2], status = -1;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(pipe, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(pipe[1], STDERR_FILENO);
		dup2(pipe[1], STDOUT_FILENO);
		alarm(20);
		exit(takeover(&t.conf, patience_s));
	}
	close(pipe[1]);
	while ((n = read(pipe[0], t.said + len, sizeof(t.said) - 1 - len)) > 0)
		len += (size_t)n;
	t.said[len] = '\0';
	close(pipe[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void says(const char *words)
{
	if (!strstr(t.said, words))
		fail_msg("it says: %s", t.said);
}

/* It is stopped: the first are connected, and not heard; the others are not as much as that. */
static void stopped(void **state)
{
	char who[32];

	(void)state;
	snprintf(who, sizeof(who), "process %d, which", (int)getpid());
	for (unsigned i = 0; i < BACKLOG + 2; i++) {
		_cleanup_close_ int dir = open(t.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		struct sockaddr_un a = heir_address(dir);
		/* Stays there, for the next ones. */
		const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		assert_int_equal(run(1), 1);
		says("does not answer within 1 s; is it stopped?");
		if (i == 0)
			says(who);
		(void)connect(sock, (struct sockaddr *)&a, sizeof(a));
	}
	says("the spawner of the mount does not answer");
}

/* The daemon has died meanwhile: it is not served as before. */
static void refused(void **state)
{
	const struct heir_answer no = {.magic = HEIR_MAGIC, .words = "it has died"};
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		const int sock = accept(t.listener, NULL, NULL);
		char asked[4096];

		if (recv(sock, asked, sizeof(asked), 0) <= 0)
			_exit(1);
		_exit(fdpass_send(sock, &no, sizeof(no), NULL, 0, 0) != sizeof(no));
	}
	assert_int_equal(run(10), 1);
	says("/mnt/there was not taken over: it has died\n");
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void nobody(void **state)
{
	(void)state;
	close(steal_fd(&t.listener));
	assert_int_equal(run(10), 1);
	says("no xsbxfs of this user is mounted on /mnt/there");
}

int main(void)
{
#define takeover_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {takeover_test(stopped), takeover_test(refused),
					   takeover_test(nobody)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
