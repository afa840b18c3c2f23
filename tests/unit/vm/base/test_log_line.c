/* SPDX-License-Identifier: Apache-2.0 */
/* How lines of the log look: as text, as JSON, for the journal; and that what is off is not looked at. */
/* modules: vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
/* libs: jansson */
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/log_line.h"
#include "vm/base/util.h"

static const struct log_label run = {"python/demo", 3, 1000000000};
static const struct log_label session = {.who = "python/demo"};
static const struct log_label nobody;

static struct log_line line_of(const struct log_label *label, const char *part, const char *text)
{
	return (struct log_line){LOG_LEVEL_DEBUG, label, part, 1012399999, 0, text};
}

static void as_text(void **state)
{
	static const struct {
		const struct log_label *label;
		const char *part, *want;
	} cases[] = {
		{&run, "spawner", "python/demo#3 +12.3 ms spawner: words"},
		{&run, NULL, "python/demo#3 +12.3 ms words"},
		{&session, "pool", "python/demo pool: words"},
		{&nobody, "pool", "pool: words"},
		{NULL, NULL, "words"},
	};
	char out[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct log_line l = line_of(cases[i].label, cases[i].part, "words");

		assert_int_equal(log_line_text(&l, out, sizeof(out)), strlen(cases[i].want));
		assert_string_equal(out, cases[i].want);
		assert_int_equal(log_line_text(&l, out, 4), 3);
	}
}

static json_t *parsed(const struct log_line *l, size_t size)
{
	char *out = malloc(size); /* of this size, so that a byte too much is found */
	json_error_t why;
	size_t len;
	json_t *o;

	len = log_line_json(l, out, size);
	assert_int_equal(len, strlen(out));
	o = json_loads(out, JSON_REJECT_DUPLICATES, &why);
	if (!o)
		fail_msg("%s: %s", why.text, out);
	assert_null(strchr(out, '\n'));
	free(out);
	return o;
}

static const char *field(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static void as_json(void **state)
{
	struct log_line l = line_of(&run, "spawner", "a \"quote\" \\ and\ttab \xc3\xa4");
	json_t *o;

	(void)state;
	l.time_us = 1709164800123456; /* 2024, a leap year */
	o = parsed(&l, 1024);
	assert_string_equal(field(o, "time"), "2024-02-29T00:00:00.123456Z");
	assert_string_equal(field(o, "level"), "debug");
	assert_string_equal(field(o, "session"), "python/demo");
	assert_int_equal(json_integer_value(json_object_get(o, "run")), 3);
	assert_string_equal(field(o, "part"), "spawner");
	assert_true(json_real_value(json_object_get(o, "elapsed_ms")) == 12.399);
	assert_string_equal(field(o, "message"), l.text);
	json_decref(o);

	l = line_of(NULL, NULL, "x");
	l.level = LOG_LEVEL_WARN;
	o = parsed(&l, 512);
	assert_int_equal(json_object_size(o), 3);
	assert_string_equal(field(o, "level"), "warning");
	assert_string_equal(field(o, "time"), "1970-01-01T00:00:00.000000Z");
	json_decref(o);
}

/* The calendar of the library knows as much. */
static void dates(void **state)
{
	(void)state;
	for (int64_t day = 0; day < 366 * 500; day += 97) {
		const time_t t = (time_t)(day * 86400 + day % 86400);
		struct log_line l = line_of(NULL, NULL, "");
		char want[64];
		struct tm tm;
		json_t *o;

		l.time_us = (int64_t)t * 1000000;
		o = parsed(&l, 512);
		gmtime_r(&t, &tm);
		strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%S.000000Z", &tm);
		assert_string_equal(field(o, "time"), want);
		json_decref(o);
	}
}

/* Whatever is to be said, and however long it is: one object, with the fields that it is to have. */
static void as_json_of_anything(void **state)
{
	char text[2048];
	unsigned seed = 1;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		const size_t len = (size_t)rand_r(&seed) % sizeof(text);
		const struct log_label label = {text, 7, 1};
		const struct log_line l = line_of(&label, i % 2 ? text : NULL, text);
		json_t *o;

		for (size_t n = 0; n < len; n++)
			text[n] = (char)(i % 3 ? "\"\\ax\x80\xe2\x82\xac\xff\xed\xa0\xf4\x90"
							 [(size_t)rand_r(&seed) % 13]
					       : 1 + rand_r(&seed) % 255);
		text[len] = '\0';
		o = parsed(&l, 512 + (size_t)rand_r(&seed) % 3000);
		assert_non_null(field(o, "message"));
		assert_int_equal(json_integer_value(json_object_get(o, "run")), 7);
		assert_int_equal(json_object_size(o), 5u + (i % 2 ? 1u : 0u) + (text[0] ? 1u : 0u));
		json_decref(o);
	}
}

/* ---- where they go ---- */

static char said[4096];
static int saved_stderr, file = -1;

static int set_up(void **state)
{
	char path[] = "/tmp/xsbxfs-unit.XXXXXX";

	(void)state;
	file = mkstemp(path);
	unlink(path);
	saved_stderr = dup(STDERR_FILENO);
	return file < 0 || saved_stderr < 0 || dup2(file, STDERR_FILENO) < 0;
}

static int tear_down(void **state)
{
	(void)state;
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(file);
	log_open(LOG_LEVEL_INFO);
	log_set_format(LOG_TEXT);
	log_to_journal(false);
	return 0;
}

static const char *written(void)
{
	const ssize_t n = pread(file, said, sizeof(said) - 1, 0);

	said[MAX(n, 0)] = '\0';
	if (ftruncate(file, 0) < 0)
		return NULL;
	lseek(file, 0, SEEK_SET);
	return said;
}

static unsigned asked;

static unsigned ask(void)
{
	return ++asked;
}

static void levels(void **state)
{
	enum log_level level = LOG_LEVEL_INFO;

	(void)state;
	log_debug("%u", ask());
	log_trace(&run, "part", "%u", ask());
	log_heard(LOG_LEVEL_DEBUG, &run, "part", 0, "not this");
	assert_int_equal(asked, 0);
	assert_string_equal(written(), "");
	log_open(LOG_LEVEL_DEBUG);
	assert_int_equal(log_level(), LOG_LEVEL_DEBUG);
	log_debug("%u", ask());
	log_trace(&session, "part", "%u", ask());
	log_heard(LOG_LEVEL_WARN, &run, "spawner", 1000000000, "two\nlines");
	assert_string_equal(written(),
			    "xsbxfs: debug: 1\n"
			    "xsbxfs: debug: python/demo part: 2\n"
			    "xsbxfs: warning: python/demo#3 +0.0 ms spawner: two?lines\n");
	log_open(LOG_LEVEL_ERROR);
	log_warn("not this");
	assert_string_equal(written(), "");

	assert_int_equal(log_level_parse("warning:", 7, &level), 0);
	assert_int_equal(level, LOG_LEVEL_WARN);
	assert_true(log_level_parse("warn", 4, &level) < 0);
	assert_true(log_level_parse("", 0, &level) < 0);
}

static void journal(void **state)
{
	char here[64], behind[80];
	struct stat st;

	(void)state;
	fstat(file, &st);
	snprintf(here, sizeof(here), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	snprintf(behind, sizeof(behind), "%s0", here);
	assert_true(log_is_journal(file, here));
	assert_false(log_is_journal(file, behind));
	assert_false(log_is_journal(file, NULL));
	assert_false(log_is_journal(file, ""));
	assert_false(log_is_journal(-1, here));
	log_to_journal(true);
	log_open(LOG_LEVEL_DEBUG);
	log_error("bad");
	log_info("good");
	log_trace(&session, "part", "step");
	assert_string_equal(written(), "<3>bad\n<6>good\n<7>python/demo part: step\n");
}

static void json_on_stderr(void **state)
{
	json_t *o;

	(void)state;
	log_set_format(LOG_JSON);
	log_warn("%s", "a \"b\"");
	o = json_loads(written(), 0, NULL);
	assert_non_null(o);
	assert_string_equal(field(o, "message"), "a \"b\"");
	assert_string_equal(field(o, "level"), "warning");
	assert_true(strncmp(field(o, "time"), "20", 2) == 0);
	json_decref(o);
}

/* What is heard late has the time at which it happened. */
static void json_of_long_ago(void **state)
{
	char now[32];
	json_t *o;

	(void)state;
	log_set_format(LOG_JSON);
	log_warn("now");
	o = json_loads(written(), 0, NULL);
	assert_non_null(o);
	snprintf(now, sizeof(now), "%s", field(o, "time"));
	json_decref(o);
	log_heard(LOG_LEVEL_WARN, &run, "agent", log_now() - 86400 * 1000000000ull, "yesterday");
	o = json_loads(written(), 0, NULL);
	assert_non_null(o);
	assert_true(strncmp(field(o, "time"), now, 10) < 0);
	json_decref(o);
}

/* What is made ahead belongs to a template, and to no session. */
static void json_of_a_template(void **state)
{
	const struct log_label label = {.who = "python"};
	struct log_line l = line_of(&label, "guest", "is up");
	json_t *o = parsed(&l, 512);

	(void)state;
	assert_string_equal(field(o, "template"), "python");
	assert_null(json_object_get(o, "session"));
	json_decref(o);
}

static void take(void *data, enum log_level level, const char *text)
{
	snprintf(data, 64, "%d %s", (int)level, text);
}

static void diverted(void **state)
{
	char taken[64];

	(void)state;
	log_divert(take, taken);
	log_warn("a\nb");
	log_divert(NULL, NULL);
	assert_string_equal(taken, "1 a?b");
	assert_string_equal(written(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_text),
		cmocka_unit_test(as_json),
		cmocka_unit_test(json_of_a_template),
		cmocka_unit_test(dates),
		cmocka_unit_test(as_json_of_anything),
		cmocka_unit_test_setup_teardown(levels, set_up, tear_down),
		cmocka_unit_test_setup_teardown(journal, set_up, tear_down),
		cmocka_unit_test_setup_teardown(json_on_stderr, set_up, tear_down),
		cmocka_unit_test_setup_teardown(json_of_long_ago, set_up, tear_down),
		cmocka_unit_test_setup_teardown(diverted, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
