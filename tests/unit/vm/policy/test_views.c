/* SPDX-License-Identifier: Apache-2.0 */
/* What of the host a sandbox is shown: what its view says, whatever lies in the cache, which the daemon can write to. */
/* modules: tests/unit/fixture/policy_fixture.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/policy_fixture.h"
#include "vm/base/arch.h"
#include "vm/base/util.h"

static void views(void **state)
{
	struct order o = sandbox(PLAIN);
	char usr[128], out[192];

	(void)state;
	snprintf(usr, sizeof(usr), "%s/" ARCH_IMAGES "/python-1/tree/usr", dir);
	snprintf(out, sizeof(out), "%s/layers/.tmp-" KEY "/out", dir);
	assert_int_equal(ask(alone, &o), 0);
	assert_true(shows("/usr"));
	assert_false(shows(users) || shows(usr) || shows("/usr/share"));
	o = sandbox(SHOWN);
	o.sandbox.owner = geteuid();
	o.sandbox.group = getegid();
	assert_int_equal(ask(alone, &o), 0);
	assert_true(shows(users) && shows("/usr/share"));
	assert_true(has_arg(job.argv, "/mine"));
	/* The programs of an image, whatever else is shown: one that came when the mount was there already. */
	for (size_t i = 0; i < 2; i++) {
		o.sandbox.view = i ? SHOWN : PLAIN;
		strcpy(o.sandbox.image, "python");
		assert_int_equal(ask(alone, &o), 0);
		assert_true(shows(usr));
		assert_int_equal(shows(users), i);
		assert_false(shows("/usr"));
		strcpy(o.sandbox.image, "absent");
		assert_int_equal(ask(alone, &o), -ENOENT);
	}
	o = install();
	assert_int_equal(ask(alone, &o), 0);
	assert_true(shows(usr) && shows(out));
	strcpy(o.sandbox.image, "absent");
	assert_int_equal(ask(alone, &o), -ENOENT);
}

/* The daemon can write to the cache: a link there must not lead to something of the host. */
static void planted(void **state)
{
	struct order o = install();
	char link[128];

	(void)state;
	snprintf(link, sizeof(link), "%s/" ARCH_IMAGES "/templates/evil", dir);
	strcpy(o.sandbox.image, "evil");
	assert_int_equal(symlink("../python-1", link), 0);
	assert_int_equal(ask(alone, &o), 0);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(mkdir(link, 0755), 0);
	snprintf(link, sizeof(link), "%s/" ARCH_IMAGES "/templates/evil/tree", dir);
	assert_int_equal(symlink("/etc", link), 0);
	assert_int_equal(ask(alone, &o), -EPERM);
	o = sandbox(PLAIN);
	strcpy(o.sandbox.image, "evil");
	assert_int_equal(ask(alone, &o), -EPERM);
	strcpy(o.sandbox.image, "..");
	assert_int_equal(ask(alone, &o), -EBADMSG);
}

/* A policy whose cache is at @cache. */
static struct policy *cached_at(const char *cache)
{
	const struct vm_config vm = {
		.cache_dir = cache, .runtime_dir = dir, .agent = agent, .accel = "tcg"};
	const struct policy_config cfg = {.vm = &vm};
	struct policy *p;

	policy_prepare(cache, false);
	assert_int_equal(policy_new(&cfg, &p), 0);
	return p;
}

/* Jails follow no links on the way to a layer, so those that the administrator made are followed at the start. */
static void linked(void **state)
{
	struct order o = sandbox(ORDER_VIEW_NONE);
	char path[128], to[128], tree[256];
	struct policy *p;

	(void)state;
	strcpy(o.sandbox.layer, KEY);
	/* On a new machine, where the cache is not there yet. */
	snprintf(path, sizeof(path), "%s/disk", dir);
	assert_int_equal(symlink(users, path), 0);
	snprintf(path, sizeof(path), "%s/disk/home/cache", dir);
	p = cached_at(path);
	snprintf(tree, sizeof(tree), "%s/users/home/cache/layers/" KEY "/tree", dir);
	assert_int_equal(ask(p, &o), 0);
	assert_true(shows(tree));
	policy_free(p);
	/* The layers alone are on another disk. */
	snprintf(to, sizeof(to), "%s/elsewhere", dir);
	assert_int_equal(mkdir(to, 0755), 0);
	snprintf(path, sizeof(path), "%s/linked", dir);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/linked/layers", dir);
	assert_int_equal(symlink(to, path), 0);
	snprintf(path, sizeof(path), "%s/linked", dir);
	p = cached_at(path);
	snprintf(tree, sizeof(tree), "%s/elsewhere/" KEY "/tree", dir);
	assert_int_equal(ask(p, &o), 0);
	assert_true(shows(tree));
	o = install();
	o.sandbox.view = ORDER_VIEW_PACK;
	o.sandbox.flags = 0;
	snprintf(tree, sizeof(tree), "%s/elsewhere/.tmp-" KEY "/out", dir);
	assert_int_equal(ask(p, &o), 0);
	assert_true(shows(tree));
	policy_free(p);
}

static void finds_views(void **state)
{
	struct vm_path paths[] = {{"/usr/share", "/shown", false}, {users, "/mine", true}};
	struct sandbox_spec s = {.paths = paths, .npaths = 2};

	(void)state;
	assert_int_equal(policy_find_view(alone, NULL), ORDER_VIEW_NONE);
	assert_int_equal(policy_find_view(alone, &s), SHOWN);
	paths[1].write = false;
	assert_int_equal(policy_find_view(alone, &s), -ENOENT);
	/* Images come and go, and are no part of what is permitted. */
	paths[1].write = s.image_view = true;
	s.image = "raw";
	assert_int_equal(policy_find_view(alone, &s), SHOWN);
	s = (struct sandbox_spec){.image_view = true, .image = "raw"};
	assert_int_equal(policy_find_view(alone, &s), ORDER_VIEW_NONE);
	s = (struct sandbox_spec){.work = users};
	assert_int_equal(policy_find_view(alone, &s), WORK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, policy_fixture_setup, policy_fixture_teardown)
		T(views),
		T(planted),
		T(linked),
		T(finds_views),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
