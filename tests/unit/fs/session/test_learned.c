/* SPDX-License-Identifier: Apache-2.0 */
/* What was learnt, as a template: which directories, how many, which limits. */
/* modules: fs/session/learned.c fs/config/learn.c fs/config/paths.c fs/config/value.c vm/base/upstream.c fs/request/clock.c agent/protocol.c vm/net/allow_check.c vm/base/allow.c vm/base/address.c */
/* modules: vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/words.c vm/base/spec.c vm/base/path.c vm/base/buf.c vm/base/problem.c vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/config/learn.h"
#include "fs/session/fs.h"
#include "fs/session/learned.h"
#include "fs/session/session.h"
#include "vm/base/path.h"
#include "vm/base/spec.h"

static struct vm_path shown[] = {{"/srv/data", "/data", false}};
static struct vm_path learning[] = {{"/opt", "/opt", false}, {"/mnt", "/mnt", false}};
static struct conf conf = {.learn = {.paths = learning, .npaths = 2}};
static struct conf_template template = {.settings.spec = {.paths = shown, .npaths = 1}};
static struct fs fs = {.conf = &conf};
static struct session s;

static int setup(void **state)
{
	(void)state;
	s = (struct session){.fs = &fs,
			     .t = &template,
			     .name = "demo",
			     .path = "raw/demo",
			     .settings = {.spec = {.language = "raw",
						   .packages = "",
						   .memory_mb = 512,
						   .limits.processes = 512},
					  .timeout_s = 30}};
	LIST_INIT(&s.kept_runs);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	learned_clear(&s.learned);
	return 0;
}

static void add(enum proto_learned kind, const char *path)
{
	learned_add(&s.learned, &(struct sandbox_learned){.kind = kind, .path = proto_cstr(path)});
}

static void shows(const char *key, const char *want)
{
	struct buf text = {0};
	char line[4096], *at;

	snprintf(line, sizeof(line), "\n%s", key);
	assert_int_equal(learned_write(&s, &text), 0);
	assert_int_equal(buf_append(&text, "", 1), 0);
	at = strstr(text.data, line);
	if (!want) {
		assert_null(at);
	} else {
		assert_non_null(at);
		at[1 + strcspn(at + 1, "\n")] = '\0';
		snprintf(line, sizeof(line), "%s%s", key, want);
		assert_string_equal(at + 1, line);
	}
	buf_clear(&text);
}

static void test_directories(void **state)
{
	(void)state;
	shows("ro", NULL);
	shows("[template ", "demo]");
	add(PROTO_LEARNED_READ, "/opt/tool/lib");
	add(PROTO_LEARNED_READ, "/opt/tool");
	add(PROTO_LEARNED_READ, "/opt/tool/lib");
	add(PROTO_LEARNED_READ, "/opt/toolbox");
	add(PROTO_LEARNED_READ, "/data/in"); /* of the template */
	add(PROTO_LEARNED_READ, "/etc/hosts");
	add(PROTO_LEARNED_MISSED, "/opt/none");
	shows("ro =", " /srv/data/in:/data/in /opt/tool /opt/toolbox");
	shows("rw", NULL);
	shows("# tried", ", and not there: /opt/none");
}

static void test_written(void **state)
{
	(void)state;
	add(PROTO_LEARNED_READ, "/opt/a/b");
	add(PROTO_LEARNED_WROTE, "/opt/a");
	add(PROTO_LEARNED_WROTE, "/mnt/file");
	shows("rw =", " /mnt/file /opt/a");
	shows("ro", NULL); /* it lies in what is written */
}

/* A directory that was only looked at is there if something in it is shown, or it in something. */
static void test_seen(void **state)
{
	(void)state;
	add(PROTO_LEARNED_SEEN, "/opt");
	add(PROTO_LEARNED_SEEN, "/opt/a");
	add(PROTO_LEARNED_SEEN, "/opt/a/b/c/d");
	add(PROTO_LEARNED_READ, "/opt/a/b/c");
	add(PROTO_LEARNED_SEEN, "/mnt/x");
	shows("ro =", " /mnt/x /opt/a/b/c");
}

/* There are not more than a template may have. */
static void test_many(void **state)
{
	struct sandbox_spec spec = {.backend = VM_PROCESS};
	struct buf text = {0};
	char path[64];

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "/opt/%u/deep/%u", i % 20, i);
		add(PROTO_LEARNED_READ, path);
		snprintf(path, sizeof(path), "/mnt/%u/%u", i % 4, i);
		add(PROTO_LEARNED_WROTE, path);
	}
	shows("rw =", " /mnt/0 /mnt/1 /mnt/2 /mnt/3");
	shows("ro =", " /opt");
	spec_free(&spec);
	buf_clear(&text);
}

/* What a configuration can't say is left out. */
static void test_names(void **state)
{
	(void)state;
	add(PROTO_LEARNED_READ, "/opt/a b");
	add(PROTO_LEARNED_READ, "/opt/a:b");
	add(PROTO_LEARNED_WROTE, "/opt/x\ny = z");
	add(PROTO_LEARNED_MISSED, "/opt/\033[31m");
	shows("ro", NULL);
	shows("rw", NULL);
	shows("y", NULL);
	shows("# tried", NULL);
}

static void test_limits(void **state)
{
	struct run r = {.result = {.wall_us = 7100000, .maxrss_kib = 100 << 10}};

	(void)state;
	shows("processes = ", "64");
	shows("memory_mb = ", "128");
	shows("timeout_s = ", "10");
	LIST_INSERT_HEAD(&s.kept_runs, &r, kept);
	learned_add(&s.learned, &(struct sandbox_learned){.processes = 70, .memory_kib = 1024});
	shows("processes = ", "160");
	shows("memory_mb = ", "256");
	shows("timeout_s = ", "20");
	learned_add(&s.learned, &(struct sandbox_learned){.processes = 500, .memory_kib = 1 << 20});
	shows("processes = ", "512");
	shows("memory_mb = ", "512");
}

/* What it can take is bounded. */
static void test_bounds(void **state)
{
	char path[4096];

	(void)state;
	for (unsigned i = 0; i < 2 * LEARNED_PATHS; i++) {
		snprintf(path, sizeof(path), "/opt/%u", i);
		add(PROTO_LEARNED_READ, path);
	}
	assert_int_equal(s.learned.n, LEARNED_PATHS);
	learned_clear(&s.learned);
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	for (unsigned i = 0; i < 200; i++) {
		snprintf(path + 1000, sizeof(path) - 1000, "%u", i);
		path[1003 - 1] = 'x';
		memset(path + 1003, 'x', 2000);
		path[3003] = '\0';
		add(PROTO_LEARNED_READ, path);
	}
	assert_true(s.learned.bytes <= LEARNED_BYTES);
}

/* What sandboxes see meanwhile: what is asked for, without what the template shows anyway. */
static void test_view(void **state)
{
	char top[] = "/tmp/xsbxfs-unit.learn.XXXXXX", text[128];
	struct sandbox_spec learn = {.name = NULL};
	struct vm_path view[VM_PATHS_MAX];
	struct problem why;

	(void)state;
	assert_non_null(mkdtemp(top));
	snprintf(text, sizeof(text), "%s:/opt/x %s:/data/y", top, top);
	assert_int_equal(learn_find(text, &learn, &why), 0);
	assert_int_equal(learn_view(&template.settings.spec, &learn, view), 2);
	assert_string_equal(view[0].target, "/opt/x");
	assert_string_equal(view[1].target, "/data");
	spec_free(&learn);
	assert_true(learn_find("/nowhere/at/all", &learn, &why) < 0);
	assert_int_equal(rmdir(top), 0);
	/* Else what there is at the top, but not what a sandbox has of its own. */
	assert_int_equal(learn_find(NULL, &learn, &why), 0);
	for (size_t i = 0; i < learn.npaths; i++)
		assert_true(!path_is_within(learn.paths[i].target, "/usr") &&
			    !path_is_within(learn.paths[i].target, "/root") &&
			    !path_is_within(learn.paths[i].target, "/proc"));
	assert_true(learn.npaths <= VM_PATHS_MAX);
	spec_free(&learn);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_directories), T(test_written), T(test_seen),   T(test_many),
		T(test_names),	     T(test_limits),  T(test_bounds), T(test_view),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
