/* SPDX-License-Identifier: Apache-2.0 */
/* Which links of a sandbox are made in a directory of the host, and what is removed and made there. */
/* modules: vm */
/* libs: crypto */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/task/overlay_diff.h"
#include "vm/task/overlay_internal.h"

static void links(void **state)
{
	static const struct {
		const char *target;
		unsigned depth;
		const char *want; /* NULL: refused */
	} cases[] = {
		{"a", 0, "a"},
		{"a/b", 0, "a/b"},
		{"./a", 0, "./a"},
		{".", 0, "."},
		{"../a", 1, "../a"},
		{"../../a/b", 2, "../../a/b"},
		{"a/", 0, "a/"},
		{"..a", 0, "..a"},
		{"...", 0, "..."},
		{"/home/user/a", 0, "a"},
		{"/home/user/a", 2, "../../a"},
		{"..", 0, NULL},
		{"../a", 0, NULL},
		{"../../a", 1, NULL},
		{"./../a", 0, NULL},
		{"..//../a", 1, NULL},
		{"a/../b", 5,
		 NULL}, /* `a` may be a link to anywhere below, and above that is ... */
		{"a//..", 5, NULL},
		{"a/./..", 5, NULL},
		{"/etc/passwd", 3, NULL},
		{"/home/user", 3, NULL},
		{"/home/user/", 3, NULL},
		{"/home/user/../x", 3, NULL},
		{"/home/userx", 3, NULL},
		{"//home/user/a", 3, NULL},
		{"", 0, NULL},
	};
	char target[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int r = overlay_link_target(cases[i].target, cases[i].depth, target);

		if (r != (cases[i].want ? 0 : -ENOTSUP) ||
		    (r == 0 && strcmp(target, cases[i].want) != 0))
			fail_msg("\"%s\" at %u: %d, \"%s\"", cases[i].target, cases[i].depth, r,
				 r == 0 ? target : "");
	}
}

static void long_links(void **state)
{
	char target[PATH_MAX], link[PATH_MAX];

	(void)state;
	memset(link, 'a', sizeof(link) - 1);
	link[sizeof(link) - 1] = '\0';
	assert_int_equal(overlay_link_target(link, 0, target), 0);
	memcpy(link, "/home/user/", strlen("/home/user/"));
	assert_int_equal(overlay_link_target(link, 0, target), 0);
	assert_int_equal(overlay_link_target(link, 99, target), -ENOTSUP); /* it does not fit */
}

/* What looks like a file and is none when it is opened. */
static void opens_only_what_it_is(void **state)
{
	char dir[] = "/tmp/test_tree.XXXXXX", path[64];
	int fd, top;

	(void)state;
	assert_non_null(mkdtemp(dir));
	top = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(mkdirat(top, "d", 0700), 0);
	assert_int_equal(mkfifoat(top, "fifo", 0600), 0);
	assert_int_equal(symlinkat("d", top, "link"), 0);
	fd = openat(top, "file", O_CREAT | O_WRONLY, 0600);
	close(fd);
	fd = overlay_open(top, "file", S_IFREG, O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(overlay_open(top, "fifo", S_IFREG, O_RDONLY),
			 -ESTALE); /* and does not wait */
	assert_int_equal(overlay_open(top, "link", S_IFDIR, O_RDONLY), -ESTALE);
	assert_int_equal(overlay_open(top, "d", S_IFREG, O_RDONLY), -ESTALE);
	assert_int_equal(overlay_open(top, "..", S_IFDIR, O_RDONLY), -EXDEV);
	/* Removing does not follow either. */
	snprintf(path, sizeof(path), "%s/d/x", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	assert_int_equal(overlay_remove(top, "link", 0), 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(overlay_remove(top, "d", 0), 0);
	assert_int_equal(overlay_remove(top, "fifo", 0), 0);
	assert_int_equal(overlay_remove(top, "file", 0), 0);
	assert_int_equal(overlay_remove(top, "nothing", 0), 0);
	close(top);
	assert_int_equal(rmdir(dir), 0);
}

/* ---- on the disk before it is done ---- */

static struct {
	int calls, err;
	bool made; /* what was to be made was there when it was called */
} * synced;

/* In the place of libc's. */
int syncfs(int fd)
{
	struct stat st;

	synced->calls++;
	synced->made = fstatat(fd, "new", &st, 0) == 0 && st.st_size == 4;
	errno = synced->err;
	return synced->err ? -1 : 0;
}

/* Commits one new file, in a root of its own. */
static void commit_one(int err, const char *want)
{
	char dir[] = "/tmp/xsbx-tree.XXXXXX", path[64], words[512] = "";
	int begin[2], said[2], fd, status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/base", dir);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/upper", dir);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/upper/new", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, "text", 4), 4);
	close(fd);
	assert_int_equal(pipe2(begin, O_CLOEXEC), 0);
	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	synced->calls = 0;
	synced->made = false;
	synced->err = err;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int upper;

		if (chroot(dir) < 0 || chdir("/") < 0)
			_exit(2);
		upper = open("/upper", O_RDONLY | O_DIRECTORY);
		if (dup2(begin[0], OVERLAY_BEGIN_FD) < 0 || dup2(said[1], OVERLAY_WORDS_FD) < 0 ||
		    dup2(upper, OVERLAY_UPPER_FD) < 0)
			_exit(2);
		overlay_diff_serve(OVERLAY_COMMIT);
	}
	close(said[1]);
	assert_int_equal(write(begin[1], "xx", 2), 2);
	while ((n = read(said[0], words + len, sizeof(words) - 1 - len)) > 0)
		len += (size_t)n;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	if (!strstr(words, want))
		fail_msg("\"%s\" is not in \"%s\"", want, words);
	assert_int_equal(synced->calls, 1);
	assert_true(synced->made);
	close(said[0]);
	close(begin[0]);
	close(begin[1]);
	snprintf(path, sizeof(path), "rm -rf %s", dir);
	assert_int_equal(system(path), 0); /* NOLINT: a directory of the test's */
}

static void commits_to_the_disk(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	synced = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(synced != MAP_FAILED);
	commit_one(0, "\ndone 1 0\n");
	commit_one(EIO, "it may not be on the disk yet: Input/output error\ndone 1 1\n");
	munmap(synced, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links),
		cmocka_unit_test(long_links),
		cmocka_unit_test(opens_only_what_it_is),
		cmocka_unit_test(commits_to_the_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
