/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner may be asked for: each refusal beside the same order as it is allowed; what is then done. */
/* modules: vm */
/* libs: uv seccomp crypto */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "vm/jail/setup.h"
#include "vm/order/order.h"
#include "vm/policy/job.h"
#include "vm/order/policy.h"
#include "vm/backend/qemu_argv.h"
#include "vm/base/remove.h"
#include "vm/spawn/server.h"
#include "vm/base/util.h"
#include "vm/jail/view.h"
#include "vm/vm.h"

#define KEY    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define USER   12345u
#define LAYERS (3ull << 30)

enum { PLAIN = ORDER_VIEW_NONE, SHOWN = ORDER_VIEW_FIRST, WORK, ROOTS, IMAGE, BEYOND };

static char dir[64], agent[96], roots[96], users[96];
static struct policy *alone, *shared; /* of one user, of many */
static struct spawn_job job;

/* An empty program, in directories that are made. */
static void make(const char *path)
{
	char part[200];
	int fd;

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		assert_true(mkdir(part, 0755) == 0 || errno == EEXIST);
	}
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	close(fd);
}

/* @nothing: so many more templates that show nothing */
static struct policy *new_policy_beside(size_t nothing, bool others, const char *accel)
{
	const struct vm_path paths[] = {{"/usr/share", "/shown", false}, {users, "/mine", true}};
	const struct vm_path theirs[] = {{roots, "/theirs", true}};
	const struct policy_view views[] = {
		{0},
		{0},
		{.path = paths, .npaths = 2},
		{.work = users},
		{theirs, 1, NULL, NULL},
		{.image = "python"},
	};
	char prepare[128], runtime[96];
	const struct vm_config vm = {
		.cache_dir = dir,
		.runtime_dir = runtime,
		.qemu = "/bin/true",
		.agent = agent,
		.accel = accel,
		.image_builder = "/bin/true",
		.store = {"https://store/bucket", "here", "/bin/true", true, false, 60},
		.trace = {"http://collector:4318", "/bin/true", NULL},
		.packages = {.dir = prepare,
			     .python_index = "https://index",
			     .layer_bytes = LAYERS},
	};
	const struct policy_config cfg = {.vm = &vm,
					  .max_memory_mb = 1024,
					  .max_cpus = 4,
					  .max_processes = 1000,
					  .others = others,
					  .view = &views[2 - nothing],
					  .nviews = ARRAY_SIZE(views) - 2 + nothing};
	struct policy *p;

	snprintf(runtime, sizeof(runtime), "%s/run", dir);
	snprintf(prepare, sizeof(prepare), "%s/packages", dir);
	assert_int_equal(policy_new(&cfg, &p), 0);
	return p;
}

static struct policy *new_policy(bool others, const char *accel)
{
	return new_policy_beside(1, others, accel);
}

static int setup(void **state)
{
	char path[200];

	(void)state;
	strcpy(dir, "/tmp/xsbx-test.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(agent, sizeof(agent), "%s/lib/agent", dir);
	make(agent);
	snprintf(path, sizeof(path), "%s/lib/xsbxfs-net", dir);
	make(path);
	snprintf(path, sizeof(path), "%s/lib/xsbxfs-dial", dir);
	make(path);
	snprintf(path, sizeof(path), "%s/packages/prepare", dir);
	make(path);
	snprintf(path, sizeof(path), "%s/images/python-1/tree/usr/x", dir);
	make(path);
	snprintf(path, sizeof(path), "%s/images/templates/x", dir);
	make(path);
	snprintf(path, sizeof(path), "%s/images/templates/python", dir);
	assert_int_equal(symlink("../python-1", path), 0);
	snprintf(roots, sizeof(roots), "%s/roots", dir);
	assert_int_equal(mkdir(roots, 0777), 0);
	snprintf(users, sizeof(users), "%s/users", dir);
	assert_int_equal(mkdir(users, 0777), 0);
	if (geteuid() == 0)
		assert_int_equal(chown(users, USER, USER), 0);
	setenv("LD_PRELOAD_OF_TEST", "/evil.so", 1);
	setenv("AWS_REGION", "there", 1);
	alone = new_policy(false, "auto");
	shared = new_policy(true, "tcg");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	policy_free(alone);
	policy_free(shared);
	return remove_tree(dir);
}

static int ask_with(const struct policy *p, const struct order *o, size_t len, size_t nfds)
{
	memset(&job, 0, sizeof(job));
	return policy_job(p, o, len, nfds, &job);
}

static int ask(const struct policy *p, const struct order *o)
{
	return ask_with(p, o, sizeof(*o), order_fds(o));
}

static bool has_arg(const char *const *list, const char *what)
{
	for (; *list; list++) {
		if (strcmp(*list, what) == 0)
			return true;
	}
	return false;
}

static bool mentions(const char *const *list, const char *what)
{
	for (; *list; list++) {
		if (strstr(*list, what))
			return true;
	}
	return false;
}

static bool shows(const char *source)
{
	for (uint32_t i = 0; job.jail && i < job.jail->nmounts; i++) {
		if (strcmp(job.jail->mounts[i].source, source) == 0)
			return true;
	}
	return false;
}

/* Of the job's jail. Return: UINT64_MAX if there is none. */
static uint64_t limit_of(int resource)
{
	for (uint32_t i = 0; i < job.jail->nrlimits; i++) {
		if (job.jail->rlimits[i].resource == (uint32_t)resource)
			return job.jail->rlimits[i].value;
	}
	return UINT64_MAX;
}

/* ---- orders that are allowed ---- */

static struct order machine(void)
{
	return (struct order){.program = ORDER_MACHINE,
			      .machine = {.name = "python-one",
					  .version = "7.2.22",
					  .memory_mb = 1024,
					  .cpus = 4,
					  .mode = MACHINE_COLD}};
}

static struct order sandbox(uint32_t view)
{
	return (struct order){
		.program = ORDER_SANDBOX,
		.sandbox = {.name = "raw-one", .view = view, .memory_mb = 1024, .cpus = 4}};
}

static struct order install(void)
{
	struct order o = sandbox(ORDER_VIEW_INSTALL);

	strcpy(o.sandbox.key, KEY);
	strcpy(o.sandbox.image, "python");
	o.sandbox.flags = ORDER_NETWORK;
	return o;
}

static struct order stored(void)
{
	return (struct order){.program = ORDER_STORE,
			      .store = {.key = KEY, .kind = ORDER_LAYER, .get = 1}};
}

static struct order image(const char *name)
{
	struct order o = {.program = ORDER_IMAGE};

	order_set(o.image.image, name);
	return o;
}

static struct order changes(uint32_t owner)
{

	return (struct order){
		.program = ORDER_CHANGES,
		.changes = {.view = WORK, .commit = 1, .owner = owner, .group = owner}};
}

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

static void views(void **state)
{
	struct order o = sandbox(PLAIN);
	char usr[128], out[192];

	(void)state;
	snprintf(usr, sizeof(usr), "%s/images/python-1/tree/usr", dir);
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
	o = sandbox(IMAGE);
	assert_int_equal(ask(alone, &o), 0);
	assert_true(shows(usr));
	assert_false(shows("/usr"));
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
	snprintf(link, sizeof(link), "%s/images/templates/evil", dir);
	strcpy(o.sandbox.image, "evil");
	assert_int_equal(symlink("../python-1", link), 0);
	assert_int_equal(ask(alone, &o), 0);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(mkdir(link, 0755), 0);
	snprintf(link, sizeof(link), "%s/images/templates/evil/tree", dir);
	assert_int_equal(symlink("/etc", link), 0);
	assert_int_equal(ask(alone, &o), -EPERM);
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

static void finds_views(void **state)
{
	struct vm_path paths[] = {{"/usr/share", "/shown", false}, {users, "/mine", true}};
	struct sandbox_spec s = {.paths = paths, .npaths = 2};

	(void)state;
	assert_int_equal(policy_find_view(alone, NULL), ORDER_VIEW_NONE);
	assert_int_equal(policy_find_view(alone, &s), SHOWN);
	paths[1].write = false;
	assert_int_equal(policy_find_view(alone, &s), -ENOENT);
	s = (struct sandbox_spec){.image_view = true, .image = "python"};
	assert_int_equal(policy_find_view(alone, &s), IMAGE);
	s.image = "raw";
	assert_int_equal(policy_find_view(alone, &s), -ENOENT);
	s = (struct sandbox_spec){.work = users};
	assert_int_equal(policy_find_view(alone, &s), WORK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(shapes),  T(names),	    T(sizes), T(not_configured), T(programs),
		T(key),	    T(variables),   T(views), T(planted),	 T(owners),
		T(commits), T(finds_views), T(sums),  T(linked),	 T(registries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
