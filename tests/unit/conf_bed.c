/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the configuration: texts that are read as files, in a directory of their own. */
/* modules: fs/conf.c fs/conf_key.c fs/conf_file.c fs/conf_template.c fs/conf_packages.c fs/packages.c fs/settings.c fs/settings_parse.c fs/paths.c vm/path.c fs/env.c fs/problem.c vm/buf.c */
/* modules: fs/netset.c vm/allow_check.c vm/net/allow.c vm/net/address.c */
/* libs: inih */
#include "conf_bed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

char why[2048];
char dir[64];
FILE *example;

int read_text_len(struct conf *c, const char *text, size_t len)
{
	struct conf_source src = {.file = "t.conf", .why = why, .why_size = sizeof(why)};
	FILE *file = fmemopen((void *)text, len, "r");
	int r;

	assert_non_null(file);
	assert_int_equal(conf_init(c), 0);
	r = conf_read(c, file, &src);
	fclose(file);
	return r;
}

/* Reads a text as a file, and settles it. */
int read_text(struct conf *c, const char *text)
{
	struct conf_source src = {.file = "t.conf", .why = why, .why_size = sizeof(why)};
	int r = read_text_len(c, text, strlen(text));

	return r < 0 ? r : conf_settle(c, &src);
}

void assert_says(const char *words)
{
	if (!strstr(why, words))
		fail_msg("\"%s\" does not say \"%s\"", why, words);
}

void assert_refused(const char *text, const char *words)
{
	struct conf c;

	assert_int_equal(read_text(&c, text), -EINVAL);
	assert_says(words);
	conf_clear(&c);
}

void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

int conf_bed_setup(void **state)
{
	(void)state;
	example = fopen("man/xsbxfs.conf.example", "r"); /* from the top of the source */
	strcpy(dir, "/tmp/test_conf.XXXXXX");
	if (!mkdtemp(dir) || chdir(dir) < 0 || mkdir("mnt", 0700) < 0 ||
	    mkdir(".config", 0700) < 0 || symlink("mnt", "link") < 0)
		return -1;
	write_file("file", "");
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("XDG_CACHE_HOME");
	return setenv("HOME", dir, 1);
}

int conf_bed_teardown(void **state)
{
	static const char *const names[] = {"mnt", ".config", "link", "file"};

	(void)state;
	if (example)
		fclose(example);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (remove(names[i]) < 0)
			return -1;
	}
	return chdir("/") < 0 ? -1 : rmdir(dir);
}
