/* SPDX-License-Identifier: Apache-2.0 */
/* Reaping what a crashed instance left, and nothing else. */
/* modules: vm/spawn/registry.c vm/base/io.c vm/base/remove.c */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "vm/spawn/registry.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

static char dir[64];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/xsbx-test.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return remove_tree(dir);
}

static void nothing_noted(void **state)
{
	(void)state;
	assert_int_equal(registry_reap(dir), -ENOENT);
}

/* Where it can't be written, the one who asks is told, and no half of it stays. */
static void full_disk(void **state)
{
	const struct rlimit none = {0, RLIM_INFINITY};
	struct rlimit was;
	char path[96];

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(registry_write(dir, getpid()), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	snprintf(path, sizeof(path), "%s/processes.new", dir);
	assert_int_equal(access(path, F_OK), -1);
}

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void survivor(void **state)
{
	pid_t pid = sleeper();
	int status;

	(void)state;
	assert_int_equal(registry_write(dir, pid), 0);
	assert_int_equal(registry_reap(dir), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_int_equal(registry_reap(dir), 0);
}

/* Changes what is written at the registry's @line (from 0). */
static void edit(unsigned line, const char *text)
{
	char path[128], lines[2][256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/processes", dir);
	f = fopen(path, "r");
	assert_non_null(f);
	for (unsigned i = 0; i < 2; i++)
		assert_non_null(fgets(lines[i], sizeof(lines[i]), f));
	fclose(f);
	f = fopen(path, "w");
	for (unsigned i = 0; i < 2; i++)
		fputs(i == line ? text : lines[i], f);
	fclose(f);
}

/* The same number, but another process: it must live. */
static void foreign(void **state)
{
	char text[64];
	pid_t pid = sleeper();

	(void)state;
	assert_int_equal(registry_write(dir, pid), 0);
	snprintf(text, sizeof(text), "spawner %d 12345\n", pid);
	edit(1, text);
	assert_int_equal(registry_reap(dir), 0);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_int_equal(registry_write(dir, pid), 0);
	edit(0, "another-boot\n");
	assert_int_equal(registry_reap(dir), 0);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void nonsense(void **state)
{
	(void)state;
	assert_int_equal(registry_write(dir, getpid()), 0);
	edit(1, "spawner -1 5\n");
	assert_int_equal(registry_reap(dir), -EBADMSG);
	edit(1, "spawner 1 5\n");
	assert_int_equal(registry_reap(dir), -EBADMSG);
	edit(1, "\n");
	assert_int_equal(registry_reap(dir), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(nothing_noted), T(full_disk), T(survivor), T(foreign), T(nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
