/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that only root can change: who owns what, who may write, links, and what changes meanwhile. */
/* modules: vm/base/trusted.c vm/base/remove.c vm/base/io.c */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <cmocka.h>

#include "vm/base/remove.h"
#include "vm/base/trusted.h"
#include "vm/base/util.h"

#define STRANGER 4242u

static char top[64], why[TRUSTED_WHY];
static int top_fd;

static const char *at(const char *path)
{
	static char full[4][PATH_MAX];
	static unsigned n;
	char *to = full[n++ % 4];

	snprintf(to, PATH_MAX, "%s/%s", top, path);
	return to;
}

static void put(const char *path, const char *text)
{
	_cleanup_file_ FILE *f = fopen(at(path), "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fchmod(fileno(f), 0644), 0);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(top, "/tmp/xsbx-trusted-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	top_fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (mkdir(at("a"), 0755) < 0 || mkdir(at("a/b"), 0755) < 0 || mkdir(at("c"), 0755) < 0)
		return -1;
	put("a/b/file", "right");
	return top_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(top_fd);
	return remove_tree(top);
}

/* Opens it as this user's, from the directory of the test on. */
static int walk(const char *path, int flags)
{
	int fd = trusted_walk(top_fd, geteuid(), path, flags, why);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void assert_refused(const char *path, const char *words)
{
	assert_int_equal(walk(path, O_RDONLY), -EPERM);
	if (!strstr(why, words))
		fail_msg("'%s' is not in '%s'", words, why);
}

static void assert_text(const char *path, const char *text)
{
	_cleanup_close_ int fd = trusted_walk(top_fd, geteuid(), path, O_RDONLY, why);
	char got[64] = "";

	if (fd < 0)
		fail_msg("%s", why);
	assert_true(read(fd, got, sizeof(got) - 1) >= 0);
	assert_string_equal(got, text);
}

static void right(void **state)
{
	char path[PATH_MAX];
	int fd;

	(void)state;
	assert_text("/a/b/file", "right");
	assert_text("a//./b/file", "right");
	assert_text("a/b/../b/file", "right");
	assert_int_equal(walk("a/b/", O_RDONLY | O_DIRECTORY), 0);
	assert_int_equal(walk("", O_PATH | O_DIRECTORY), 0);
	fd = trusted_walk(top_fd, geteuid(), "a/b", O_PATH | O_DIRECTORY, why);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(trusted_path(fd, path), 0);
	assert_string_equal(path, at("a/b"));
	close(fd);
}

static void absent(void **state)
{
	char name[NAME_MAX + 10], path[PATH_MAX + 10];

	(void)state;
	assert_int_equal(walk("a/none/file", O_RDONLY), -ENOENT);
	assert_non_null(strstr(why, "/a/none can't be found"));
	assert_int_equal(walk("a/b/file/more", O_RDONLY), -ENOTDIR);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(walk(name, O_RDONLY), -ENAMETOOLONG);
	memset(path, '/', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(walk(path, O_RDONLY), -ENAMETOOLONG);
	assert_true(why[0]);
}

static void writable(void **state)
{
	static const char *const parts[] = {"", "a", "a/b", "a/b/file"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct stat st;

		assert_int_equal(stat(at(parts[i]), &st), 0);
		assert_int_equal(chmod(at(parts[i]), 0775), 0);
		assert_refused("a/b/file", "may be written to by its group");
		assert_non_null(strstr(why, parts[i]));
		assert_int_equal(chmod(at(parts[i]), 0757), 0);
		assert_refused("a/b/file", "may be written to by everybody");
		/* As /tmp has it. */
		assert_int_equal(chmod(at(parts[i]), 01777), 0);
		assert_refused("a/b/file", "may be written to by everybody");
		assert_int_equal(chmod(at(parts[i]), st.st_mode & 07777), 0);
		assert_text("a/b/file", "right");
	}
}

static void foreign(void **state)
{
	static const char *const parts[] = {"", "a", "a/b", "a/b/file", "a/link"};

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(symlink("b", at("a/link")), 0);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		assert_int_equal(lchown(at(parts[i]), STRANGER, STRANGER), 0);
		assert_refused("a/link/file", "belongs to user 4242, not to root");
		assert_int_equal(lchown(at(parts[i]), 0, STRANGER), 0);
		assert_text("a/link/file", "right");
		assert_int_equal(lchown(at(parts[i]), 0, 0), 0);
	}
}

/* A link is right if where it leads is, and all on the way. */
static void links(void **state)
{
	char text[32], before[32];

	(void)state;
	assert_int_equal(symlink("../a/b", at("c/link")), 0);
	assert_text("c/link/file", "right");
	assert_text("c/link/../b/file", "right");
	assert_int_equal(symlink("/a/b/file", at("c/absolute")), 0);
	assert_text("c/absolute", "right");
	assert_int_equal(symlink("b/file", at("a/last")), 0);
	assert_text("a/last", "right");
	assert_int_equal(symlink("nowhere", at("c/dangles")), 0);
	assert_int_equal(walk("c/dangles", O_RDONLY), -ENOENT);
	assert_int_equal(symlink("circle", at("c/circle")), 0);
	assert_int_equal(walk("c/circle", O_RDONLY), -ELOOP);
	for (int i = 0; i < 50; i++) { /* 40 are followed, as by the kernel */
		snprintf(text, sizeof(text), "c/%d", i);
		snprintf(before, sizeof(before), "%d", i - 1);
		assert_int_equal(symlink(i ? before : "../a/b/file", at(text)), 0);
	}
	assert_text("c/39", "right");
	assert_int_equal(walk("c/40", O_RDONLY), -ELOOP);
	/* Where somebody else may put things, it leads to nothing that is trusted. */
	assert_int_equal(mkdir(at("open"), 0755), 0);
	put("open/file", "wrong");
	assert_int_equal(chmod(at("open"), 01777), 0);
	assert_int_equal(symlink("../open/file", at("c/out")), 0);
	assert_refused("c/out", "/open may be written to by everybody");
}

static void odd(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(at("c/fifo"), 0644), 0);
	assert_int_equal(walk("c/fifo", O_RDONLY), -EBADMSG); /* and does not wait */
	assert_int_equal(walk("c/fifo", O_PATH), -EBADMSG);
	assert_int_equal(walk("a/b/file", O_RDONLY | O_DIRECTORY), -ENOTDIR);
	assert_int_equal(walk("a/b", O_RDWR), -EISDIR);
}

/* The real one: from / on, by root's word alone. */
static void from_the_top(void **state)
{
	_cleanup_close_ int usr = -1, sh = -1;

	(void)state;
	usr = trusted_open("/usr/bin", O_PATH | O_DIRECTORY, why);
	sh = usr < 0 ? -1 : trusted_open_at(usr, "sh", O_RDONLY, why);
	if (usr < 0 || sh < 0) {
		print_message("here not even /usr/bin/sh is root's: %s\n", why);
		skip();
	}
	assert_int_equal(trusted_open(at("a/b/file"), O_RDONLY, why), -EPERM);
	assert_string_equal(why, "/tmp may be written to by everybody");
	/* A link that names a path from the top on means the real one. */
	assert_int_equal(symlink("/usr/bin/sh", at("c/sh")), 0);
	close(sh);
	sh = trusted_open_at(top_fd, "c/sh", O_RDONLY, why);
	assert_true(geteuid() == 0 ? sh >= 0 : sh == -EPERM);
}

/* ---- meanwhile ---- */

static int stop;

/* What may be changed and what may not take turns under one name. */
static void *swap(void *data)
{
	(void)data;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		(void)renameat2(AT_FDCWD, at("a/b"), AT_FDCWD, at("a/evil"), RENAME_EXCHANGE);
		(void)renameat2(AT_FDCWD, at("a/link"), AT_FDCWD, at("a/plain"), RENAME_EXCHANGE);
	}
	return NULL;
}

/* Whatever is opened, it is never what is in the directory that others may write to. */
static void meanwhile(void **state)
{
	unsigned opened = 0, refused = 0, wrong = 0;
	pthread_t other;

	(void)state;
	assert_int_equal(mkdir(at("a/evil"), 0755), 0);
	put("a/evil/file", "wrong");
	assert_int_equal(chmod(at("a/evil"), 0777), 0);
	assert_int_equal(symlink("evil", at("a/link")), 0);
	assert_int_equal(mkdir(at("a/plain"), 0755), 0);
	put("a/plain/file", "right");
	assert_int_equal(pthread_create(&other, NULL, swap, NULL), 0);
	for (unsigned i = 0; i < 20000 && (i < 2000 || !opened || !refused); i++) {
		_cleanup_close_ int fd = trusted_walk(
			top_fd, geteuid(), i % 2 ? "a/b/file" : "a/link/file", O_RDONLY, why);
		char got[8] = "";

		opened += fd >= 0;
		refused += fd == -EPERM;
		if (fd >= 0 && (read(fd, got, 5) != 5 || strcmp(got, "right") != 0))
			wrong++;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(other, NULL);
	print_message("%u opened, %u refused\n", opened, refused);
	assert_int_equal(wrong, 0);
	assert_true(opened && refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(right, set_up, tear_down),
		cmocka_unit_test_setup_teardown(absent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(writable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(foreign, set_up, tear_down),
		cmocka_unit_test_setup_teardown(links, set_up, tear_down),
		cmocka_unit_test_setup_teardown(odd, set_up, tear_down),
		cmocka_unit_test_setup_teardown(from_the_top, set_up, tear_down),
		cmocka_unit_test_setup_teardown(meanwhile, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
