/* SPDX-License-Identifier: Apache-2.0 */
/* Packages that a snapshot has imported: which, when, and what becomes of those whose import fails. */
/* modules: tests/unit/fixture/template_fixture.c */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/fixture/template_fixture.h"
#include "vm/image/layer.h"

static const struct proto_exit failed = {.how = PROTO_HOW_DONE, .status = 1};

/* As if these had been installed. */
static struct sandbox_spec packed(const char *packages, const char *warmup)
{
	struct sandbox_spec spec = fx_spec();
	char key[DIGEST_HEX], path[256];
	struct layer_need need;
	const char *why;

	spec.packages = packages;
	spec.warmup = warmup;
	package_jobs_need(&fx.vm->package_jobs, fx.machine, &spec, &need);
	assert_int_equal(layer_key(fx.vm->package_jobs.images, &need, key, &why), 0);
	snprintf(path, sizeof(path), "%s/layers", fx.cache);
	(void)mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/layers/%s", fx.cache, key);
	(void)mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/layers/%s/tree", fx.cache, key);
	(void)mkdir(path, 0755);
	return spec;
}

/* Before all else, and only where the snapshot is made. */
static void imported_first(void **state)
{
	const struct sandbox_spec spec =
		packed("@scope/right@2.0.0 alpha==1.0 beta[x,y]==2", "auto");

	(void)state;
	fx_open_first(&spec);
	assert_string_equal(machines.imported, "@scope/right\nalpha\nbeta\n");
	assert_int_equal(machines.nimports, 1);
	assert_int_equal(machines.nwarmed_before, 0);
	fx_open(&fx.user[1], &spec, "warm");
	assert_int_equal(machines.nimports, 1);
}

static void not_imported(void **state)
{
	static const char *const warmups[] = {NULL, "", "off", "import alpha"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(warmups); i++) {
		struct sandbox_spec spec = packed("alpha==1.0", warmups[i]);

		spec.memory_mb += (unsigned)i;
		fx_open_first(&spec);
		assert_int_equal(machines.nimports, 0);
		fx_restart(32);
	}
}

/* Each warm-up has a snapshot of its own. */
static void keys(void **state)
{
	static const char *const warmups[] = {"auto", "", "import alpha", "import beta"};
	char key[ARRAY_SIZE(warmups)][DIGEST_HEX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(warmups); i++) {
		const struct sandbox_spec spec = packed("alpha==1.0", warmups[i]);

		memcpy(key[i], fx_open_first(&spec)->key, DIGEST_HEX);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(key[i], key[k]);
		assert_int_equal(fx_recorded(), 1);
		fx_restart(32);
	}
}

/* The next machine does without the one that failed, and its snapshot is found by the next mount. */
static void one_fails(void **state)
{
	const struct sandbox_spec spec = packed("alpha==1.0 beta==1.0", "auto");
	struct template *t;

	(void)state;
	machines.import_bad = "beta";
	machines.import_says = "\1alpha\n\1beta\nValueError: no";
	machines.import_end = failed;
	for (unsigned round = 0; round < 2; round++) {
		machines.nimports = 0;
		fx_open(&fx.user[0], &spec, "cold");
		fx_pass(4000);
		t = fx_template();
		fx_assert_state(t, TEMPLATE_READY);
		assert_string_equal(t->problem, "");
		assert_string_equal(machines.imported, round ? "alpha\nbeta\n" : "alpha\n");
		assert_int_equal(machines.nimports, round ? 1 : 2);
		assert_int_equal(fx_recorded(), round ? 1 : 2);
		fx_open(&fx.user[1], &spec, "warm");
		fx_restart(32);
	}
}

/* However it ends, there is a snapshot, at worst without any import. */
static void any_end(void **state)
{
	static const struct {
		struct proto_exit end;
		const char *says;
		bool hangs, none;
	} ends[] = {
		{{.how = PROTO_HOW_DONE, .status = 1}, "\1alpha\nno", false, false},
		{{.how = PROTO_HOW_DONE, .status = 0, .fresh = 1}, "\1alpha\n", false, false},
		{{.how = PROTO_HOW_TIMEOUT, .status = 124, .fresh = 1}, "\1alpha\n", false, false},
		{{.how = PROTO_HOW_OOM, .status = 137, .fresh = 1}, "\1alpha\n", false, false},
		{{.how = PROTO_HOW_NOT_TAKEN, .status = ENOSYS}, NULL, false, true},
		{{.how = PROTO_HOW_REFUSED, .status = 255}, NULL, false, true},
		{{.how = PROTO_HOW_DONE}, NULL, true, true},
		{{.how = PROTO_HOW_DONE}, "\1alpha\n", true, false},
		/* what was not asked for */
		{{.how = PROTO_HOW_DONE, .status = 1}, "\1alph\nno", false, true},
		{{.how = PROTO_HOW_DONE, .status = 1}, "\1alpha", false, true},
		{{.how = PROTO_HOW_DONE, .status = 1}, "\1alpha\nbeta\nno", false, false},
		{{.how = PROTO_HOW_DONE, .status = 1}, "\1\n", false, true},
	};

	(void)state;
	machines.import_bad = "alpha";
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct sandbox_spec spec = packed("alpha==1.0 beta==1.0", "auto");

		spec.memory_mb += (unsigned)i;
		machines.nimports = 0;
		machines.import_end = ends[i].end;
		machines.import_says = ends[i].says;
		machines.import_hangs = ends[i].hangs;
		fx_open(&fx.user[0], &spec, "cold");
		fx_pass(ends[i].hangs ? 6 * MINUTE : 4000);
		fx_assert_state(fx_template(), TEMPLATE_READY);
		assert_int_equal(fx_recorded(), 2);
		assert_string_equal(machines.imported, ends[i].none ? "alpha\nbeta\n" : "beta\n");
		assert_int_equal(machines.nimports, ends[i].none ? 1 : 2);
		fx_restart(32);
	}
}

/* A machine that ends meanwhile is not the fault of what it imports: another one is made like it, but not at once. */
static void ends_meanwhile(void **state)
{
	const struct sandbox_spec spec = packed("alpha==1.0", "auto");

	(void)state;
	machines.import_dies = true;
	fx_open(&fx.user[0], &spec, "cold");
	for (unsigned i = 1; i <= 2; i++) {
		fx_pass(i == 1 ? 1000 : 5000);
		fx_assert_state(fx_template(), TEMPLATE_NONE);
		assert_string_not_equal(fx_template()->problem, "");
		assert_int_equal(fx_recorded(), i);
		assert_int_equal(machines.nimports, i);
	}
	machines.import_dies = false;
	fx_pass(3000);
	assert_int_equal(fx_recorded(), 2);
	fx_pass(5000);
	fx_assert_state(fx_template(), TEMPLATE_READY);
	assert_string_equal(machines.imported, "alpha\n");
	assert_int_equal(machines.nimports, 3);
	assert_int_equal(fx_template()->ahead.nfailed, 0);
}

/* After three of them, there is a snapshot without it. */
static void made_without(void)
{
	const struct sandbox_spec spec = packed("alpha==1.0 beta==1.0", "auto");

	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(MINUTE);
	fx_assert_state(fx_template(), TEMPLATE_READY);
	assert_int_equal(machines.nimports, 3);
	assert_int_equal(fx_recorded(), 4);
}

static void none_lives(void **state)
{
	(void)state;
	machines.import_dies = true;
	made_without();
}

/* One that ends well, and leaves an interpreter that is good for nothing. */
static void none_works(void **state)
{
	(void)state;
	machines.import_spoils = true;
	made_without();
}

/* Each failure costs a machine: after some of them it is made without. */
static void all_fail(void **state)
{
	const struct sandbox_spec spec = packed("a==1 b==1 c==1 d==1", "auto");

	(void)state;
	machines.import_end = failed;
	fx_open(&fx.user[0], &spec, "cold");
	for (unsigned i = 0; i < 3; i++) {
		const char says[] = {1, (char)('a' + (int)i), '\n', 'n', 'o', '\0'};

		machines.import_says = says;
		for (unsigned n = 0; n < 200 && machines.nimports <= i; n++)
			fx_pass(10);
	}
	fx_pass(2000);
	fx_assert_state(fx_template(), TEMPLATE_READY);
	assert_int_equal(machines.nimports, 3);
	assert_int_equal(fx_recorded(), 4);
}

/* One that has to make room for a user is nobody's fault. */
static void gives_way(void **state)
{
	const struct sandbox_spec spec = packed("alpha==1.0", "auto");

	(void)state;
	machines.sleeps[MACHINE_RECORD] = true;
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(100);
	guest_close(fx_template()->builder);
	machines.sleeps[MACHINE_RECORD] = false;
	fx_pass(2000);
	fx_assert_state(fx_template(), TEMPLATE_READY);
	assert_string_equal(machines.imported, "alpha\n");
	assert_int_equal(fx_template()->ahead.nfailed, 0);
}

/* Packages of a session's own: the first use is enough, and only a few have one at a time. */
static void own_packages(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 7; i++) {
		struct sandbox_spec spec = packed("alpha==1.0", "auto");

		spec.memory_mb += i;
		spec.ad_hoc = true;
		fx_open(&fx.user[0], &spec, "cold");
		fx_pass(MINUTE);
		assert_int_equal(fx_recorded(), i);
		assert_int_equal(fx_with_snapshot(), MIN(i, 4u));
		fx_close(&fx.user[0]);
	}
}

/* A first use takes no snapshot from one that was used lately, a second one does. */
static void many_own_packages(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 7; i++) {
		struct sandbox_spec spec = packed("alpha==1.0", "auto");
		const bool full = i == 5 || i == 6;

		spec.memory_mb += i;
		spec.ad_hoc = true;
		if (i == 7) /* those before were not used for long */
			fx_pass(3 * MINUTE);
		for (unsigned use = 1; use <= (full ? 2 : 1); use++) {
			fx_open(&fx.user[0], &spec, "cold");
			fx_pass(20000);
			assert_int_equal(fx_recorded(), full && use == 1 ? i - 1 : i);
			assert_int_equal(fx_with_snapshot(), MIN(fx_recorded(), 4u));
			fx_close(&fx.user[0]);
		}
	}
}

/* An answer to a run that was not asked for, though there are such. */
static void answered_as_an_import(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t = fx_open_first(&spec);

	(void)state;
	machines.run_answered_as = UINT32_MAX - 2;
	fx_open(&fx.user[1], &spec, "warm");
	fx_pass(200);
	assert_int_equal(t->nidle[IDLE_READY], 0); /* nor is the snapshot trusted any more */
	machines.run_answered_as = 0;
	fx_pass(MINUTE);
	assert_int_equal(t->nidle[IDLE_READY], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, fx_setup, fx_teardown)
		T(imported_first),    T(not_imported),	 T(keys),	  T(one_fails),
		T(any_end),	      T(ends_meanwhile), T(none_lives),	  T(none_works),
		T(all_fail),	      T(gives_way),	 T(own_packages), T(answered_as_an_import),
		T(many_own_packages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
