/* SPDX-License-Identifier: Apache-2.0 */
/* The key of a host: made once, for nobody else, and never replaced. */
/* modules: vm/checkpoint/host_key.c vm/checkpoint/seal.c vm/base/sink.c vm/base/io.c vm/base/buf.c vm/base/problem.c agent/protocol.c vm/base/remove.c */
/* libs: crypto */
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
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/io.h"
#include "vm/base/problem.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"
#include "vm/checkpoint/host_key.h"
#include "vm/checkpoint/seal.h"

static char top[64], path[96];
static int dir;

static void put(const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(fileio_write(fd, text, strlen(text)), 0);
}

static void read_text(char text[128])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = read(fd, text, 127);

	assert_true(n > 0);
	text[n] = '\0';
}

/* A name tells whether two keys are the same. */
static void same(const struct seal_key *a, const struct seal_key *b, bool yes)
{
	char x[SEAL_NAME], y[SEAL_NAME];

	assert_int_equal(seal_name(a, "x", x), 0);
	assert_int_equal(seal_name(b, "x", y), 0);
	assert_int_equal(strcmp(x, y) == 0, yes);
}

static void refused(int err, const char *words)
{
	struct seal_key *key = NULL;
	char before[128], after[128];
	struct problem why;
	struct stat st;
	const bool there = lstat(path, &st) == 0 && S_ISREG(st.st_mode);

	if (there)
		read_text(before);
	assert_int_equal(host_key_load(dir, false, &key, &why), err);
	assert_null(key);
	assert_non_null(strstr(why.cause, words));
	if (there) {
		read_text(after);
		assert_string_equal(before, after);
	}
}

static void is_made_once(void **state)
{
	struct seal_key *a, *b;
	struct problem why;
	struct stat st;
	char text[128];

	(void)state;
	refused(-ENOKEY, "is gone");
	assert_int_equal(lstat(path, &st), -1);
	assert_int_equal(host_key_load(dir, true, &a, &why), 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, 65);
	read_text(text);
	assert_int_equal(strspn(text, "0123456789abcdef"), 64);
	assert_int_equal(host_key_load(dir, true, &b, &why), 0);
	same(a, b, true);
	seal_key_free(b);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(host_key_load(dir, true, &b, &why), 0);
	same(a, b, false);
	seal_key_free(a);
	seal_key_free(b);
}

static void is_for_nobody_else(void **state)
{
	struct seal_key *a;
	struct problem why;
	char other[96];

	(void)state;
	assert_int_equal(host_key_load(dir, true, &a, &why), 0);
	seal_key_free(a);
	chmod(path, 0640);
	refused(-EPERM, "others may read");
	chmod(path, 0602);
	refused(-EPERM, "others may read");
	chmod(path, 0400);
	assert_int_equal(host_key_load(dir, false, &a, &why), 0);
	seal_key_free(a);
	snprintf(other, sizeof(other), "%s/other", top);
	assert_int_equal(link(path, other), 0);
	refused(-EPERM, "another name");
	unlink(path);
	assert_int_equal(symlink("other", path), 0);
	refused(-EBADMSG, "not a plain file");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(-EBADMSG, "not a plain file");
	unlink(path);
	assert_int_equal(rename(other, path), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 0), 0);
		refused(-EPERM, "belongs to somebody else");
	}
}

static void text_is_checked(void **state)
{
	static const char good[] =
		"00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
	static const char *const bad[] = {
		"",
		"0",
		"00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEF",
		"00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF0",
		"00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFg",
		" 0112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF",
	};
	struct seal_key *a, *b;
	struct problem why;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(host_key_parse(bad[i], strlen(bad[i]), &a), -EINVAL);
		put(bad[i]);
		if (*bad[i])
			refused(-EINVAL, "64 hexadecimal digits");
	}
	assert_int_equal(host_key_parse(good, strlen(good), &a), 0);
	put(good);
	assert_int_equal(host_key_load(dir, false, &b, &why), 0);
	same(a, b, true);
	seal_key_free(b);
	assert_int_equal(host_key_parse("00112233445566778899aabbccddeeff00112233445566778899aabbcc"
					"ddeeff\n",
					65, &b),
			 0);
	same(a, b, true);
	seal_key_free(a);
	seal_key_free(b);
}

static int setup(void **state)
{
	(void)state;
	strcpy(top, "/tmp/test_host_key.XXXXXX");
	if (!mkdtemp(top))
		return -1;
	snprintf(path, sizeof(path), "%s/key", top);
	dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(dir);
	return remove_tree(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(is_made_once, setup, teardown),
		cmocka_unit_test_setup_teardown(is_for_nobody_else, setup, teardown),
		cmocka_unit_test_setup_teardown(text_is_checked, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
