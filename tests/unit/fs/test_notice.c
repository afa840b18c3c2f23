/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager hears: when, how often, and which line. */
/* modules: fs/notice.c */
/* libs: uv */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/notice.h"
#include "fs/session/fs.h"
#include "vm/base/util.h"
#include "vm/spawn/spawner.h"
#include "vm/vm.h"

static char told[4096];
static unsigned running, nsessions;
static const char *made; /* the image that is being made */

void spawner_herald(const struct spawner *sp, char word, const char *text)
{
	const size_t len = strlen(told);

	(void)sp;
	snprintf(told + len, sizeof(told) - len, "%c%s.", word, text);
}

struct session *roster_at(const struct roster *ro, unsigned i)
{
	(void)ro;
	return i < nsessions ? (struct session *)told : NULL;
}

void vm_status(const struct vm *vm, struct vm_status *ret_status)
{
	(void)vm;
	*ret_status = (struct vm_status){.running = running};
}

void vm_image_status(struct vm *vm, const char *name, struct vm_image_status *ret_status)
{
	(void)vm;
	*ret_status = (struct vm_image_status){
		.state = made && (strcmp(made, "*") == 0 || strcmp(made, name) == 0) ? "building"
										     : "ready"};
}

static struct conf conf = {.foreground = true, .ntemplates = 3};
static struct fs fs = {.conf = &conf, .vm = (struct vm *)told, .roster.n = 8};
static uv_loop_t loop;

static int set_up(void **state)
{
	static const char *const images[] = {"raw", "python", "raw"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		conf.template[i].settings.spec.image = (char *)images[i];
	told[0] = '\0';
	running = nsessions = 0;
	made = NULL;
	conf.foreground = true;
	setenv("NOTIFY_SOCKET", "/somewhere", 1);
	setenv("WATCHDOG_USEC", "400000", 1);
	return uv_loop_init(&loop);
}

static int tear_down(void **state)
{
	(void)state;
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

static void interval(void **state)
{
	(void)state;
	assert_int_equal(notice_interval_ms(NULL), 5000);
	assert_int_equal(notice_interval_ms("0"), 5000);
	assert_int_equal(notice_interval_ms("x"), 5000);
	assert_int_equal(notice_interval_ms("120000000"), 5000);
	assert_int_equal(notice_interval_ms("8000000"), 1000);
	assert_int_equal(notice_interval_ms("1"), 50);
	assert_int_equal(notice_interval_ms("99999999999999999999999"), 5000);
}

static void line(void **state)
{
	char text[NOTICE_STATUS_SIZE], little[12];

	(void)state;
	notice_describe(&fs, text, sizeof(text));
	assert_string_equal(text, "0 sessions, 0 with a sandbox");
	nsessions = running = 1;
	made = "python";
	notice_describe(&fs, text, sizeof(text));
	assert_string_equal(text, "1 session, 1 with a sandbox; builds the image python");
	made = "*"; /* templates with one image */
	notice_describe(&fs, text, sizeof(text));
	assert_string_equal(text, "1 session, 1 with a sandbox; builds the image raw, python");
	notice_describe(&fs, little, sizeof(little));
	assert_string_equal(little, "1 session, ");
}

/* The loop's turns are told, and a line once; the timer keeps no loop from its end. */
static void turns(void **state)
{
	static struct notice n; /* until the loop has closed it */

	(void)state;
	notice_start(&n, &loop, &fs, NULL);
	notice_ready(&n);
	assert_string_equal(told, "P.S0 sessions, 0 with a sandbox.R.");
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	told[0] = '\0';
	uv_ref((uv_handle_t *)&n.timer);
	uv_run(&loop, UV_RUN_ONCE);
	uv_run(&loop, UV_RUN_ONCE);
	assert_string_equal(told, "P.P.");
	nsessions = 2;
	uv_run(&loop, UV_RUN_ONCE);
	assert_string_equal(told, "P.P.P.S2 sessions, 0 with a sandbox.");
	notice_end(&n, "terminated");
	fs.stopping = true;
	nsessions = 0;
	uv_run(&loop, UV_RUN_ONCE);
	fs.stopping = false;
	assert_string_equal(told, "P.P.P.S2 sessions, 0 with a sandbox.E.Sterminated.P.");
	notice_close(&n);
	notice_close(&n);
}

/* Nobody listens, or it is not this process that somebody listens to. */
static void silent(void **state)
{
	struct notice n = {0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		conf.foreground = i;
		if (i)
			unsetenv("NOTIFY_SOCKET");
		notice_start(&n, &loop, &fs, NULL);
		notice_ready(&n);
		notice_end(&n, "");
		notice_close(&n);
	}
	assert_string_equal(told, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interval),
		cmocka_unit_test_setup_teardown(line, set_up, tear_down),
		cmocka_unit_test_setup_teardown(turns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(silent, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
