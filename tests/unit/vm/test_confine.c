/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon can no longer write or connect to when it has confined itself, each beside what it could before. */
/* modules: vm */
/* libs: uv seccomp */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "vm/base/landlock.h"
#include "vm/confine.h"
#include "vm/jail/seccomp.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

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

/* As init, a message bus or a container engine has, by whom programs are run. */
static int receiver(int type, const char *path, struct sockaddr_un *ret_name, socklen_t *ret_len)
{
	const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	*ret_name = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (path)
		snprintf(ret_name->sun_path, sizeof(ret_name->sun_path), "%s", path);
	else
		snprintf(ret_name->sun_path + 1, sizeof(ret_name->sun_path) - 1, "xsbx%d",
			 getpid());
	*ret_len = sizeof(*ret_name);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)ret_name, *ret_len), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static struct sockaddr_un names[2]; /* by a path, abstract */
static socklen_t lens[2];

/* Return: could it be connected to? With a socket from before, too. */
static bool connects(int i, int old)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const bool can = connect(fd >= 0 ? fd : old, (struct sockaddr *)&names[i], lens[i]) == 0;

	if (fd >= 0)
		close(fd);
	return can;
}

static void sockets(void **state)
{
	const struct confine_spec spec = {"/nowhere", "/nowhere", "/nowhere", "/nowhere", NULL};
	char dir[] = "/tmp/xsbx-test.XXXXXX", path[64];
	const char *step;
	int status, fds[2], old;
	pid_t pid;

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip(); /* there is no filter then */
#endif
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/bus", dir);
	fds[0] = receiver(SOCK_STREAM, path, &names[0], &lens[0]);
	fds[1] = receiver(SOCK_STREAM, NULL, &names[1], &lens[1]);
	old = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(connects(0, -1) && connects(1, -1));
	pid = fork();
	if (pid == 0)
		_exit(confine(&spec, &step) < 0 ? 255 : connects(0, old) | connects(1, old) << 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(old);
	close(fds[0]);
	close(fds[1]);
	remove_tree(dir);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Return: could something be sent there? By one end of a pair, for which nothing is connected. */
static bool sends(int i)
{
	int pair[2];
	bool can;

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	can = sendto(pair[0], "x", 1, 0, (struct sockaddr *)&names[i], lens[i]) == 1;
	close(pair[0]);
	close(pair[1]);
	return can;
}

static bool pairs(int type)
{
	int pair[2];

	return socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0 &&
	       send(pair[0], "x", 1, 0) == 1;
}

static unsigned under(enum jail_use use)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || jail_seccomp_install(use, false) < 0)
		return 255;
	return (unsigned)sends(0) | (unsigned)sends(1) << 1 | (unsigned)!pairs(SOCK_STREAM) << 2 |
	       (unsigned)!pairs(SOCK_SEQPACKET) << 3;
}

/* Init and the log listen for datagrams, too: none of those who see the host's sockets can send one. */
static void datagrams(void **state)
{
	static const enum jail_use uses[] = {JAIL_DAEMON, JAIL_DIAL, JAIL_STORE};
	char dir[] = "/tmp/xsbx-test.XXXXXX", path[64];
	int status, fds[2];
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/log", dir);
	fds[0] = receiver(SOCK_DGRAM, path, &names[0], &lens[0]);
	fds[1] = receiver(SOCK_DGRAM, NULL, &names[1], &lens[1]);
	assert_true(sends(0) && sends(1));
	for (size_t i = 0; i < ARRAY_SIZE(uses); i++) {
		pid = fork();
		if (pid == 0)
			_exit((int)under(uses[i]));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	close(fds[0]);
	close(fds[1]);
	remove_tree(dir);
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(images), cmocka_unit_test(sockets),
					   cmocka_unit_test(datagrams)};

	if (landlock_abi() <= 0) {
		puts("the kernel has no Landlock: the daemon's view of files is not confined");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
