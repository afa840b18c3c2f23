/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner may be asked for: each refusal beside the same order as it is allowed; what is then done. */
/* modules: tests/unit/fixture/policy_fixture.c */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/policy_fixture.h"
#include "vm/base/arch.h"
#include "vm/backend/qemu_argv.h"
#include "vm/base/util.h"
#include "vm/jail/setup.h"
#include "vm/jail/view.h"
#include "vm/order/policy_internal.h"

/* ---- what is no order ---- */

static void shapes(void **state)
{
	struct order o = {.program = ORDER_QEMU_VERSION};

	(void)state;
	assert_int_equal(ask(alone, &o), 0);
	assert_int_equal(ask_with(alone, &o, sizeof(o) - 1, 1), -EBADMSG);
	assert_int_equal(ask_with(alone, &o, 0, 1), -EBADMSG);
	assert_int_equal(ask_with(alone, &o, sizeof(o), 0), -EMFILE);
	assert_int_equal(ask_with(alone, &o, sizeof(o), 2), -EBADMSG);
	o.program = ORDER_NPROGRAMS;
	assert_int_equal(ask(alone, &o), -EPERM);
	o.program = UINT32_MAX;
	assert_int_equal(ask(alone, &o), -EPERM);
	/* Only the daemon for tests has it. */
	o = (struct order){.program = ORDER_LOCAL, .local = {.place = "AbCdEf"}};
	assert_int_equal(ask(alone, &o), -EPERM);
}

static void names(void **state)
{
	static const char *const bad[] = {"",	 "..",		 ".",	"-x",	"--force",
					  "a/b", "../../bin/sh", "a b", "a\nb", "a,b",
					  "a;b", "$(x)",	 "a=b"};
	struct order o;

	(void)state;
	o = image("python");
	assert_int_equal(ask(alone, &o), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		o = image(bad[i]);
		assert_int_equal(ask(alone, &o), -EBADMSG);
		o = machine();
		order_set(o.machine.name, bad[i]);
		assert_int_equal(ask(alone, &o), -EBADMSG);
		o = sandbox(PLAIN);
		order_set(o.sandbox.name, bad[i]);
		assert_int_equal(ask(alone, &o), -EBADMSG);
		o = stored();
		order_set(o.store.key, bad[i]);
		assert_int_equal(ask(alone, &o), -EBADMSG);
		o = install();
		order_set(o.sandbox.key, bad[i]);
		assert_int_equal(ask(alone, &o), -EBADMSG);
	}
	o = image("python");
	memset(o.image.image, 'x', sizeof(o.image.image)); /* without an end */
	assert_int_equal(ask(alone, &o), -EBADMSG);
	o = machine();
	strcpy(o.machine.version, "7,avx2=on");
	assert_int_equal(ask(alone, &o), -EBADMSG);
	o = stored();
	o.store.key[3] = 'g';
	assert_int_equal(ask(alone, &o), -EBADMSG);
	o = sandbox(PLAIN);
	strcpy(o.sandbox.layer, "../../../../etc");
	assert_int_equal(ask(alone, &o), -EBADMSG);
	strcpy(o.sandbox.layer, KEY);
	assert_int_equal(ask(alone, &o), 0);
}

static void sizes(void **state)
{
	struct order o = machine();

	(void)state;
	assert_int_equal(ask(alone, &o), 0);
	assert_true(job.jail->memory < 2048ull << 20);
	o.machine.memory_mb++;
	assert_int_equal(ask(alone, &o), -EPERM);
	o = machine();
	o.machine.cpus++;
	assert_int_equal(ask(alone, &o), -EPERM);
	o = machine();
	o.machine.mode = MACHINE_CLONE + 1;
	assert_int_equal(ask(alone, &o), -EBADMSG);
	o = machine();
	o.machine.flags = 0x80;
	assert_int_equal(ask(alone, &o), -EBADMSG);
	/* With a network there are more descriptors. */
	o.machine.flags = ORDER_NETWORK;
	assert_int_equal(ask(alone, &o), 0);
	assert_int_equal(ask_with(alone, &o, sizeof(o), order_fds(&o) - 1), -EMFILE);
	o = (struct order){.program = ORDER_POINT,
			   .point = {.memory_mb = machine().machine.memory_mb, .address = 1 << 20}};
	assert_int_equal(order_fds(&o), 3);
	assert_int_equal(ask(alone, &o), 0);
	assert_int_equal(job.ram.bytes, (uint64_t)o.point.memory_mb << 20);
	assert_null(job.jail);
	o.point.memory_mb++;
	assert_int_equal(ask(alone, &o), -EPERM);
	o.point.memory_mb = 1;
	o.point.whole = 1;
	assert_int_equal(order_fds(&o), 4);
	assert_int_equal(ask(alone, &o), 0);
	o.point.whole = 2;
	assert_int_equal(ask_with(alone, &o, sizeof(o), 4), -EBADMSG);
	o.point.whole = 0;
	o.point.address++;
	assert_int_equal(ask(alone, &o), -EBADMSG);
	o = sandbox(PLAIN);
	assert_int_equal(ask(alone, &o), 0);
	o.sandbox.memory_mb++;
	assert_int_equal(ask(alone, &o), -EPERM);
	o = sandbox(PLAIN);
	o.sandbox.processes = 1001;
	assert_int_equal(ask(alone, &o), -EPERM);
	o = sandbox(BEYOND);
	assert_int_equal(ask(alone, &o), -EPERM);
	/* An installer's is not for the daemon to say. */
	o = install();
	o.sandbox.memory_mb = UINT32_MAX;
	assert_int_equal(ask(alone, &o), 0);
	assert_true(job.jail->memory < 1024ull << 20);
	assert_int_equal(limit_of(RLIMIT_FSIZE), LAYERS);
	o.sandbox.view = ORDER_VIEW_PACK;
	o.sandbox.flags = 0;
	assert_int_equal(ask(alone, &o), 0);
	assert_int_equal(limit_of(RLIMIT_FSIZE), LAYERS);
	o = sandbox(PLAIN);
	assert_int_equal(ask(alone, &o), 0);
	assert_int_equal(limit_of(RLIMIT_FSIZE), UINT64_MAX);
}

static void not_configured(void **state)
{
	struct order o = {.program = ORDER_KVM_TRIAL};

	(void)state;
	assert_int_equal(ask(alone, &o), 0);
	assert_int_equal(ask(shared, &o), -EPERM);
	o = machine();
	o.machine.flags = ORDER_KVM;
	assert_int_equal(ask(alone, &o), 0);
	assert_int_equal(ask(shared, &o), -EPERM);
	o = stored();
	assert_int_equal(ask(alone, &o), 0);
	o.store.get = 0; /* it may only be read */
	assert_int_equal(ask(alone, &o), -EPERM);
	o = stored();
	o.store.kind = ORDER_NMADE;
	assert_int_equal(ask(alone, &o), -EPERM);
	o = sandbox(PLAIN);
	strcpy(o.sandbox.key, KEY); /* that of an installer, in another's view */
	assert_int_equal(ask(alone, &o), -EBADMSG);
	o = install();
	o.sandbox.view = ORDER_VIEW_PACK;
	assert_int_equal(ask(alone, &o), -EPERM);
	o.sandbox.flags = 0;
	assert_int_equal(ask(alone, &o), 0);
}

/* ---- what is done ---- */

/* Of each: a program of the configuration's, and nothing of the environment that is not listed. */
static void programs(void **state)
{
	const struct order orders[] = {
		{.program = ORDER_QEMU_VERSION},
		machine(),
		sandbox(PLAIN),
		install(),
		stored(),
		{.program = ORDER_TRACE},
		image("python"),
		{.program = ORDER_FILTER},
		{.program = ORDER_DIALER},
		{.program = ORDER_PACKAGES, .packages = {.image = "python"}},
	};
	char prepare[128], truth[PATH_MAX];

	(void)state;
	snprintf(prepare, sizeof(prepare), "%s/packages/prepare", dir);
	assert_non_null(realpath("/bin/true", truth));
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		const uint32_t program = orders[i].program;
		const bool jailed = program != ORDER_QEMU_VERSION && program != ORDER_STORE &&
				    program != ORDER_TRACE && program != ORDER_IMAGE &&
				    program != ORDER_PACKAGES;

		assert_int_equal(ask(alone, &orders[i]), 0);
		assert_int_equal(job.jail != NULL, jailed);
		/* Not 0, with which a program that the host has for cores would get them. */
		if (jailed)
			assert_int_equal(limit_of(RLIMIT_CORE), 1);
		assert_int_equal(job.target[job.ntargets - 1].from + 1, order_fds(&orders[i]));
		for (const char **e = job.envp; *e; e++)
			assert_int_not_equal(strncmp(*e, "LD_", 3), 0);
		/* Images for this host would be none for its machines. */
		assert_int_equal(mentions(job.envp, "XSBXFS_ARCH=" ARCH_DEBIAN),
				 program == ORDER_IMAGE && ARCH_FOREIGN);
		if (!jailed)
			assert_string_equal(job.argv[0],
					    program == ORDER_PACKAGES ? prepare : truth);
		if (!jailed && program != ORDER_QEMU_VERSION)
			assert_non_null(job.envp[0]);
		/* Of the user's own programs only those may gain privileges that need it to build. */
		assert_int_equal(!!(job.flags & SPAWN_TOOL),
				 program == ORDER_IMAGE || program == ORDER_PACKAGES);
	}
	assert_int_equal(ask(alone, &orders[4]), 0);
	assert_true(has_arg(job.argv, "https://store/bucket"));
	assert_true(has_arg(job.envp, "AWS_REGION=there"));
	/* What is secret goes to the program that wants it, alone, and on no command line. */
	setenv("OTEL_EXPORTER_OTLP_HEADERS", "key=secret", 1);
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		assert_int_equal(ask(alone, &orders[i]), 0);
		assert_int_equal(has_arg(job.envp, "OTEL_EXPORTER_OTLP_HEADERS=key=secret"),
				 orders[i].program == ORDER_TRACE);
		assert_false(mentions(job.argv, "key=secret"));
	}
	unsetenv("OTEL_EXPORTER_OTLP_HEADERS");
}

/* There is none to be run but the configuration's, with all that it says, and only what it prints is taken. */
static void key(void **state)
{
	struct vm_config vm = {.cache_dir = dir,
			       .runtime_dir = dir,
			       .qemu = "none",
			       .agent = agent,
			       .accel = "tcg",
			       .key_command = "one | two 'three four'"};
	const struct policy_config cfg = {.vm = &vm};
	const struct order o = {.program = ORDER_KEY};
	struct policy *p;

	(void)state;
	assert_int_equal(ask(alone, &o), -ENOENT);
	assert_int_equal(policy_new(&cfg, &p), 0);
	assert_int_equal(ask(p, &o), 0);
	assert_string_equal(job.argv[0], "/bin/sh");
	assert_string_equal(job.argv[1], "-c");
	assert_string_equal(job.argv[2], "one | two 'three four'");
	assert_null(job.argv[3]);
	assert_int_equal(job.ntargets, 1);
	assert_int_equal(job.target[0].to, STDOUT_FILENO);
	policy_free(p);
}

/* A child of the spawner's fetches a value for whom it is; a variable's is handed to this child alone, and wiped in the rest. */
static void secrets(void **state)
{
	char filed[] = "filed", file[] = "/etc/token", hosts[] = "api.test", envd[] = "envd",
	     variable[] = "XSBX_TEST_SECRET", theirs[] = "theirs";
	uid_t others[] = {getuid() + 1};
	struct vm_secret list[] = {
		{.name = filed, .from = VM_SECRET_FILE, .argument = file, .hosts = hosts},
		{.name = envd, .from = VM_SECRET_ENV, .argument = variable, .hosts = hosts},
		{.name = theirs,
		 .from = VM_SECRET_FILE,
		 .argument = file,
		 .hosts = hosts,
		 .users = others,
		 .nusers = 1},
	};
	struct vm_config vm = {.cache_dir = dir,
			       .runtime_dir = dir,
			       .qemu = "none",
			       .agent = agent,
			       .accel = "tcg",
			       .secrets = {list, ARRAY_SIZE(list)}};
	const struct policy_config cfg = {.vm = &vm};
	struct order o = {.program = ORDER_SECRET, .secret = {.name = "filed", .owner = getuid()}};
	char sum[2][DIGEST_HEX];
	struct policy *p;

	(void)state;
	setenv(variable, "what nobody else has", 1);
	assert_int_equal(policy_new(&cfg, &p), 0);
	assert_null(getenv(variable));
	assert_int_equal(policy_sum(p, sum[0]), 0);
	policy_settle(p);
	assert_int_equal(ask(p, &o), 0);
	assert_int_equal(job.flags & SPAWN_SECRET, SPAWN_SECRET);
	assert_string_equal(job.secret.secret->argument, file);
	assert_null(job.secret.value);
	assert_int_equal(job.ntargets, 3);
	order_set(o.secret.name, "envd");
	assert_int_equal(ask(p, &o), 0);
	assert_string_equal(job.secret.value, "what nobody else has");
	/* Unknown, or for others: it may be in an owner's own file. */
	order_set(o.secret.name, "theirs");
	assert_int_equal(ask(p, &o), 0);
	assert_null(job.secret.secret);
	order_set(o.secret.name, "../x");
	assert_int_equal(ask(p, &o), -EBADMSG);
	memset(o.secret.name, 'x', sizeof(o.secret.name));
	assert_int_equal(ask(p, &o), -EBADMSG);
	order_set(o.secret.name, "filed");
	o.secret.owner = getuid() + 1;
	assert_int_equal(ask(p, &o), -EPERM);
	o.secret.owner = UINT32_MAX;
	assert_int_equal(ask(p, &o), -EPERM);
	policy_forget(p);
	o.secret.owner = getuid();
	order_set(o.secret.name, "envd");
	assert_int_equal(ask(p, &o), 0);
	assert_null(job.secret.value);
	assert_int_equal(policy_sum(p, sum[1]), 0);
	assert_string_equal(sum[0], sum[1]); /* values are no part of it */
	policy_free(p);
	vm.secrets.n--;
	assert_int_equal(policy_new(&cfg, &p), 0);
	assert_int_equal(policy_sum(p, sum[1]), 0);
	assert_string_not_equal(sum[0], sum[1]);
	policy_free(p);
}

static void variables(void **state)
{
	struct order o = machine();

	(void)state;
	assert_int_equal(ask(alone, &o), 0);
	assert_false(mentions(job.argv, "XSBX_"));
	o.machine.flags = ORDER_ROOT;
	assert_int_equal(ask(alone, &o), 0);
	assert_true(mentions(job.argv, " XSBX_ROOT=1"));
}

/* What builds images asks the same registries as what installs packages: the configuration's, or the environment's. */
static void registries(void **state)
{
	struct order o = image("python");

	(void)state;
	setenv("XSBXFS_PYTHON_INDEX", "https://other", 1);
	setenv("XSBXFS_NPM_REGISTRY", "https://npm", 1);
	assert_int_equal(ask(alone, &o), 0);
	assert_true(has_arg(job.envp, "XSBXFS_PYTHON_INDEX=https://index"));
	assert_true(has_arg(job.envp, "XSBXFS_NPM_REGISTRY=https://npm"));
	unsetenv("XSBXFS_PYTHON_INDEX");
	unsetenv("XSBXFS_NPM_REGISTRY");
	assert_int_equal(ask(alone, &o), 0);
	assert_false(has_arg(job.envp, "XSBXFS_NPM_REGISTRY=https://npm"));
}

/* ---- whose rights ---- */

static int as(const struct policy *p, uint32_t view, uint32_t owner, uint32_t group)
{
	struct order o = sandbox(view);

	o.sandbox.owner = owner;
	o.sandbox.group = group;
	return ask(p, &o);
}

static void owners(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	/* Root's own mount: all sessions are root's. */
	assert_int_equal(as(alone, SHOWN, 0, 0), 0);
	assert_int_equal(as(alone, SHOWN, USER, USER), -EPERM);
	/* One for everybody: root's rights only to what is root's. */
	assert_int_equal(as(shared, SHOWN, USER, USER), 0);
	assert_int_equal(job.jail->owner, USER);
	assert_int_equal(as(shared, SHOWN, 0, 0), -EPERM);
	assert_int_equal(as(shared, SHOWN, USER, 0), -EPERM);
	assert_int_equal(as(shared, ROOTS, 0, 0), 0);
	assert_int_equal(as(shared, ROOTS, UINT32_MAX, USER), -EPERM);
	assert_int_equal(as(shared, SHOWN, USER, UINT32_MAX), -EPERM);
	/* Where nothing can be written, it does not matter. */
	assert_int_equal(as(shared, PLAIN, 0, 0), 0);
}

static void commits(void **state)
{
	struct jail_spec spec = {.use = JAIL_SANDBOX, .host_name = "x"};
	struct jail_fault fault;
	struct jail_cell cell;
	struct order o;

	(void)state;
	if (geteuid() != 0 || !jail_has_private_ids())
		skip();
	assert_int_equal(jail_place(&spec, &cell, &fault), 0);
	o = changes(USER);
	o.changes.foreign = cell.base;
	assert_int_equal(ask(shared, &o), 0);
	assert_int_equal(job.jail->nmounts, 1);
	assert_string_equal(job.jail->mounts[0].source, users);
	assert_int_equal(job.jail->mounts[0].kind, JAIL_RW);
	assert_int_equal(limit_of(RLIMIT_CORE), 1);
	/* It may read whatever has these ids: so not root's, nor those of half a sandbox. */
	o.changes.foreign = 0;
	assert_int_equal(ask(shared, &o), -EPERM);
	o.changes.foreign = cell.base + 1;
	assert_int_equal(ask(shared, &o), -EPERM);
	o.changes.foreign = cell.base;
	o.changes.view = SHOWN; /* no `work` */
	assert_int_equal(ask(shared, &o), -EPERM);
	o.changes.view = ORDER_VIEW_INSTALL;
	assert_int_equal(ask(shared, &o), -EPERM);
	o = changes(0);
	o.changes.foreign = cell.base;
	assert_int_equal(ask(shared, &o), -EPERM);
	jail_release(&cell);
}

/* Return: whether an heir with the one may go on with the mount of a spawner with the other. */
static bool permit_the_same(const struct policy *a, const struct policy *b)
{
	char x[DIGEST_HEX], y[DIGEST_HEX];

	assert_int_equal(policy_sum(a, x), 0);
	assert_int_equal(policy_sum(b, y), 0);
	return strcmp(x, y) == 0;
}

static void sums(void **state)
{
	struct policy *same = new_policy(false, "tcg"), *kvm = new_policy(false, "auto"),
		      *again = new_policy(false, "tcg");

	(void)state;
	/* Images that are built meanwhile bring templates along that show nothing of the host. */
	for (size_t n = 0; n <= 2; n += 2) {
		struct policy *beside = new_policy_beside(n, false, "tcg");

		assert_true(permit_the_same(same, beside));
		policy_free(beside);
	}
	assert_true(permit_the_same(same, again));
	assert_false(permit_the_same(same, kvm));
	assert_false(permit_the_same(alone, shared));
	policy_free(same);
	policy_free(kvm);
	policy_free(again);
}

/* What was mounted by a daemon that knew of no proxy goes on under one that does, as long as none is named. */
static void upstream(void **state)
{
	static char none[] = "", url[] = "http://proxy.test:3128";
	struct policy p = {.qemu = "/q"};
	char old[DIGEST_HEX], sum[DIGEST_HEX];

	(void)state;
	assert_int_equal(policy_sum(&p, old), 0);
	assert_string_equal(old,
			    "da18eb9b5262c2466325d2b4bb7696c5310ab5c39079cd7b3d88cfbaac6754c4");
	p.upstream = none;
	assert_int_equal(policy_sum(&p, sum), 0);
	assert_string_equal(sum, old);
	p.upstream = url;
	assert_int_equal(policy_sum(&p, sum), 0);
	assert_string_not_equal(sum, old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, policy_fixture_setup, policy_fixture_teardown)
		T(shapes), T(names),	  T(sizes),	T(not_configured), T(programs),
		T(key),	   T(secrets),	  T(variables), T(owners),	   T(commits),
		T(sums),   T(registries), T(upstream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
