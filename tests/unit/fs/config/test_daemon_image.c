/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that images bring along: what they may say, and that the configuration has the last word. */
/* modules: tests/unit/fixture/conf_fixture.c */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/config/entry.h"
#include "tests/unit/fixture/conf_fixture.h"

#define TEMPLATES "cache/images/templates"
#define IMAGE	  TEMPLATES "/app"
#define CONF	  IMAGE "/template.conf"

static int load_args(struct conf *c, const char *const *argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	return conf_load(c, argc, (char *const *)argv, why, sizeof(why));
}

#define load(c, ...) \
	load_args(c, \
		  (const char *[]){"xsbxfs", "-o", "cache_dir=cache", ##__VA_ARGS__, "mnt", NULL})

static int setup(void **state)
{
	(void)state;
	if (mkdir("cache", 0700) < 0 || mkdir("cache/images", 0700) < 0 ||
	    mkdir(TEMPLATES, 0700) < 0 || mkdir(IMAGE, 0700) < 0)
		return -1;
	write_file("x.conf", "");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)remove(CONF);
	return remove(IMAGE) < 0 || remove(TEMPLATES) < 0 || remove("cache/images") < 0 ||
			       remove("cache") < 0 || remove("x.conf") < 0
		       ? -1
		       : 0;
}

static void test_brings(void **state)
{
	struct buf words = {0};
	struct conf c;
	struct conf_template *t;

	(void)state;
	write_file(CONF,
		   "# from an image\n[template app]\nlanguage = raw\nview = image\nenv.A = x y\n"
		   "env.PATH = /app/bin:/usr/bin\ncwd = /app\n"
		   "entrypoint = /app/start 'a b'\\;' c' \"d\"\nmemory_mb = 300\n");
	assert_int_equal(load(&c), 0);
	t = conf_template_find(&c, "app");
	assert_non_null(t);
	assert_ptr_equal(t, &c.template[c.ntemplates - 1]);
	assert_string_equal(t->settings.spec.image, "app");
	assert_string_equal(t->settings.spec.language, "raw");
	assert_int_equal(t->settings.spec.memory_mb, 300);
	assert_int_equal(t->settings.spec.nenv, 2);
	assert_string_equal(t->settings.cwd, "/app");
	assert_int_equal(entry_argv(&t->settings, &words), 0);
	assert_int_equal(words.len, sizeof("/app/start\0a b; c\0d"));
	assert_memory_equal(words.data, "/app/start\0a b; c\0d", words.len);
	/* Processes see the image as well; machines always do. */
	assert_true(t->settings.spec.image_view);
	assert_int_equal(t->settings.spec.backend, VM_MICROVM);
	/* Nobody waits for it at the mount. */
	assert_true(t->of_image && t->asleep && !t->prepare);
	assert_int_equal(t->settings.spec.pool.target, 0);
	assert_int_equal(c.notes.len, 0);
	buf_clear(&words);
	conf_clear(&c);
}

static void test_last_word(void **state)
{
	struct conf_template *t;
	char text[128];
	struct conf c;

	(void)state;
	write_file(CONF, "[template app]\nlanguage = raw\nenv.A = image\nenv.B = image\n"
			 "entrypoint = /start\nview = image\n");
	write_file("x.conf", "[template app]\nenv.A = mine\nentrypoint =\nroot = yes\nview = "
			     "host\n");
	assert_int_equal(load(&c, "-c", "x.conf"), 0);
	t = conf_template_find(&c, "app");
	assert_non_null(t);
	assert_string_equal(t->settings.spec.env[0].value, "mine");
	assert_string_equal(t->settings.spec.env[1].value, "image");
	assert_string_equal(t->settings.entrypoint, "");
	assert_true(t->settings.spec.root);
	assert_false(t->settings.spec.image_view);
	assert_false(t->of_image);
	conf_clear(&c);
	/* And where the configuration says where images are. */
	snprintf(text, sizeof(text), "cache_dir = %s/cache\n", dir);
	write_file("x.conf", text);
	assert_int_equal(load_args(&c, (const char *[]){"xsbxfs", "-c", "x.conf", "mnt", NULL}), 0);
	assert_non_null(conf_template_find(&c, "app"));
	conf_clear(&c);
	assert_int_equal(load_args(&c, (const char *[]){"xsbxfs", "mnt", NULL}), 0);
	assert_null(conf_template_find(&c, "app"));
	conf_clear(&c);
}

/* A template of another name begins with what its image says, and the configuration has the last word. */
static void test_inherited(void **state)
{
	const char *const argv[] = {"xsbxfs", "-o", "cache_dir=cache", "-c", "x.conf", "mnt", NULL};
	struct buf kept = {0};
	struct conf c, again;

	(void)state;
	write_file(
		CONF,
		"[template app]\nlanguage = raw\nview = image\nenv.A = image's\nenv.B = "
		"a \"b\" \\c\ncwd = /app\nentrypoint = /app/start 'a b'\\;' c'\nmemory_mb = 300\n");
	write_file("x.conf", "[limits]\nmax_memory_mb = 256\n[template mine]\nenv.A = mine\ncwd = "
			     "/mine\nimage = app\n[template app]\nenv.C = no\n[template python]\n"
			     "image = app\n[template none]\nimage = nowhere\nlanguage = raw\n");
	assert_string_equal(load_args(&c, argv) < 0 ? why : "", "");
	assert_int_equal(conf_put(&c, &kept), 0);
	assert_int_equal(conf_load_again(&again, 6, (char *const *)argv,
					 record_reader(kept.data, kept.len), why, sizeof(why)),
			 0);
	for (int i = 0; i < 2; i++) {
		const struct settings *s = &conf_template_find(i ? &again : &c, "mine")->settings;
		const struct settings *app = &conf_template_find(&c, "app")->settings;

		assert_string_equal(s->spec.language, "raw");
		assert_true(s->spec.image_view);
		assert_string_equal(s->cwd, "/mine");
		assert_string_equal(s->entrypoint, app->entrypoint);
		assert_int_equal(s->spec.memory_mb, 256);
		assert_int_equal(s->spec.nenv, 2);
		assert_string_equal(s->spec.env[0].value, "mine");
		assert_string_equal(s->spec.env[1].value, app->spec.env[1].value);
		s = &conf_template_find(i ? &again : &c, "python")->settings;
		assert_string_equal(s->spec.language, "raw");
		assert_string_equal(s->spec.env[0].value, "image's");
	}
	assert_false(conf_template_find(&c, "none")->settings.spec.image_view);
	buf_clear(&kept);
	conf_clear(&c);
	conf_clear(&again);
}

/* Nothing of the host, nothing of another template; the mount is made without it. */
static void test_left_out(void **state)
{
	static const char *const bad[][2] = {
		{"[template python]\nlanguage = raw\n", "no other template than [template app]"},
		{"[limits]\nallow_process = yes\n", "no section [limits]"},
		{"[secret x]\nfrom = file /etc/shadow\n", "an image has no secrets"},
		{"allow_process = yes\n", "nothing but its own template"},
		{"cache_dir = /etc\n[template app]\nlanguage = raw\n",
		 "nothing but its own template"},
		{"[template app]\nlanguage = raw\nrw = /etc\n", "rw: an image can't"},
		{"[template app]\nlanguage = raw\nro = /etc/shadow:/x\n", "ro: an image can't"},
		{"[template app]\nlanguage = raw\nwork = /etc\n", "work: an image can't"},
		{"[template app]\nlanguage = raw\nroot = yes\n", "root: an image can't"},
		{"[template app]\nlanguage = raw\nbackend = process\n", "backend: an image can't"},
		{"[template app]\nlanguage = raw\nnetwork = on\n", "network: an image can't"},
		{"[template app]\nlanguage = raw\nallow = *\n", "allow: an image can't"},
		{"[template app]\nlanguage = raw\nimage = python\n", "image: an image can't"},
		{"[template app]\nlanguage = raw\npool = 900\n", "pool: an image can't"},
		{"[template app]\nlanguage = raw\nentrypoint = a | b\n", "template.conf:3"},
		{"[template app]\nlanguage = raw\nentrypoint = ''\n", "first word is empty"},
		{"[template app]\nlanguage = raw\ncwd = ../..\n", "leads out"},
		{"[template app]\nlanguage = raw\nenv.A-B = x\n", "not a name"},
		{"[template app]\nlanguage = cobol\n", "cobol"},
		{"[template app]\n", "which language?"},
		{"\x01\x02", "template.conf"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct conf c;

		write_file(CONF, bad[i][0]);
		assert_int_equal(load(&c), 0);
		if (conf_template_find(&c, "app"))
			fail_msg("taken: %s", bad[i][0]);
		if (!strstr(buf_str(&c.notes), bad[i][1]))
			fail_msg("\"%s\" does not say \"%s\"", buf_str(&c.notes), bad[i][1]);
		assert_string_equal(conf_template_find(&c, "python")->settings.spec.language,
				    "python");
		assert_false(c.limits.allow_process);
		conf_clear(&c);
	}
	write_file(CONF, "[template app]\nlanguage = raw\n");
	assert_int_equal(chmod(CONF, 0666), 0);
	struct conf c;
	assert_int_equal(load(&c), 0);
	assert_null(conf_template_find(&c, "app"));
	assert_non_null(strstr(buf_str(&c.notes), "others may write"));
	conf_clear(&c);
	assert_int_equal(chmod(CONF, 0600), 0);
	assert_int_equal(load(&c), 0); /* the control */
	assert_non_null(conf_template_find(&c, "app"));
	conf_clear(&c);
}

/* An image that wants more than is allowed has what is allowed, whoever else has said something of its template. */
static void test_limits(void **state)
{
	static const char limits[] =
		"[limits]\nmax_memory_mb = 256\nmax_timeout_s = 60\nmax_cpus = "
		"1\n";
	static const char *const sections[] = {"", "[template app]\n",
					       "[template app]\ncpus = 1\n"};
	const struct conf_template *t;
	char text[256];
	struct conf c;

	(void)state;
	write_file(CONF, "[template app]\nlanguage = raw\nmemory_mb = 512\ntimeout_s = 0\ncpus = "
			 "1\n");
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		snprintf(text, sizeof(text), "%s%s", limits, sections[i]);
		write_file("x.conf", text);
		assert_string_equal(load(&c, "-c", "x.conf") < 0 ? why : "", "");
		t = conf_template_find(&c, "app");
		assert_non_null(t);
		assert_int_equal(t->settings.spec.memory_mb, 256);
		assert_int_equal(t->settings.timeout_s, 60);
		assert_non_null(strstr(buf_str(&c.notes), "image app wants memory_mb = 512: it "
							  "has 256"));
		assert_non_null(strstr(buf_str(&c.notes), "app wants timeout_s = 0, which is no "
							  "limit: it has 60"));
		assert_null(strstr(buf_str(&c.notes), "cpus"));
		conf_clear(&c);
	}
	/* What the configuration says itself is not lowered behind its back. */
	snprintf(text, sizeof(text), "%s[template app]\nmemory_mb = 300\ntimeout_s = 5\n", limits);
	write_file("x.conf", text);
	assert_int_equal(load(&c, "-c", "x.conf"), -EINVAL);
	assert_non_null(strstr(why, "[template app]: memory_mb: 300"));
	conf_clear(&c);
	snprintf(text, sizeof(text), "%s[template app]\nmemory_mb = 200\ntimeout_s = 5\n", limits);
	write_file("x.conf", text);
	assert_int_equal(load(&c, "-c", "x.conf"), 0);
	assert_int_equal(conf_template_find(&c, "app")->settings.spec.memory_mb, 200);
	assert_int_equal(c.notes.len, 0);
	conf_clear(&c);
}

/* Nor does one that is called as a template that there always is keep the mount from being made. */
static void test_limits_builtin(void **state)
{
	static const char place[] = TEMPLATES "/python", conf[] = TEMPLATES "/python/template.conf";
	struct conf c;

	(void)state;
	assert_int_equal(mkdir(place, 0700), 0);
	write_file(conf, "[template python]\nmemory_mb = 4096\n");
	write_file("x.conf", "[limits]\nmax_memory_mb = 1024\n");
	assert_string_equal(load(&c, "-c", "x.conf") < 0 ? why : "", "");
	assert_int_equal(conf_template_find(&c, "python")->settings.spec.memory_mb, 1024);
	assert_non_null(strstr(buf_str(&c.notes), "image python wants memory_mb = 4096"));
	conf_clear(&c);
	assert_int_equal(remove(conf) | remove(place), 0);
}

/* Who goes on has what was read, and not what is there now. */
static void test_again(void **state)
{
	const char *const argv[] = {"xsbxfs", "-o", "cache_dir=cache", "-c", "x.conf", "mnt", NULL};
	struct buf kept = {0};
	struct conf c, again;

	(void)state;
	write_file(CONF, "[template app]\nlanguage = raw\nenv.A = x\n");
	write_file("x.conf", "[template other]\nimage = app\nlanguage = raw\n");
	assert_int_equal(load_args(&c, argv), 0);
	assert_int_equal(conf_put(&c, &kept), 0);
	write_file(CONF, "[template app]\nlanguage = raw\nenv.A = changed\n");
	assert_int_equal(conf_load_again(&again, 6, (char *const *)argv,
					 record_reader(kept.data, kept.len), why, sizeof(why)),
			 0);
	assert_int_equal(again.ntemplates, c.ntemplates);
	for (size_t i = 0; i < c.ntemplates; i++) {
		assert_string_equal(again.template[i].name, c.template[i].name);
		assert_int_equal(again.template[i].of_image, c.template[i].of_image);
	}
	assert_string_equal(conf_template_find(&again, "app")->settings.spec.env[0].value, "x");
	buf_clear(&kept);
	conf_clear(&c);
	conf_clear(&again);
}

/* Makes, or removes, images a00, a01 ... */
static void many(unsigned n, bool there)
{
	char at[64], text[64];

	for (unsigned i = 0; i < n; i++) {
		snprintf(at, sizeof(at), TEMPLATES "/a%02u", i);
		if (there)
			assert_int_equal(mkdir(at, 0700), 0);
		snprintf(at, sizeof(at), TEMPLATES "/a%02u/template.conf", i);
		snprintf(text, sizeof(text), "[template a%02u]\nlanguage = raw\n", i);
		if (there) {
			write_file(at, text);
			continue;
		}
		assert_int_equal(remove(at), 0);
		*strrchr(at, '/') = '\0';
		assert_int_equal(remove(at), 0);
	}
}

/* Those that there is no place for are left out, and who goes on has the same. */
static void test_too_many(void **state)
{
	const char *const argv[] = {"xsbxfs", "-o", "cache_dir=cache", "-c", "x.conf", "mnt", NULL};
	struct buf kept = {0};
	struct conf c, again;

	(void)state;
	many(71, true);
	for (int own = 0; own < 2; own++) {
		/* The configuration's come behind them, and have a place. */
		write_file("x.conf", own ? "[template x]\nlanguage = raw\n[template y]\nlanguage = "
					   "raw\n[template a00]\n"
					 : "");
		assert_string_equal(load_args(&c, argv) < 0 ? why : "", "");
		assert_int_equal(c.ntemplates, CONF_TEMPLATES_MAX);
		assert_int_equal(!!conf_template_find(&c, "x"), own);
		assert_int_equal(!!conf_template_find(&c, "y"), own);
		assert_non_null(conf_template_find(&c, "a00"));
		assert_int_equal(!!conf_template_find(&c, "a58"), !own);
		assert_null(conf_template_find(&c, "a70"));
		assert_non_null(strstr(buf_str(&c.notes), "template a70: 64 templates"));
		assert_int_equal(conf_put(&c, &kept), 0);
		assert_string_equal(conf_load_again(&again, 6, (char *const *)argv,
						    record_reader(kept.data, kept.len), why,
						    sizeof(why)) < 0
					    ? why
					    : "",
				    "");
		assert_int_equal(again.ntemplates, c.ntemplates);
		for (size_t i = 0; i < c.ntemplates; i++)
			assert_string_equal(again.template[i].name, c.template[i].name);
		buf_clear(&kept);
		conf_clear(&c);
		conf_clear(&again);
	}
	many(71, false);
}

/* Nor does it end the mount if another program finds something wrong with what was kept. */
static void test_kept_wrong(void **state)
{
	const char *const argv[] = {"xsbxfs", "-o", "cache_dir=cache", "mnt", NULL};
	static const char from[] = "language = raw", to[] = "language = rwa";
	struct buf kept = {0};
	struct conf c;
	char *at;

	(void)state;
	write_file(CONF, "[template app]\nlanguage = raw\n");
	assert_int_equal(load(&c), 0);
	assert_int_equal(conf_put(&c, &kept), 0);
	conf_clear(&c);
	at = memmem(kept.data, kept.len, from, strlen(from));
	assert_non_null(at);
	memcpy(at, to, strlen(to));
	assert_int_equal(conf_load_again(&c, 4, (char *const *)argv,
					 record_reader(kept.data, kept.len), why, sizeof(why)),
			 0);
	assert_non_null(strstr(buf_str(&c.notes), "left out"));
	conf_clear(&c);
	buf_clear(&kept);
}

/* Images that are built when they are first needed have a language, and memory. */
static void test_known(void **state)
{
	struct conf c;

	(void)state;
	write_file("x.conf", "[limits]\nmax_memory_mb = 600\nmax_timeout_s = 100\n[template "
			     "go]\n[template browser]\n");
	assert_int_equal(load(&c, "-c", "x.conf"), 0);
	assert_string_equal(conf_template_find(&c, "go")->settings.spec.language, "raw");
	assert_int_equal(conf_template_find(&c, "go")->settings.spec.memory_mb, 512);
	assert_int_equal(conf_template_find(&c, "browser")->settings.spec.memory_mb, 600);
	assert_int_equal(conf_template_find(&c, "browser")->settings.timeout_s, 100);
	assert_false(conf_template_find(&c, "go")->prepare);
	assert_null(conf_template_find(&c, "rust"));
	conf_clear(&c);
}

#define SHARED \
	"/srv/shared/images/templates/" /* not in /tmp: anybody may write where that leads through */

/* A file system of this process's own. Return: false: only root can have that. */
static bool make_shared_dir(void)
{
	static const char *const dirs[] = {"/srv/shared", "/srv/shared/images", SHARED,
					   SHARED "app", SHARED "other"};

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		return false;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/srv", "tmpfs", 0, "mode=755") < 0)
		return false;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		assert_int_equal(mkdir(dirs[i], 0755), 0);
	return true;
}

/* Is the template there that is only for all? And is it said why not? */
static bool has_other(bool told)
{
	struct conf c;
	bool has;

	assert_int_equal(load(&c, "-o", "shared_dir=/srv/shared"), 0);
	assert_int_equal(conf_template_find(&c, "app")->settings.spec.memory_mb, 300);
	assert_int_not_equal(conf_template_find(&c, "app")->settings.timeout_s, 7);
	assert_int_equal(c.notes.len > 0, told);
	has = conf_template_find(&c, "other");
	conf_clear(&c);
	return has;
}

/* Those that root has built for all come behind one's own, and only if nobody else can have put them there. */
static void test_for_all(void **state)
{
	static const char other[] = SHARED "other/template.conf";
	static const struct {
		const char *path;
		bool told;
	} ways[] = {{other, true},   {SHARED "other", true},	    {SHARED, false},
		    {"/srv", false}, {"/srv/shared/images", false}, {"/srv/shared", false}};
	struct conf c;

	(void)state;
	write_file(CONF, "[template app]\nlanguage = raw\nmemory_mb = 300\n");
	if (!make_shared_dir()) {
		print_message("only as root: templates for all\n");
		return;
	}
	write_file(SHARED "app/template.conf",
		   "[template app]\nlanguage = raw\nmemory_mb = 400\ntimeout_s = 7\n");
	write_file(other, "[template other]\nlanguage = raw\nmemory_mb = 500\n");
	assert_true(has_other(false));
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		assert_int_equal(chown(ways[i].path, 12001, 0), 0);
		assert_false(has_other(ways[i].told));
		assert_int_equal(chown(ways[i].path, 0, 0), 0);
		assert_true(has_other(false));
	}
	/* A link of somebody else's to what is root's. */
	assert_int_equal(rename(SHARED "other", "/srv/elsewhere"), 0);
	assert_int_equal(symlink("/srv/elsewhere", SHARED "other"), 0);
	assert_true(has_other(false));
	assert_int_equal(lchown(SHARED "other", 12001, 0), 0);
	assert_false(has_other(true));
	assert_int_equal(load(&c, "-o", "shared_dir=none"), 0);
	assert_null(conf_template_find(&c, "other"));
	conf_clear(&c);
	assert_int_equal(umount2("/srv", MNT_DETACH), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_brings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_last_word, setup, teardown),
		cmocka_unit_test_setup_teardown(test_inherited, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_out, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits_builtin, setup, teardown),
		cmocka_unit_test_setup_teardown(test_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept_wrong, setup, teardown),
		cmocka_unit_test_setup_teardown(test_known, setup, teardown),
		cmocka_unit_test_setup_teardown(test_for_all, setup, teardown),
	};

	return cmocka_run_group_tests(tests, conf_fixture_setup, conf_fixture_teardown);
}
