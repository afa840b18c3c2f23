/* SPDX-License-Identifier: Apache-2.0 */
/* Who seeks before each read is known by its name. (caller_killed() is in test_input.) */
/* modules: fs/request/caller.c */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/request/caller.h"

/* Is a process of this name taken for one that seeks? */
static bool seeks(const char *name)
{
	int ready[2];
	bool found;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_NAME, name);
		close(ready[1]);
		close(ready[0]);
		pause();
	}
	assert_true(pid > 0);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 0); /* it has its name */
	close(ready[0]);
	found = caller_seeks(pid);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(caller_seeks(pid));
	return found;
}

static void test_seeks(void **state)
{
	(void)state;
	assert_true(seeks("sftp-server"));
	assert_true(seeks("sshd"));
	assert_true(seeks("sshd-session"));
	assert_false(seeks("cat"));
	assert_false(seeks("ssh"));
	assert_false(seeks("sftp-server2"));
	assert_false(seeks("my sshd"));
	assert_false(seeks(""));
	assert_false(caller_seeks(getpid()));
	assert_false(caller_seeks(0));
	assert_false(caller_seeks(-1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeks)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
