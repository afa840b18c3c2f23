/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed tree: what is where, with which attributes, and how it goes away. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "fs/config/daemon_internal.h"
#include "fs/tree/table.h"
#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"

static void test_listings(void **state)
{
	struct fixture *fx = *state;

	assert_string_equal(fx_ls(fx, ""), "README.md status.json isolation doctor metrics events "
					   "error ctl status.html quota python raw ");
	assert_string_equal(fx_ls(fx, "python"), "template.json README.md demo ");
	assert_string_equal(fx_ls(fx, "raw"), "template.json README.md ");
	assert_string_equal(fx_ls(fx, "python/demo"),
			    "in stdin stdout stderr output summary state status.json error config "
			    "ctl console files.events files runs README.md net ports events jobs "
			    "checkpoints status.html ");
	fx_put(fx, TOP "temp", "x");
	fake_exit(fx_run(fx, "x"), VM_DONE, 0);
	assert_string_equal(fx_ls(fx, "python/demo"),
			    "in stdin stdout stderr output exit_code summary state status.json "
			    "error config ctl console files.events files runs README.md net ports "
			    "events jobs checkpoints status.html temp ");
	assert_string_equal(fx_ls(fx, TOP "runs"), "latest 1 ");
	assert_string_equal(
		fx_ls(fx, TOP "runs/1"),
		"in stdout stderr output exit_code state status.json summary wait replay ");
}

/* What the root has itself would hide a template of that name. */
static void test_templates_called_like_nodes(void **state)
{
	struct fixture *fx = *state;
	char why[512];
	const struct conf_source src = {.why = why, .why_size = sizeof(why)};

	for (int k = 0; k < NODE_NKINDS; k++) {
		if (node_defs[k].parent == NODE_ROOT && node_defs[k].name)
			assert_null(conf_template_get(&fx->conf, node_defs[k].name, &src));
	}
}

static void test_modes(void **state)
{
	static const struct {
		const char *path;
		mode_t mode;
	} rows[] = {
		{"", S_IFDIR | 01777},
		{"README.md", S_IFREG | 0444},
		{"python", S_IFDIR | 01777},
		{"python/demo", S_IFDIR | 0700},
		{TOP "in", S_IFREG | 0600},
		{TOP "stdin", S_IFREG | 0200},
		{TOP "stdout", S_IFREG | 0400},
		{TOP "config", S_IFREG | 0600},
		{TOP "ctl", S_IFREG | 0200},
		{TOP "files", S_IFDIR | 0700},
		{TOP "runs", S_IFDIR | 0700},
		{TOP "runs/1", S_IFDIR | 0700},
		{TOP "runs/1/in", S_IFREG | 0400},
		{TOP "runs/latest", S_IFLNK | 0777},
	};
	struct fixture *fx = *state;

	fx_put(fx, TOP "in", "x");
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct stat st;

		assert_int_equal(fx_stat(fx, rows[i].path, &st), 0);
		if (st.st_mode != rows[i].mode)
			fail_msg("%s: mode %o", rows[i].path, st.st_mode);
		assert_int_equal(st.st_uid, strchr(rows[i].path, '/') ? 1000 : getuid());
		assert_true(st.st_ino && st.st_ino <= INT64_MAX);
	}
}

static void test_lookups_that_fail(void **state)
{
	static const char *const paths[] = {
		"nothing",     "python/other",	TOP "nothing",	   TOP "runs/1",
		TOP "runs/0",  TOP "runs/01",	TOP "runs/+1",	   TOP "runs/99999999999",
		TOP "runs/1x", TOP "exit_code", TOP "runs/latest", TOP "files/x",
	};
	struct fixture *fx = *state;
	char name[300];
	uint64_t ino;

	for (unsigned i = 0; i < ARRAY_SIZE(paths); i++)
		if (fx_walk(fx, paths[i], &ino) != -ENOENT)
			fail_msg("%s is there", paths[i]);
	assert_int_equal(fake_count(), 0); /* looking starts nothing */
	assert_int_equal(fx_walk(fx, TOP "in/x", &ino), -ENOTDIR);
	memset(name, 'n', sizeof(name));
	name[299] = '\0';
	assert_int_equal(fx_walk(fx, name, &ino), -ENAMETOOLONG);
}

static void test_stale_numbers(void **state)
{
	static const char *const paths[] = {"python/demo",   TOP "in",	 TOP "stdout",
					    TOP "files",     TOP "runs", TOP "runs/1",
					    TOP "runs/1/in", TOP "temp"};
	struct fixture *fx = *state;
	uint64_t ino[ARRAY_SIZE(paths)];
	struct stat st;

	fx_put(fx, TOP "temp", "x");
	fx_run(fx, "secret");
	for (unsigned i = 0; i < ARRAY_SIZE(paths); i++)
		ino[i] = fx_ino(fx, paths[i]);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0); /* in the same slot */
	fx_put(fx, TOP "temp", "y");
	fx_run(fx, "other");
	for (unsigned i = 0; i < ARRAY_SIZE(paths); i++) {
		assert_int_equal(fx_stat_ino(fx, ino[i], &st), -ESTALE);
		assert_error(fx_lookup(fx, ino[i], "in"), -ESTALE);
		assert_int_not_equal(fx_ino(fx, paths[i]), ino[i]);
	}
}

static void test_wild_numbers(void **state)
{
	static const uint64_t wild[] = {
		0,
		2,
		127ull << 56,
		UINT64_MAX,
		1ull << 63,
		(uint64_t)NODE_TEMPLATE << 56 | 99ull << 43,
		(uint64_t)NODE_SESSION << 56 | 0x1fffull << 43,
		(uint64_t)NODE_SESSION << 56 | 0x7ffull << 32,
		(uint64_t)NODE_RUN_STDOUT << 56 | 5,
		(uint64_t)NODE_SCRATCH << 56 | 5,
	};
	struct fixture *fx = *state;
	struct stat st;

	for (unsigned i = 0; i < ARRAY_SIZE(wild); i++)
		if (fx_stat_ino(fx, wild[i], &st) != -ESTALE)
			fail_msg("%llx is something", (unsigned long long)wild[i]);
}

static void test_stale_handles(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "state", O_RDONLY), g;

	fx_close(fx, &f);
	assert_error(fx_read(fx, &f, 10, 0), -EIO);
	assert_error(fx_poll(fx, &f, pollwait_new()), -EIO);
	g = fx_opened(fx, TOP "state", O_RDONLY);
	assert_int_equal((uint32_t)g.fh, (uint32_t)f.fh); /* the same place in the table */
	assert_int_not_equal(g.fh, f.fh);
	assert_error(fx_read(fx, &f, 10, 0), -EIO);
	f.fh = UINT64_MAX;
	assert_error(fx_read(fx, &f, 10, 0), -EIO);
	f.fh = 0;
	assert_error(fx_read(fx, &f, 10, 0), -EIO);
	fx_close(fx, &g);
}

static void test_many_handles(void **state)
{
	struct fixture *fx = *state;
	struct file f[300];

	for (unsigned i = 0; i < ARRAY_SIZE(f); i++)
		f[i] = fx_opened(fx, TOP "state", O_RDONLY);
	for (unsigned i = 0; i < ARRAY_SIZE(f); i += 2)
		fx_close(fx, &f[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(f); i += 2)
		f[i] = fx_opened(fx, TOP "state", O_RDONLY);
	for (unsigned i = 0; i < ARRAY_SIZE(f); i++) {
		assert_bytes(fx_read(fx, &f[i], 10, 0), "new\n");
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(f[i].fh, f[j].fh);
	}
	for (unsigned i = 1; i < ARRAY_SIZE(f); i++)
		fx_close(fx, &f[i]); /* f[0] is left for the end of the mount */
}

/* rm -r: whatever it takes on its way, in any state, it gets to the end. */
static void remove_tree(struct fixture *fx, const char *path)
{
	char *names = strdup(fx_ls(fx, path)), *save = NULL, child[256];

	for (char *p = strtok_r(names, " ", &save); p; p = strtok_r(NULL, " ", &save)) {
		struct stat st;

		snprintf(child, sizeof(child), "%s/%s", path, p);
		assert_int_equal(fx_stat(fx, child, &st), 0);
		if (strcmp(p, "files") == 0)
			assert_int_equal(fx_rmdir(fx, child),
					 0); /* cannot be read without a sandbox */
		else if (S_ISDIR(st.st_mode))
			remove_tree(fx, child);
		else
			assert_int_equal(fx_unlink(fx, child), 0);
	}
	free(names);
	assert_int_equal(fx_rmdir(fx, path), 0);
}

static void test_rm_r_of_runs_that_go_on(void **state)
{
	struct fixture *fx = *state;

	fake_exit(fx_run(fx, "x"), VM_DONE, 0);
	fx_run(fx, "y");
	fx_put(fx, TOP "in", "queued");
	remove_tree(fx, TOP "runs");
	assert_string_equal(fx_ls(fx, TOP "runs"), "");
	fake_output(fake_sandbox(), VM_STDOUT, "no history, and goes on");
	fake_exit(fake_sandbox(), VM_DONE, 0);
	assert_string_equal(fake_sandbox()->code, "queued");
	fake_output(fake_sandbox(), VM_STDOUT, "z");
	fake_exit(fake_sandbox(), VM_DONE, 9);
	fx_expect(fx, TOP "stdout", "z");
	fx_expect(fx, TOP "exit_code", "9\n");
}

static void test_times(void **state)
{
	struct fixture *fx = *state;
	struct stat before, after;
	struct sandbox *s = fx_run(fx, "x");

	assert_int_equal(fx_stat(fx, TOP "runs/1", &before), 0);
	usleep(2000);
	fake_output(s, VM_STDOUT, "y");
	assert_int_equal(fx_stat(fx, TOP "runs/1/stdout", &after), 0);
	assert_true(after.st_mtim.tv_sec > before.st_mtim.tv_sec ||
		    after.st_mtim.tv_nsec > before.st_mtim.tv_nsec);
	assert_int_equal(fx_stat(fx, TOP "stdout", &before), 0);
	assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof(after.st_mtim));
	fake_exit(s, VM_DONE, 0);
	usleep(2000);
	fx_run(fx, "later");
	assert_int_equal(fx_stat(fx, TOP "runs/1", &before), 0);
	assert_int_equal(fx_stat(fx, TOP "runs/2", &after), 0);
	assert_true(after.st_mtim.tv_sec > before.st_mtim.tv_sec ||
		    after.st_mtim.tv_nsec > before.st_mtim.tv_nsec);
}

/* A listing shows the moment of its opening, however slowly it is read. */
static void test_listing_is_of_one_moment(void **state)
{
	struct fixture *fx = *state;
	char name[64];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "raw/session-number-%d", i);
		assert_int_equal(fx_mkdir(fx, name), 0);
	}
	assert_non_null(strstr(fx_ls(fx, "raw"), " session-number-39 "));
	assert_int_equal(fx_rmdir(fx, "raw/session-number-0"), 0);
	assert_null(strstr(fx_ls(fx, "raw"), "number-0 "));
	assert_int_equal(fx_rmdir(fx, "raw"), -EPERM);
	assert_int_equal(fx_rmdir(fx, "raw/session-number-0"), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_listings),
		fx_test(test_templates_called_like_nodes),
		fx_test(test_modes),
		fx_test(test_lookups_that_fail),
		fx_test(test_stale_numbers),
		fx_test(test_wild_numbers),
		fx_test(test_stale_handles),
		fx_test(test_many_handles),
		fx_test(test_rm_r_of_runs_that_go_on),
		fx_test(test_times),
		fx_test(test_listing_is_of_one_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
