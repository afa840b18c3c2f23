/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory: what is in it is whole, and whose it says; what is not is found out. */
/* modules: fs/keep/store.c tests/unit/fixture/vault_fake.c tests/unit/fixture/pack_fake.c */
/* modules: vm/checkpoint/saved.c vm/base/wait.c vm/base/buf.c vm/base/io.c vm/base/path.c vm/base/problem.c vm/base/remove.c vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/keep/store.h"
#include "tests/unit/fixture/vault_fake.h"
#include "vm/base/problem.h"
#include "vm/base/remove.h"

static char top[] = "/tmp/xsbxfs-unit.XXXXXX", state[PATH_MAX];
static const struct store_name demo = {"python", "demo", {12345, 678}};

static struct store opened(void)
{
	struct problem why = {0};
	struct store st;

	if (store_open(state, &st, &why) < 0)
		fail_msg("%s", why.cause);
	assert_int_equal(store_use(&st, vm_vault(NULL)), 0);
	return st;
}

static int setup(void **data)
{
	(void)data;
	snprintf(top, sizeof(top), "/tmp/xsbxfs-unit.XXXXXX");
	assert_non_null(mkdtemp(top));
	snprintf(state, sizeof(state), "%s/state", top);
	return 0;
}

static int teardown(void **data)
{
	(void)data;
	return remove_tree(top);
}

static int write_record(struct store *st, const struct store_name *of, const char *text)
{
	const int fd = store_stage(st, of, text, strlen(text));

	if (fd < 0)
		return fd;
	assert_int_equal(store_settle(fd), 0);
	assert_int_equal(store_publish(st, of), 0);
	return store_sync(st, of->template);
}

static int read_record(struct store *st, const char *template, const char *name, char *ret)
{
	struct buf out = {0};
	const int e = store_read(st, template, name, &out);

	if (e == 0)
		snprintf(ret, 100, "%.*s", (int)out.len, out.len ? out.data : "");
	buf_clear(&out);
	return e;
}

static unsigned nlisted;

static void on_listed(void *data, const char *template, const char *name)
{
	assert_string_equal(template, "python");
	assert_string_equal(name, data);
	nlisted++;
}

static void test_records(void **data)
{
	struct store st = opened();
	char name[] = "demo", text[100], path[PATH_MAX + 100], other[PATH_MAX + 100];

	(void)data;
	assert_int_equal(read_record(&st, "python", "demo", text), -ENOENT);
	assert_int_equal(write_record(&st, &demo, "one"), 0);
	assert_int_equal(write_record(&st, &demo, "two"), 0);
	assert_int_equal(read_record(&st, "python", "demo", text), 0);
	assert_string_equal(text, "two");
	/* What was being written when the power was cut is no record. */
	close(store_stage(&st, &demo, "three", 5));
	assert_int_equal(read_record(&st, "python", "demo", text), 0);
	assert_string_equal(text, "two");
	nlisted = 0;
	assert_int_equal(store_list(&st, on_listed, name), 0);
	assert_int_equal(nlisted, 1);
	/* One that was put elsewhere is not that one's. */
	snprintf(path, sizeof(path), "%s/sessions/python/demo.rec", state);
	snprintf(other, sizeof(other), "%s/sessions/python/other.rec", state);
	assert_int_equal(link(path, other), 0);
	assert_int_equal(read_record(&st, "python", "other", text), -EBADMSG);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(symlink(path, other), 0);
	assert_int_equal(read_record(&st, "python", "other", text), -EBADMSG);
	assert_int_equal(truncate(path, 5), 0);
	assert_int_equal(read_record(&st, "python", "demo", text), -EBADMSG);
	assert_int_equal(store_remove(&st, "python", "demo"), 0);
	assert_int_equal(read_record(&st, "python", "demo", text), -ENOENT);
	assert_int_equal(unlink(other), 0);
	snprintf(path, sizeof(path), "%s/sessions/python", state);
	assert_int_equal(rmdir(path), 0); /* nor is what was being written there */
	assert_int_equal(store_remove(&st, "python", "demo"), 0);
	assert_int_equal(store_remove(&st, "none", "demo"), 0);
	/* Without the vault nothing is sealed any more. */
	assert_int_equal(store_use(&st, NULL), 0);
	assert_int_equal(write_record(&st, &demo, "four"), -ECANCELED);
	store_close(&st);
}

/* Who lists hears of what could not be listed, for he may remove what nothing names; and has the rest all the same. */
static void test_list(void **data)
{
	char name[] = "demo", path[PATH_MAX + 100];
	struct store st = opened();
	int fd;

	(void)data;
	assert_int_equal(write_record(&st, &demo, "one"), 0);
	snprintf(path, sizeof(path), "%s/sessions/notes", state);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	nlisted = 0;
	assert_int_equal(store_list(&st, on_listed, name), 0);
	assert_int_equal(nlisted, 1);
	/* One before it and one behind it, in whatever order they are. */
	for (int i = 0; i < 8; i++) {
		snprintf(path, sizeof(path), "%s/sessions/away%d", state, i);
		assert_int_equal(symlink("/nonexistent", path), 0);
	}
	nlisted = 0;
	assert_int_equal(store_list(&st, on_listed, name), -ENOTDIR);
	assert_int_equal(nlisted, 1);
	store_close(&st);
}

static int give(void *data, uint64_t offset, void *to, size_t len)
{
	const uint64_t fails_at = *(uint64_t *)data;

	if (fails_at && offset >= fails_at)
		return -EIO;
	memset(to, (int)('a' + offset / 65536 % 26), len);
	return 0;
}

struct taking {
	uint64_t n;
};

static int take(void *data, const void *bytes, size_t len)
{
	struct taking *t = data;

	assert_int_equal(*(const char *)bytes, 'a' + t->n / 65536 % 26);
	t->n += len;
	return 0;
}

static void test_outputs(void **data)
{
	const struct store_output o = {"r1.0"}, o2 = {"r2.0"};
	struct store_name later = demo;
	struct store st = opened();
	struct taking t = {0};
	uint64_t fails_at = 0;
	char path[PATH_MAX + 100];

	(void)data;
	assert_int_equal(write_record(&st, &demo, "one"), 0);
	assert_int_equal(store_put_output(&st, &demo, &o, 200000, give, &fails_at), 0);
	assert_int_equal(store_put_output(&st, &demo, &o2, 65536, give, &fails_at), 0);
	assert_int_equal(store_get_output(&st, &demo, &o, 200000, take, &t), 0);
	assert_int_equal(t.n, 200000);
	/* One of that name that was made at another time has none; nor is one of another length the same. */
	later.made.tv_nsec++;
	assert_int_equal(store_get_output(&st, &later, &o, 200000, take, &t), -ENOENT);
	t.n = 0;
	assert_int_equal(store_get_output(&st, &demo, &o, 200001, take, &t), -EBADMSG);
	t.n = 0;
	assert_int_equal(store_get_output(&st, &demo, &o, 131072, take, &t), -EBADMSG);
	/* What could not be read leaves the old one. */
	fails_at = 100000;
	assert_int_equal(store_put_output(&st, &demo, &o, 200000, give, &fails_at), -EIO);
	t.n = 0;
	assert_int_equal(store_get_output(&st, &demo, &o, 200000, take, &t), 0);
	store_trim_outputs(&st, &demo, &o2, 1);
	assert_int_equal(store_get_output(&st, &demo, &o, 200000, take, &t), -ENOENT);
	t.n = 0;
	assert_int_equal(store_get_output(&st, &demo, &o2, 65536, take, &t), 0);
	assert_int_equal(store_remove(&st, "python", "demo"), 0);
	snprintf(path, sizeof(path), "%s/sessions/python", state);
	assert_int_equal(rmdir(path), 0); /* nothing is left of it */
	store_close(&st);
}

static void expect_refused(const char *words, int err)
{
	struct problem why = {0};
	struct store st;

	assert_int_equal(store_open(state, &st, &why), err);
	if (!strstr(why.cause, words))
		fail_msg("\"%s\" is not in \"%s\"", words, why.cause);
}

static void test_directories(void **data)
{
	char path[PATH_MAX + 100];
	struct stat sb;
	struct store st;
	int fd;

	(void)data;
	assert_int_equal(mkdir(state, 0755), 0);
	assert_int_equal(chmod(state, 0775), 0);
	expect_refused("others may write", -EPERM);
	assert_int_equal(chmod(state, 0755), 0);
	st = opened();
	assert_int_equal(stat(state, &sb), 0);
	assert_int_equal(sb.st_mode & 0777, 0700);
	store_close(&st);
	snprintf(path, sizeof(path), "%s/version", state);
	fd = open(path, O_WRONLY | O_TRUNC);
	/* The one before can be read, and is made this one when something is written that it had not. */
	assert_int_equal(pwrite(fd, "1\n", 2, 0), 2);
	st = opened();
	assert_int_equal(store_upgrade(&st), 0);
	store_close(&st);
	close(fd);
	st = opened();
	assert_int_equal(st.version, STORE_VERSION);
	store_close(&st);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "3\n", 2, 0), 2);
	expect_refused("version 3", -EPROTO);
	assert_int_equal(ftruncate(fd, 0), 0);
	expect_refused("damaged", -EBADMSG);
	close(fd);
	snprintf(path, sizeof(path), "%s.real", state);
	assert_int_equal(rename(state, path), 0);
	assert_int_equal(symlink(path, state), 0);
	expect_refused("or a link", -ENOTDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_records, setup, teardown),
		cmocka_unit_test_setup_teardown(test_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_outputs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directories, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
