/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that something saved has still when the mount ends. */
/* modules: vm */
/* libs: uv crypto jansson seccomp */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/util.h"
#include "vm/image/layer.h"

#define KEY   "0123456789abcdef"
#define LAYER "/layers/" KEY
#define TREE  LAYER "/tree"

static char top[] = "/tmp/xsbxfs-unit.XXXXXX", path[64];

static void make(const char *below)
{
	snprintf(path, sizeof(path), "%s%s", top, below);
	assert_int_equal(mkdir(path, 0755), 0);
}

/* Nobody removes a layer that is locked. */
static bool is_locked(void)
{
	_cleanup_close_ int dir = -1;

	snprintf(path, sizeof(path), "%s/layers/" KEY, top);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	return flock(dir, LOCK_EX | LOCK_NB) < 0;
}

static void outlasts_the_list(void **state)
{
	struct layers ls;
	struct layer *l;

	(void)state;
	assert_int_equal(layers_init(&ls, top, NULL, 0), 0);
	l = layer_get(&ls, KEY);
	assert_non_null(l);
	assert_ptr_equal(layer_ref(l), l);
	layers_fini(&ls);
	assert_true(is_locked());
	layer_put(l);
	assert_true(is_locked());
	layer_put(l);
	assert_false(is_locked());
}

static int setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(top));
	make("/layers");
	make(LAYER);
	make(TREE);
	return 0;
}

static int teardown(void **state)
{
	static const char *const made[] = {TREE, LAYER, "/layers", ""};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		snprintf(path, sizeof(path), "%s%s", top, made[i]);
		assert_int_equal(rmdir(path), 0);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(outlasts_the_list, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
