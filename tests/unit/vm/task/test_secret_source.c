/* SPDX-License-Identifier: Apache-2.0 */
/* Where values of secrets come from: files that are private, commands that end, owners' files; and what is none of these. */
/* modules: vm/task/secret_source.c vm/base/buf.c vm/base/secret_list.c vm/base/secret_file.c vm/base/words.c vm/base/allow.c vm/base/path.c vm/base/secret_use.c */
/* modules: vm/base/remove.c vm/base/io.c vm/base/buf.c vm/base/place.c vm/base/http_path.c vm/base/address.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/config.h"
#include "vm/base/remove.h"
#include "vm/base/secret_use.h"
#include "vm/base/util.h"
#include "vm/task/secret_source.h"

static char dir[64], value[SECRET_VALUE_MAX + 4096], words[8192];
static const char *const no_dirs[] = {NULL}, *const env[] = {"PATH=/usr/bin:/bin", NULL};

static const char *path_of(const char *name)
{
	static char path[4][200];
	static unsigned n;
	char *p = path[n++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static const char *put(const char *name, const char *text, mode_t mode)
{
	const char *path = path_of(name);
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/secret_source.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return remove_tree(dir);
}

static void take(int fd, char *to, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, to + len, size - 1 - len)) > 0)
		len += (size_t)n;
	to[len] = '\0';
	close(fd);
}

/* Runs it; what came is in `value` and `words`. */
static void serve(const struct secret_source *what, const char *file, const char *places)
{
	const int request = memfd_create("request", MFD_CLOEXEC);
	int out[2], said[2], status;
	pid_t pid;

	assert_int_equal(write(request, file, strlen(file) + 1), (int)strlen(file) + 1);
	assert_int_equal(write(request, places, strlen(places) + 1), (int)strlen(places) + 1);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (dup2(request, SECRET_SOURCE_REQUEST) < 0 ||
		    dup2(out[1], SECRET_SOURCE_VALUE) < 0 || dup2(said[1], SECRET_SOURCE_WORDS) < 0)
			_exit(99);
		secret_source_serve(what);
	}
	close(request);
	close(out[1]);
	close(said[1]);
	take(out[0], value, sizeof(value));
	take(said[0], words, sizeof(words));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The administrator's secret, from a file or by a command. */
static void fetch(enum vm_secret_from from, const char *argument, const char *places)
{
	char name[] = "tok",
	     hosts[] = "api.test:443 *.wild.test:8443 1.2.3.4:443 host.internal:9000", copy[400];
	struct vm_secret s = {
		.name = name, .from = from, .argument = copy, .hosts = hosts, .refresh_s = 77};

	snprintf(copy, sizeof(copy), "%s", argument);
	serve(&(struct secret_source){.name = "tok",
				      .secret = &s,
				      .owner = getuid(),
				      .mounter = getuid(),
				      .envp = env,
				      .written = no_dirs},
	      "", places);
}

static void comes(const char *expected)
{
	assert_string_equal(value, expected);
	assert_null(strstr(words, "failed "));
}

static void fails(const char *why)
{
	assert_string_equal(value, "");
	if (!strstr(words, "failed ") || !strstr(words, why))
		fail_msg("no \"%s\" in %s", why, words);
}

static void files(void **state)
{
	(void)state;
	fetch(VM_SECRET_FILE, put("good", "the value\n", 0600), "api.test:443");
	comes("the value\n");
	assert_string_equal(words, "refresh 77\n");
	fetch(VM_SECRET_FILE, put("good", "the value\n", 0400), "api.test:443");
	comes("the value\n");
	for (mode_t bit = 1; bit < 0100; bit <<= 1) {
		fetch(VM_SECRET_FILE, put("open", "the value", 0600 | bit), "api.test:443");
		fails("can be used by others");
	}
	assert_int_equal(symlink(path_of("good"), path_of("link")), 0);
	fetch(VM_SECRET_FILE, path_of("link"), "api.test:443");
	fails("is a link");
	fetch(VM_SECRET_FILE, dir, "api.test:443");
	fails("no regular file");
	assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
	fetch(VM_SECRET_FILE, path_of("fifo"), "api.test:443");
	fails("no regular file");
	fetch(VM_SECRET_FILE, path_of("none"), "api.test:443");
	fails("No such file");
	fetch(VM_SECRET_FILE, put("empty", "", 0600), "api.test:443");
	fails("is empty");
}

static void owners(void **state)
{
	(void)state;
	if (getuid() != 0)
		skip();
	put("good", "the value", 0600);
	assert_int_equal(chown(path_of("good"), 4711, 0), 0);
	fetch(VM_SECRET_FILE, path_of("good"), "api.test:443");
	fails("belongs to somebody else");
}

static void hosts(void **state)
{
	static const char *const good[] = {"api.test:443",	 "1.2.3.4:443 api.test:443",
					   "a.wild.test:8443",	 "*.wild.test:8443",
					   "*.b.wild.test:8443", "1.2.3.4:443",
					   "host.internal:9000"};
	static const char *const bad[] = {
		"api.test:80",	  "api.test:8443",     "b.api.test:443",
		"wild.test:8443", "a.wild.test:443",   "*.test:8443",
		"1.2.3.5:443",	  "host.internal:443", "api.test:443 evil.test:443",
		"*.api.test:443"};

	(void)state;
	put("good", "the value", 0600);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		fetch(VM_SECRET_FILE, path_of("good"), good[i]);
		comes("the value");
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		fetch(VM_SECRET_FILE, path_of("good"), bad[i]);
		fails("may not be sent to");
	}
}

static void commands(void **state)
{
	char line[300];

	(void)state;
	fetch(VM_SECRET_COMMAND, "/bin/echo  the value", "api.test:443");
	comes("the value\n");
	put("script", "echo it is the-value of mine >&2; echo the-value; echo expires=60\n", 0700);
	snprintf(line, sizeof(line), "/bin/sh %s", path_of("script"));
	fetch(VM_SECRET_COMMAND, line, "api.test:443");
	comes("the-value\nexpires=60\n");
	assert_non_null(strstr(words, "said it is ********* of mine\n"));
	/* A long one, of which only the beginning is read. */
	put("script", "v=start$(printf %04000d 7); echo \"token: $v\" >&2; echo \"$v\"\n", 0700);
	fetch(VM_SECRET_COMMAND, line, "api.test:443");
	assert_int_equal(strlen(value), 4006);
	assert_non_null(strstr(words, "said token: *****"));
	assert_null(strstr(words, "start"));
	put("script", "echo half a value; echo why >&2; exit 3\n", 0700);
	fetch(VM_SECRET_COMMAND, line, "api.test:443");
	fails("exit status 3");
	assert_non_null(strstr(words, "said why\n"));
	put("script", "echo half a value; kill -9 $$\n", 0700);
	fetch(VM_SECRET_COMMAND, line, "api.test:443");
	fails("signal 9");
	put("script", "sleep 1000 & echo value; env >&2\n", 0700);
	fetch(VM_SECRET_COMMAND, line, "api.test:443");
	comes("value\n");
	assert_non_null(strstr(words, "PATH=/usr/bin:/bin"));
	assert_null(strstr(words, "HOME="));
	fetch(VM_SECRET_COMMAND, "/bin/true", "api.test:443");
	fails("printed nothing");
	fetch(VM_SECRET_COMMAND, "/no/such/program", "api.test:443");
	fails("exit status 127");
}

static void own_files(void **state)
{
	const char *const dirs[] = {dir, NULL};
	struct secret_source what = {.name = "mine",
				     .owner = getuid(),
				     .mounter = getuid(),
				     .envp = env,
				     .written = no_dirs};
	char text[600];

	(void)state;
	snprintf(text, sizeof(text), "[secret mine]\nfrom = file %s\nhosts = api.test\n",
		 put("value", "my value", 0600));
	put("own", text, 0600);
	serve(&what, path_of("own"), "api.test:443");
	comes("my value");
	serve(&what, path_of("own"), "api.test:444");
	fails("may not be sent to");
	what.name = "theirs";
	serve(&what, path_of("own"), "api.test:443");
	fails("there is no secret of this name");
	what.name = "mine";
	put("own", text, 0640);
	serve(&what, path_of("own"), "api.test:443");
	fails("can be used by others");
	put("own", "[secret mine]\nfrom = env HOME\nhosts = api.test\n", 0600);
	serve(&what, path_of("own"), "api.test:443");
	fails("line 2");
	put("own", text, 0600);
	what.written = dirs;
	serve(&what, path_of("own"), "api.test:443");
	fails("where sandboxes can write");
	serve(&what, "", "api.test:443");
	fails("there is no secret of this name");
}

/* With the owner's rights, not with root's. */
static void own_rights(void **state)
{
	struct secret_source what = {.name = "mine",
				     .owner = 4711,
				     .group = 4712,
				     .mounter = 0,
				     .envp = env,
				     .written = no_dirs};
	char text[600];

	(void)state;
	if (getuid() != 0)
		skip();
	snprintf(text, sizeof(text),
		 "[secret mine]\nfrom = command /usr/bin/id\nhosts = api.test\n[secret file]\nfrom "
		 "= file %s\nhosts = api.test\n",
		 put("value", "my value", 0600));
	put("own", text, 0600);
	assert_int_equal(chmod(dir, 0711), 0);
	serve(&what, path_of("own"), "api.test:443");
	fails("Permission denied"); /* root's */
	assert_int_equal(chown(path_of("own"), 4711, 0), 0);
	serve(&what, path_of("own"), "api.test:443");
	assert_true(!strncmp(value, "uid=4711 gid=4712 groups=4712", 29));
	what.name = "file";
	serve(&what, path_of("own"), "api.test:443");
	fails("Permission denied");
	assert_int_equal(chown(path_of("value"), 4711, 0), 0);
	serve(&what, path_of("own"), "api.test:443");
	comes("my value");
}

static void variables(void **state)
{
	char text[] = "from outside";
	char name[] = "tok", variable[] = "TOKEN", hosts[] = "api.test:443";
	struct vm_secret s = {
		.name = name, .from = VM_SECRET_ENV, .argument = variable, .hosts = hosts};
	struct secret_source what = {.name = "tok",
				     .secret = &s,
				     .value = text,
				     .owner = getuid(),
				     .mounter = getuid(),
				     .envp = env,
				     .written = no_dirs};

	(void)state;
	serve(&what, "", "api.test:443");
	comes("from outside");
	assert_string_equal(words, "refresh 0\n");
	what.value = NULL;
	serve(&what, "", "api.test:443");
	fails("TOKEN was not set");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(files),	 TEST(owners),	   TEST(hosts),	    TEST(commands),
		TEST(own_files), TEST(own_rights), TEST(variables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
