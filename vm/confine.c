/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own confinement, entered once it has started. */
#include "confine.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "vm/base/arch.h"
#include "vm/base/landlock.h"
#include "vm/jail/seccomp.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The daemon reads data from guests, and is the only process that does. If a guest takes it over, it
 * gains few privileges: the daemon has forked the spawner, mounted, and needs little more than its
 * descriptors. It keeps access to:
 *
 *  - files: the images, the agent, information in /proc and /sys (about the host's load, and about
 *    processes that write to a node), the time zone; for writing, snapshots and layers in its cache, its
 *    runtime directory, and the spool of outputs; to be read, what root has made for all. This uses Landlock, if
 *    the kernel has it. Links that lead out of the cache, or out of the shared directory, when the daemon starts
 *    are followed.
 *  - system calls: a list, see jail/seccomp.c.
 *  - the spawner, but only for the orders listed in order.h: see policy.c.
 *  - as root, two capabilities: to kill processes with their own ids, and to access a cache that belongs
 *    to the user who invoked sudo.
 */

#define RULES_MAX     64u
#define CAP_KEPT      (1ull << CAP_KILL | 1ull << CAP_DAC_OVERRIDE)
#define CAP_NUMBERS   64
#define TEMPLATES_DIR ARCH_IMAGES "/templates"

/* ABI; 0: the kernel has none; below 0: confine() was not called. What a process has of it can't be
 * looked up. */
static int landlock = -1;
static bool keeps;  /* ... with a directory of what is kept */
static bool audits; /* ... of the audit log */

struct rules {
	struct landlock_rule rule[RULES_MAX];
	char path[RULES_MAX][PATH_MAX];
	size_t n;
};

static void printf_like(3, 4) allow(struct rules *r, bool write, const char *fmt, ...)
{
	va_list ap;

	if (r->n == RULES_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(r->path[r->n], sizeof(r->path[0]), fmt, ap);
	va_end(ap);
	r->rule[r->n] =
		(struct landlock_rule){.path = r->path[r->n], .tree = write, .read = !write};
	r->n++;
}

/* Images may lie on another disk, with links to them in the cache. */
static void allow_images(struct rules *r, const char *cache_dir)
{
	char path[PATH_MAX], real[PATH_MAX];
	struct dirent *e;
	DIR *dir;

	allow(r, false, "%s/" ARCH_IMAGES, cache_dir);
	snprintf(path, sizeof(path), "%s/" TEMPLATES_DIR, cache_dir);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/" TEMPLATES_DIR "/%s", cache_dir, e->d_name);
		if (e->d_name[0] != '.' && realpath(path, real))
			allow(r, false, "%s", real);
	}
	if (dir)
		closedir(dir);
}

/* What the daemon itself makes in the cache. Not the images: the program that builds them has all rights of
 * the user's, and believes what it finds there. */
static void allow_cache(struct rules *r, const char *cache_dir)
{
	allow(r, false, "%s", cache_dir);
	allow(r, true, "%s/snapshots", cache_dir);
	allow(r, true, "%s/layers", cache_dir);
}

static int confine_files(const struct confine_spec *spec)
{
	static const char *const readable[] = {
		"/proc",	  "/sys/devices/system", "/sys/fs/cgroup", "/sys/fs/fuse",
		"/etc/localtime", "/usr/share/zoneinfo", "/dev/urandom",   "/etc/fuse.conf",
	};
	struct rules *r = calloc(1, sizeof(*r));
	int abi;

	if (!r)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(readable); i++)
		allow(r, false, "%s", readable[i]);
	allow(r, false, "%s", spec->agent);
	allow_images(r, spec->cache_dir);
	if (spec->shared_dir) {
		allow(r, false, "%s", spec->shared_dir);
		allow_images(r, spec->shared_dir);
	}
	allow_cache(r, spec->cache_dir);
	allow(r, true, "%s", spec->runtime_dir);
	allow(r, true, "%s", spec->spool_dir);
	keeps = spec->state_dir;
	if (keeps)
		allow(r, true, "%s", spec->state_dir);
	audits = spec->audit_dir;
	if (audits)
		allow(r, true, "%s", spec->audit_dir);
	allow(r, true, "/dev/null");
	if (spec->notify)
		allow(r, true, "%s", spec->notify);
	abi = landlock_confine(r->rule, r->n, 0);
	free(r);
	return abi;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];
	const uint64_t kept = CAP_KEPT;

	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		d[i].permitted &= (uint32_t)(kept >> (32 * i));
		d[i].effective = d[i].permitted;
		d[i].inheritable = 0;
	}
	for (int cap = 0; geteuid() == 0 && cap < CAP_NUMBERS; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 && !(kept >> cap & 1) &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EPERM)
			return -errno;
	}
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

#ifdef __SANITIZE_ADDRESS__
#define FILTERED false /* at its end the sanitizer forks, and traces us, to look for leaks */
#else
#define FILTERED true
#endif

int confine_rings(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = {ARRAY_SIZE(code), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return -errno;
	return 0;
}

/* What is set for one thread does not hold for others. */
static bool is_alone(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

int confine(const struct confine_spec *spec, const char **ret_step)
{
	int r;

	*ret_step = "being alone";
	if (!is_alone())
		return -EBUSY;
	*ret_step = "no_new_privs";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "capabilities";
	r = drop_capabilities();
	if (r < 0)
		return r;
	*ret_step = "Landlock";
	r = landlock = confine_files(spec);
	if (r < 0)
		return r;
	*ret_step = "system calls";
	return FILTERED ? jail_seccomp_install(JAIL_DAEMON, false) : 0;
}

int confine_landlock(void)
{
	return landlock < 0 ? landlock_abi() : landlock;
}

/* The value of a line of /proc/self/status, or "". */
static void own_status(const char *key, char *out, size_t size)
{
	_cleanup_file_ FILE *f = fopen("/proc/self/status", "re");
	const size_t len = strlen(key);
	char line[256];

	*out = '\0';
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, len) == 0 && line[len] == ':')
			snprintf(out, size, "%.*s", (int)strcspn(line + len + 2, "\n"),
				 line + len + 2);
	}
}

void confine_tell(void (*line)(void *data, const char *key, const char *value), void *data)
{
	char text[128], value[64];

	own_status("Seccomp", value, sizeof(value));
	line(data, "daemon.seccomp",
	     strcmp(value, "2") == 0 ? "on: no programs, no processes, no network, no mounts"
				     : "none");
	own_status("CapEff", value, sizeof(value));
	snprintf(text, sizeof(text), "%s", strspn(value, "0") == strlen(value) ? "none" : value);
	line(data, "daemon.capabilities", text);
	if (landlock > 0)
		snprintf(text, sizeof(text),
			 "on, ABI %d: only cache, runtime%s%s spool directory, /proc; images only "
			 "to be read",
			 landlock, audits ? ", audit" : "", keeps ? ", state and" : " and");
	else
		snprintf(text, sizeof(text), "none: %s",
			 landlock == 0 ? "the kernel has none that can be used" : "not confined");
	line(data, "daemon.landlock", text);
}
