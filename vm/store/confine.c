/* SPDX-License-Identifier: Apache-2.0 */
/* Confines xsbxfs-store. */
#include "confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/base/landlock.h"
#include "vm/jail/seccomp.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The program unpacks bytes from outside, so it keeps only the access that takes: the one directory it
 * writes to or reads from, and the files that resolving a host and checking a certificate need; no
 * programs, no devices, no other files. It does not change its user, who owns the cache; as root it keeps
 * one capability, to reach a cache owned by the user who called sudo.
 */

#define CAP_KEPT (1u << CAP_DAC_OVERRIDE)
#define MEMORY	 (2ull << 30) /* chunks in hand, and a library or two */
#define FILES	 256u

static int drop_capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	d[0].permitted &= CAP_KEPT;
	d[1].permitted = 0;
	for (int i = 0; i < 2; i++) {
		d[i].effective = d[i].permitted;
		d[i].inheritable = 0;
	}
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

static int confine_files(const struct store_confinement *c)
{
	/* Names and certificates; the C library loads what resolves names when it is needed. */
	static const char *const readable[] = {
		"/etc", "/usr/lib", "/usr/lib64",	    "/usr/share",   "/usr/local/share",
		"/lib", "/lib64",   "/run/systemd/resolve", "/dev/urandom", "/proc/self/status",
	};
	struct landlock_rule rules[ARRAY_SIZE(readable) + 3];
	size_t n = 0;

	for (size_t i = 0; c->network && i < ARRAY_SIZE(readable); i++)
		rules[n++] = (struct landlock_rule){.path = readable[i], .read = true};
	if (c->writable)
		rules[n++] = (struct landlock_rule){.path = c->writable, .tree = true};
	if (c->readable)
		rules[n++] = (struct landlock_rule){.path = c->readable, .read = true};
	if (c->ca_file)
		rules[n++] = (struct landlock_rule){.path = c->ca_file, .read = true};
	return landlock_confine(rules, n, LANDLOCK_SCOPED);
}

#ifdef __SANITIZE_ADDRESS__
#define BOUNDED false /* the sanitizer's shadow is larger, and it traces us at the end */
#else
#define BOUNDED true
#endif

int store_confine(struct store_confinement *c)
{
	/* With 0 the kernel would still hand a core to a program, if the host has one for that. */
	const struct rlimit core = {1, 1}, memory = {MEMORY, MEMORY}, files = {FILES, FILES};
	int r;

	c->why = "no_new_privs";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (!BOUNDED)
		return 0;
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* credentials are in our memory */
	(void)setrlimit(RLIMIT_CORE, &core);
	(void)setrlimit(RLIMIT_NOFILE, &files);
	(void)setrlimit(RLIMIT_AS, &memory);
	c->why = "capabilities";
	r = drop_capabilities();
	if (r < 0)
		return r;
	c->why = "Landlock";
	r = confine_files(c);
	if (r < 0)
		return r;
	c->why = "system calls";
	return jail_seccomp_install(JAIL_STORE, false);
}
