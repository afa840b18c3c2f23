/* SPDX-License-Identifier: Apache-2.0 */
/* What `doctor` says of a host's means for jails, on hosts that the test makes up. */
/* modules: vm/host_check.c vm/base/path.c vm/backend/process_jail.c vm/jail/view.c vm/jail/source.c vm/base/digest.c vm/base/fdpass.c tests/unit/fixture/host_fixture.c */
/* libs: crypto */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/host_fixture.h"
#include "vm/backend/process_jail.h"
#include "vm/host_check.h"
#include "vm/base/util.h"

static void userns(bool privileged, enum vm_level level, const char *part, const char *fix)
{
	struct host_check s;

	host_check_userns(root, privileged, &s);
	assert_int_equal(s.level, level);
	assert_non_null(strstr(s.found, part));
	assert_non_null(strstr(s.fix, fix));
	assert_int_equal(level == VM_OK, !*s.fix);
}

static void user_namespaces(void **state)
{
	(void)state;
	userns(true, VM_FAIL, "none", "CONFIG_USER_NS");
	put("/proc/self/ns/user", "");
	userns(true, VM_OK, "allowed", "");
	userns(false, VM_OK, "every user", "");
	put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
	userns(true, VM_OK, "allowed", "");
	userns(false, VM_FAIL, "AppArmor", "userns,");
	put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n");
	userns(false, VM_OK, "every user", "");
	put("/proc/sys/kernel/unprivileged_userns_clone", "0\n");
	userns(true, VM_OK, "allowed", "");
	userns(false, VM_FAIL, "only root", "unprivileged_userns_clone=1");
	put("/proc/sys/user/max_user_namespaces", "0\n");
	userns(true, VM_FAIL, "everybody", "max_user_namespaces=");
	put("/proc/sys/user/max_user_namespaces", "nonsense");
	userns(true, VM_OK, "allowed", "");
}

static void seccomp(void **state)
{
	struct host_check s;

	(void)state;
	host_check_seccomp(root, &s);
	assert_int_equal(s.level, VM_FAIL);
	put("/proc/sys/kernel/seccomp/actions_avail", "kill_thread trap errno allow\n");
	host_check_seccomp(root, &s);
	assert_int_equal(s.level, VM_FAIL);
	assert_non_null(strstr(s.found, "end a process"));
	put("/proc/sys/kernel/seccomp/actions_avail", "kill_process kill_thread errno allow\n");
	host_check_seccomp(root, &s);
	assert_int_equal(s.level, VM_OK);
}

static void landlock(void **state)
{
	static const struct {
		int abi;
		enum vm_level level;
		const char *part;
	} cases[] = {
		{-ENOSYS, VM_WARN, "none"}, {-EOPNOTSUPP, VM_WARN, "booted"}, {0, VM_WARN, "none"},
		{1, VM_WARN, "first"},	    {4, VM_OK, "ABI 4 (6,"},	      {7, VM_OK, "ABI 7"},
	};
	struct host_check s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		host_check_landlock(cases[i].abi, &s);
		assert_int_equal(s.level, cases[i].level);
		assert_non_null(strstr(s.found, cases[i].part));
	}
}

static void ids(void **state)
{
	struct host_check s;

	(void)state;
	host_check_ids(true, true, &s);
	assert_int_equal(s.level, VM_OK);
	host_check_ids(true, false, &s);
	assert_int_equal(s.level, VM_WARN);
	assert_non_null(strstr(s.fix, "container"));
	host_check_ids(false, false, &s);
	assert_int_equal(s.level, VM_WARN);
	assert_non_null(strstr(s.fix, "root"));
}

static void groups(void **state)
{
	struct host_check_group g[] = {{"memory", 1, 0}, {"pids", 2, 0}, {"cpu", 2, 0}};
	struct host_check s;

	(void)state;
	host_check_groups(g, 3, true, &s);
	assert_int_equal(s.level, VM_OK);
	assert_string_equal(s.found, "limits for memory (v1), pids (v2), cpu (v2)");
	g[2].error = -ENOENT;
	host_check_groups(g, 3, false, &s);
	assert_int_equal(s.level, VM_WARN);
	assert_non_null(strstr(s.found, "limits for memory (v1), pids (v2); no limits for cpu "));
	assert_non_null(strstr(s.fix, "systemd-run --user --scope -p Delegate=yes"));
	g[0].error = g[1].error = g[2].error = -EBUSY;
	host_check_groups(g, 3, true, &s);
	assert_non_null(strstr(s.found, "no limits for memory (others are in our group), pids"));
	assert_non_null(strstr(s.fix, "systemd-run --scope -p Delegate=yes"));
	g[0].error = g[1].error = g[2].error = -EACCES;
	host_check_groups(g, 3, false, &s);
	assert_non_null(strstr(s.found, strerror(EACCES)));
	assert_non_null(strstr(s.fix, "root"));
}

static void kvm(void **state)
{
	(void)state;
	assert_non_null(strstr(host_check_kvm_fix(root, KVM_UNUSABLE, true), "modprobe"));
	put("/dev/kvm", "");
	assert_non_null(strstr(host_check_kvm_fix(root, KVM_UNUSABLE, true), "nested"));
	assert_non_null(strstr(host_check_kvm_fix(root, KVM_DENIED, false), "usermod"));
	assert_non_null(strstr(host_check_kvm_fix(root, KVM_DENIED, true), "chgrp"));
	assert_non_null(strstr(host_check_kvm_fix(root, KVM_UNDECIDED, true), "tried again"));
}

static void network(void **state)
{
	char path[PATH_MAX + 16];
	struct host_check s;

	(void)state;
	host_check_network(root, false, &s);
	assert_int_equal(s.level, VM_WARN);
	assert_non_null(strstr(s.found, "no xsbxfs-net"));
	host_check_network(root, true, &s);
	assert_int_equal(s.level, VM_WARN);
	assert_non_null(strstr(s.found, strerror(ENOENT)));
	assert_non_null(strstr(s.fix, "modprobe tun"));
	put("/dev/net/tun", "");
	host_check_network(root, true, &s);
	assert_int_equal(s.level, VM_OK);
	snprintf(path, sizeof(path), "%s/dev/net/tun", root);
	assert_int_equal(chmod(path, 0), 0);
	if (geteuid() != 0) {
		host_check_network(root, true, &s);
		assert_int_equal(s.level, VM_WARN);
	}
	assert_non_null(strstr(process_jail_tun_fix(-EACCES), "chmod 666 /dev/net/tun"));
	assert_non_null(strstr(process_jail_tun_fix(-EPERM), "container"));
	assert_non_null(strstr(process_jail_tun_fix(-ENODEV), "modprobe tun"));
}

/* A directory of programs. */
static const char *programs(const char *name, const char *const *program)
{
	static char dir[PATH_MAX + 16];
	char file[128], path[PATH_MAX + 256];

	snprintf(dir, sizeof(dir), "/nowhere::%s/%s", root, name);
	for (; *program; program++) {
		snprintf(file, sizeof(file), "/%s/%s", name, *program);
		put(file, "");
		snprintf(path, sizeof(path), "%s%s", root, file);
		assert_int_equal(chmod(path, 0755), 0);
	}
	return dir;
}

static void packages_say(const struct vm_packages *cfg, const char *path, bool image,
			 enum vm_level level, const char *part, const char *fix)
{
	const bool images[] = {image, image};
	struct host_check s;

	host_check_packages(cfg, path, images, &s);
	if (!strstr(s.found, part))
		fail_msg("\"%s\" is missing in: %s", part, s.found);
	if (!strstr(s.fix, fix))
		fail_msg("\"%s\" is missing in: %s", fix, s.fix);
	assert_int_equal(s.level, level);
	assert_int_equal(level == VM_OK, !*s.fix);
}

static void packages(void **state)
{
	static const char *const all[] = {"uv", "bun", "pip3", "npm", NULL};
	static const char *const some[] = {"pip3", NULL};
	char dir[PATH_MAX + 16], mirror[PATH_MAX + 16], path[PATH_MAX + 32];
	struct vm_packages cfg = {.dir = dir};

	(void)state;
	snprintf(dir, sizeof(dir), "%s/installer", root);
	snprintf(mirror, sizeof(mirror), "%s/mirror", root);
	packages_say(&cfg, "", true, VM_WARN, "no prepare and install in /", "installer in");
	put("/installer/install", "");
	put("/installer/prepare", "");
	snprintf(path, sizeof(path), "%s/prepare", dir);
	assert_int_equal(chmod(path, 0755), 0);

	packages_say(
		&cfg, programs("all", all), false, VM_OK,
		"Python's by uv in PATH, from where this host's pip3 says; npm's by bun in PATH, "
		"from where this host's npm says",
		"");
	packages_say(
		&cfg, programs("some", some), true, VM_WARN,
		"Python's by uv of image python, from where this host's pip3 says; npm's by bun "
		"of image javascript, from where is not known: no npm",
		"set npm_registry");
	packages_say(&cfg, programs("some", some), false, VM_WARN,
		     "Python's can't be installed: no uv", "xsbxfs-images python");
	packages_say(&cfg, NULL, true, VM_WARN, "no pip3", "set python_index");
	cfg.python_hosts = "files.example.org";
	cfg.npm_registry = "https://user:secret@npm.example.org/";
	packages_say(
		&cfg, NULL, true, VM_OK,
		"from where [packages] says (python_index, python_hosts); npm's by bun of image "
		"javascript, from where [packages] says (npm_registry)",
		"");
	cfg.offline = mirror;
	packages_say(&cfg, NULL, true, VM_WARN, "can't be read", "offline");
	put("/mirror/a.whl", "");
	packages_say(&cfg, NULL, true, VM_OK, "; all from /", "");
	packages_say(&cfg, NULL, false, VM_WARN, "no uv; ", "xsbxfs-images python");
}

static void layers(void **state)
{
	struct host_check_layers l = {.dir = "/cache/layers", .limit = 4ull << 30};
	struct host_check s;

	(void)state;
	host_check_layers(&l, &s);
	assert_int_equal(s.level, VM_OK);
	assert_string_equal(s.found, "0, 0 MiB, at most 4096 MiB, in /cache/layers");
	l = (struct host_check_layers){.dir = "/l", .n = 3, .bytes = 7u << 20, .more = true};
	host_check_layers(&l, &s);
	assert_int_equal(s.level, VM_OK);
	assert_string_equal(s.found, "3, more than 7 MiB, no limit, in /l");
	l.error = -EROFS;
	host_check_layers(&l, &s);
	assert_int_equal(s.level, VM_WARN);
	assert_non_null(strstr(s.found, strerror(EROFS)));
	assert_non_null(strstr(s.fix, "cache_dir"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, host_fixture_setup, host_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(user_namespaces), T(seccomp), T(landlock), T(ids),
					   T(groups),	       T(kvm),	   T(network),	T(packages),
					   T(layers)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
