/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: its options, what a mistake in it is answered, and which source wins. */
/* modules: tests/unit/fixture/conf_fixture.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/conf_fixture.h"

static int load_args(struct conf *c, const char *const *argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	return conf_load(c, argc, (char *const *)argv, why, sizeof(why));
}

/* xsbxfs ARGUMENT... */
#define load(c, ...) load_args(c, (const char *[]){"xsbxfs", ##__VA_ARGS__, NULL})

/* Where the mount is, and nothing else: the rest is for its own command line to say. */
static void test_takeover(void **state)
{
	struct conf c;

	(void)state;
	assert_int_equal(load(&c, "--takeover", "-o", "runtime_dir=/run/elsewhere", "mnt"), 0);
	assert_int_equal(c.action, CONF_TAKEOVER);
	assert_string_equal(c.vm.runtime_dir, "/run/elsewhere");
	conf_clear(&c);
	assert_int_equal(load(&c, "--takeover", "-o", "runtime_dir=/run,max_vms=2", "mnt"),
			 -EINVAL);
	assert_non_null(strstr(why, "max_vms"));
	conf_clear(&c);
	assert_int_equal(load(&c, "--takeover", "-o", "allow_other", "mnt"), -EINVAL);
	conf_clear(&c);
}

static void test_command_line(void **state)
{
	char expected[128];
	struct conf c;

	(void)state;
	assert_int_equal(load(&c, "mnt", "-f", "-o", "max_vms=2,allow_other", "-oaccel=kvm"), 0);
	snprintf(expected, sizeof(expected), "%s/mnt", dir);
	assert_string_equal(c.mountpoint, expected);
	assert_true(c.foreground);
	assert_false(c.debug);
	assert_true(c.allow_other);
	assert_int_equal(c.vm.max_vms, 2);
	assert_string_equal(c.vm.accel, "kvm");
	conf_clear(&c);

	assert_int_equal(load(&c, "-d", "link/"), 0);
	assert_string_equal(c.mountpoint, expected);
	assert_true(c.foreground && c.debug);
	assert_int_equal(c.log_level, LOG_NLEVELS);
	assert_int_equal(c.log_format, LOG_TEXT);
	conf_clear(&c);
	assert_int_equal(
		load(&c, "--log-format", "json", "-o", "log_level=warning,log_format=text", "mnt"),
		0);
	assert_int_equal(c.log_level, LOG_LEVEL_WARN);
	assert_int_equal(c.log_format, LOG_JSON);
	conf_clear(&c);

	assert_int_equal(load(&c, "-o",
			      "rw,nosuid,nodev,noexec,x-systemd.automount,notify=fifo,max_cpus=2",
			      "-o", "cache_dir=a\\,b", "mnt"),
			 0);
	snprintf(expected, sizeof(expected), "%s/fifo", dir);
	assert_string_equal(c.notify, expected);
	snprintf(expected, sizeof(expected), "%s/a,b", dir);
	assert_string_equal(c.vm.cache_dir, expected);
	assert_int_equal(c.limits.max_cpus, 2);
	conf_clear(&c);
}

/* What is done instead of a mount. */
static void test_actions(void **state)
{
	struct conf c;

	(void)state;
	assert_int_equal(load(&c, "--check"), 0);
	assert_int_equal(c.action, CONF_CHECK);
	conf_clear(&c);
	assert_int_equal(load(&c, "--prefetch", "-o", "max_vms=2", "python", "raw"), 0);
	assert_int_equal(c.action, CONF_PREFETCH);
	assert_int_equal(c.nnames, 2);
	assert_string_equal(c.names[1], "raw");
	conf_clear(&c);
	assert_int_equal(load(&c, "--export", "a file"), 0);
	assert_int_equal(c.action, CONF_EXPORT);
	assert_string_equal(c.file, "a file");
	assert_int_equal(c.nnames, 0);
	conf_clear(&c);
	assert_int_equal(load(&c, "--import", "-"), 0);
	assert_int_equal(c.action, CONF_IMPORT);
	conf_clear(&c);
	assert_int_equal(load(&c, "--version", "--nonsense"), 0);
	assert_int_equal(c.action, CONF_VERSION);
	conf_clear(&c);
	assert_int_equal(load(&c, "-h"), 0);
	assert_int_equal(c.action, CONF_HELP);
	conf_clear(&c);
}

/* Where the images for all are, and that whoever fills that directory publishes. */
static void test_shared(void **state)
{
	char option[200];
	struct conf c;

	(void)state;
	assert_int_equal(load(&c, "mnt"), 0);
	assert_string_equal(c.vm.shared_dir, "/var/lib/xsbxfs/shared");
	assert_false(c.vm.publish);
	conf_clear(&c);
	assert_int_equal(load(&c, "-o", "shared_dir=none", "mnt"), 0);
	assert_null(c.vm.shared_dir);
	conf_clear(&c);
	assert_int_equal(setenv("XSBXFS_SHARED", "/elsewhere", 1), 0);
	assert_int_equal(load(&c, "mnt"), 0);
	assert_string_equal(c.vm.shared_dir, "/elsewhere");
	conf_clear(&c);
	assert_int_equal(load(&c, "-o", "shared_dir=/there", "mnt"), 0);
	assert_string_equal(c.vm.shared_dir, "/there");
	conf_clear(&c);
	/* A bundle goes into the cache alone, but what is for all may be in one. */
	assert_int_equal(load(&c, "--export", "file"), 0);
	assert_string_equal(c.vm.shared_dir, "/elsewhere");
	conf_clear(&c);
	assert_int_equal(load(&c, "--import", "file"), 0);
	assert_null(c.vm.shared_dir);
	conf_clear(&c);
	assert_int_equal(setenv("XSBXFS_SHARED", "none", 1), 0);
	assert_int_equal(load(&c, "mnt"), 0);
	assert_null(c.vm.shared_dir);
	conf_clear(&c);
	assert_int_equal(unsetenv("XSBXFS_SHARED"), 0);
	/* By whatever name. */
	snprintf(option, sizeof(option), "cache_dir=%s/mnt,shared_dir=%s/link", dir, dir);
	assert_int_equal(load(&c, "-o", option, "mnt"), 0);
	assert_true(c.vm.publish);
	assert_null(c.vm.shared_dir);
	conf_clear(&c);
}

/* No mount's state is where the images for all are. */
static void test_state_beside_shared(void **state)
{
	static const struct {
		const char *mountpoint, *state_dir;
	} cases[] = {{"/shared", "/var/lib/xsbxfs/shared-"},
		     {"/shared-", "/var/lib/xsbxfs/shared--"},
		     {"/shared-x", "/var/lib/xsbxfs/shared--x"}};
	pid_t pid;
	int status;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) { /* where there are such directories */
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			struct conf c;

			if (i == 0 && (chroot("mnt") < 0 || chdir("/") < 0))
				_exit(100);
			if (mkdir(cases[i].mountpoint, 0700) < 0 ||
			    load(&c, "-o", "keep=yes", cases[i].mountpoint) < 0 || !c.state_dir ||
			    strcmp(c.state_dir, cases[i].state_dir) != 0)
				_exit(1 + (int)i);
			(void)rmdir(cases[i].mountpoint);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_command_line_mistakes(void **state)
{
	struct conf c;

#define REFUSED(err, words, ...)                              \
	do {                                                  \
		assert_int_equal(load(&c, __VA_ARGS__), err); \
		assert_says(words);                           \
		conf_clear(&c);                               \
	} while (0)

	(void)state;
	assert_int_equal(load(&c), -EINVAL);
	assert_says("Name a directory");
	conf_clear(&c);
	REFUSED(-EINVAL, "log_format: \"xml\" is not text or json", "--log-format=xml", "mnt");
	REFUSED(-EINVAL, "log_level: \"loud\" is not error, warning, info or debug", "-o",
		"log_level=loud", "mnt");
	REFUSED(-EINVAL, "too much", "mnt", "more");
	REFUSED(-EINVAL, "there is no option \"-x\"", "-x", "mnt");
	REFUSED(-EINVAL, "there is no option \"--foo\"", "--foo", "mnt");
	REFUSED(-EINVAL, "-c: a value is missing", "mnt", "-c");
	REFUSED(-EINVAL, "there is no option \"url\"", "-o", "url=https://h/b", "mnt");
	REFUSED(-EINVAL, "there is no option \"speed\"", "-o", "speed=1", "mnt");
	REFUSED(-EINVAL, "max_vms: a value is missing", "-o", "max_vms", "mnt");
	REFUSED(-EINVAL, "read-only", "-o", "ro", "mnt");
	REFUSED(-EINVAL, "there is no option \"rw\"", "-o", "rw=1", "mnt");
	REFUSED(-ENOENT, "mkdir -p nope", "nope");
	REFUSED(-ENOENT, "there is no directory", "nope/");
	REFUSED(-ENOTDIR, "is not a directory", "file");
	REFUSED(-EINVAL, "Name a directory", "");
	REFUSED(-ENOENT, "nope.conf: cannot be read", "-c", "nope.conf", "mnt");
	REFUSED(-EINVAL, "mnt: is not a file", "-c", "mnt", "mnt");
	REFUSED(-EINVAL, "no mount point", "--check", "mnt");
	REFUSED(-EINVAL, "no mount point", "--import", "file", "mnt");
	REFUSED(-EINVAL, "a value is missing", "--export");
}

/* The later source wins: the user's file, -c in its order, -o. */
static void test_order_of_sources(void **state)
{
	struct conf c;

	(void)state;
	write_file(".config/xsbxfs.conf",
		   "[xsbxfs]\nmax_vms = 1\nmax_sessions = 1\nhistory_runs = 1\n"
		   "boot_timeout_s = 1\n");
	write_file("a.conf", "[xsbxfs]\nmax_sessions = 2\nhistory_runs = 2\nboot_timeout_s = 2\n");
	write_file("b.conf", "[xsbxfs]\nhistory_runs = 3\nboot_timeout_s = 3\n");
	assert_int_equal(
		load(&c, "-o", "boot_timeout_s=4", "-c", "a.conf", "mnt", "--config=b.conf"), 0);
	assert_int_equal(c.vm.max_vms, 1);
	assert_int_equal(c.quota.each.sessions, 2);
	assert_int_equal(c.history_runs, 3);
	assert_int_equal(c.vm.boot_s, 4);
	conf_clear(&c);

	assert_int_equal(chmod(".config/xsbxfs.conf", 0666), 0);
	REFUSED(-EACCES, "chmod go-w", "mnt");
	assert_int_equal(chmod(".config/xsbxfs.conf", 0664), 0);
	REFUSED(-EACCES, "its group may write to it; chmod g-w", "mnt");
	write_file(".config/xsbxfs.conf", "nonsense\n");
	assert_int_equal(chmod(".config/xsbxfs.conf", 0600), 0);
	REFUSED(-EINVAL, "/.config/xsbxfs.conf:1: expected", "mnt");
	/* Help and version work whatever the files say. */
	assert_int_equal(load(&c, "--help"), 0);
	conf_clear(&c);
	assert_int_equal(unlink(".config/xsbxfs.conf"), 0);
	assert_int_equal(unlink("a.conf"), 0);
	assert_int_equal(unlink("b.conf"), 0);
}

/* A file that need not be there, in its order among others; but if it is, it is nobody else's. */
static void test_tried(void **state)
{
	struct conf c;

	(void)state;
	write_file("a.conf", "[xsbxfs]\nmax_sessions = 2\nhistory_runs = 2\n");
	write_file("b.conf", "[xsbxfs]\nhistory_runs = 3\n");
	assert_int_equal(load(&c, "--try-config", "nope.conf", "-c", "a.conf", "--try-config",
			      "b.conf", "mnt"),
			 0);
	assert_int_equal(c.quota.each.sessions, 2);
	assert_int_equal(c.history_runs, 3);
	conf_clear(&c);
	assert_int_equal(load(&c, "--try-config", "b.conf", "-c", "a.conf", "mnt"), 0);
	assert_int_equal(c.history_runs, 2);
	conf_clear(&c);
	assert_int_equal(load(&c, "--takeover", "--try-config", "nope.conf", "mnt"), 0);
	conf_clear(&c);
	REFUSED(-EINVAL, "mnt: is not a file", "--try-config", "mnt", "mnt");
	assert_int_equal(chmod("b.conf", 0666), 0);
	REFUSED(-EACCES, "chmod go-w", "--try-config", "b.conf", "mnt");
	if (geteuid() == 0) {
		assert_int_equal(chmod("b.conf", 0600), 0);
		assert_int_equal(chown("b.conf", 12001, (gid_t)-1), 0);
		REFUSED(-EACCES, "belongs to user 12001", "--try-config", "b.conf", "mnt");
	}
	assert_int_equal(unlink("a.conf"), 0);
	assert_int_equal(unlink("b.conf"), 0);
}

static int load_again(struct conf *c, const struct buf *was, const char *const *argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	return conf_load_again(c, argc, (char *const *)argv, record_reader(was->data, was->len),
			       why, sizeof(why));
}

/* A name may be another one's by now, or nobody's: an heir goes by what it meant at the mount. */
static void test_users_again(void **state)
{
	const char *argv[] = {"xsbxfs", "-c", "one", "mnt", NULL};
	struct buf was = {0}, other = {0};
	struct conf c;
	char *name;

	(void)state;
	write_file("one", "[quota root]\nsessions = 7\n");
	assert_string_equal(load_args(&c, argv) ? why : "", "");
	assert_int_equal(conf_put(&c, &was), 0);
	conf_clear(&c);
	/* As if it had another name, which this host does not know. */
	for (size_t i = 0; i < was.len; i++) {
		name = was.data + i;
		if (was.len - i >= 4 && memcmp(name, "root", 4) == 0)
			memcpy(name, "toor", 4);
	}
	assert_int_equal(load_again(&c, &was, argv), 0);
	assert_int_equal(quotas_of(&c.quota, 0).sessions, 7);
	assert_int_equal(conf_put(&c, &other), 0);
	assert_int_equal(other.len, was.len);
	conf_clear(&c);
	buf_clear(&was);
	buf_clear(&other);
}

/* What was read is not read again: it may be another one by now, and the mount point would not answer. */
static void test_again(void **state)
{
	const char *argv[] = {"xsbxfs", "-c", "one", "-c", "two", "-o", "max_vms=2", "mnt", NULL};
	struct buf was = {0}, twice = {0};
	char expected[128];
	struct conf c;

	(void)state;
	write_file(".config/xsbxfs.conf", "accel = tcg\n[template a]\nlanguage = raw\n");
	write_file("one", "max_vms = 7\nmax_sessions = 5\n[template b]\nlanguage = python\n");
	write_file("two", "max_sessions = 6\n");
	assert_string_equal(load_args(&c, argv) ? why : "", "");
	assert_int_equal(conf_put(&c, &was), 0);
	conf_clear(&c);
	write_file("one", "nonsense\n");
	assert_int_equal(unlink("two"), 0);
	write_file(".config/xsbxfs.conf", "accel = kvm\n");
	assert_int_equal(rename("mnt", "away"), 0);
	assert_int_equal(load_again(&c, &was, argv), 0);
	assert_string_equal(c.vm.accel, "tcg");
	assert_int_equal(c.vm.max_vms, 2);
	assert_int_equal(c.quota.each.sessions, 6);
	assert_non_null(conf_template_find(&c, "a"));
	assert_non_null(conf_template_find(&c, "b"));
	snprintf(expected, sizeof(expected), "%s/mnt", dir);
	assert_string_equal(c.mountpoint, expected);
	assert_int_equal(conf_put(&c, &twice), 0);
	assert_int_equal(twice.len, was.len);
	assert_memory_equal(twice.data, was.data, was.len);
	conf_clear(&c);
	buf_clear(&twice);
	/* Half of it is none. */
	for (size_t len = 0; len < was.len; len++) {
		const struct buf half = {.data = was.data, .len = len};

		if (load_again(&c, &half, argv) == 0)
			assert_true(c.mountpoint && c.quota.each.sessions != 6);
		conf_clear(&c);
	}
	buf_clear(&was);
	assert_int_equal(rename("away", "mnt"), 0);
	assert_int_equal(unlink("one") | unlink(".config/xsbxfs.conf"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_takeover),
		cmocka_unit_test(test_command_line),
		cmocka_unit_test(test_actions),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_state_beside_shared),
		cmocka_unit_test(test_command_line_mistakes),
		cmocka_unit_test(test_order_of_sources),
		cmocka_unit_test(test_tried),
		cmocka_unit_test(test_users_again),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, conf_fixture_setup, conf_fixture_teardown);
}
