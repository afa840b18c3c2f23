/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon can no longer write to when it has confined itself, each beside what it could before. */
/* modules: vm */
/* libs: uv seccomp */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "agent/landlock.h"
#include "vm/confine.h"
#include "vm/remove.h"
#include "vm/util.h"

static char top[64], cache[80], run[80], spool[80], agent[80];

/* Return: could a file be made there? */
static bool writes(const char *dir, const char *sub)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/%s/new", dir, sub);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && unlink(path) == 0;
}

static unsigned look(void)
{
	char link[160];
	unsigned found = 0;

	snprintf(link, sizeof(link), "%s/images/templates/evil", cache);
	found |= writes(cache, "images") ? 1u : 0;
	found |= writes(cache, "images/templates") ? 2u : 0;
	found |= writes(cache, ".") ? 4u : 0;
	found |= symlink("/", link) == 0 && unlink(link) == 0 ? 8u : 0;
	found |= writes(cache, "snapshots") ? 16u : 0;
	found |= writes(cache, "layers") ? 32u : 0;
	found |= writes(run, ".") ? 64u : 0;
	found |= writes(spool, ".") ? 128u : 0;
	return found;
}

static void make(char *path, size_t size, const char *fmt, ...) printf_like(3, 4);
static void make(char *path, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, size, fmt, ap);
	va_end(ap);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void images(void **state)
{
	const struct confine_spec spec = {cache, run, spool, agent, NULL};
	const char *step;
	char path[160];
	int status;
	pid_t pid;

	(void)state;
	strcpy(top, "/tmp/xsbx-test.XXXXXX");
	assert_non_null(mkdtemp(top));
	make(cache, sizeof(cache), "%s/cache", top);
	make(run, sizeof(run), "%s/run", top);
	make(path, sizeof(path), "%s/images", cache);
	make(path, sizeof(path), "%s/images/templates", cache);
	make(path, sizeof(path), "%s/snapshots", cache);
	make(path, sizeof(path), "%s/layers", cache);
	make(spool, sizeof(spool), "%s/spool", cache);
	snprintf(agent, sizeof(agent), "%s/agent", top);
	assert_int_equal(look(), 255);
	pid = fork();
	if (pid == 0)
		_exit(confine(&spec, &step) < 0 ? 255 : (int)look());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	remove_tree(top);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 16 + 32 + 64 + 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(images)};

	if (landlock_abi() <= 0) {
		puts("the kernel has no Landlock: the daemon's view of files is not confined");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
