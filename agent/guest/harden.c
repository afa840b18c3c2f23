/* SPDX-License-Identifier: Apache-2.0 */
/* Closes what user code of a guest must not reach: kernel parameters, devices, parts of /proc. */
#include "harden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/core/log.h"
#include "agent/core/proc.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * User code runs as an ordinary user without capabilities and without a way to get any, so most of this
 * is defence in depth. The most important parts: no user namespaces (which would grant capabilities
 * over large parts of the kernel), no unprivileged BPF or userfaultfd, no more module loading, and a
 * kernel that detects damage to itself panics, which ends the machine, instead of continuing.
 */

struct setting {
	const char *name, *value;
};

static const struct setting sysctls[] = {
	/* kernel addresses and logs are not for users */
	{"kernel/kptr_restrict", "2"},
	{"kernel/dmesg_restrict", "1"},
	/* large attack surfaces that a sandbox needs none of */
	{"user/max_user_namespaces", "0"},
	{"kernel/unprivileged_bpf_disabled", "1"},
	{"net/core/bpf_jit_harden", "2"},
	{"kernel/perf_event_paranoid", "3"},
	{"vm/unprivileged_userfaultfd", "0"},
	{"kernel/io_uring_disabled", "2"},
	{"kernel/kexec_load_disabled", "1"},
	{"dev/tty/ldisc_autoload", "0"},
	{"dev/tty/legacy_tiocsti", "0"},
	{"kernel/sysrq", "0"},
	/* a debugger may trace what it started, nothing else */
	{"kernel/yama/ptrace_scope", "1"},
	{"fs/suid_dumpable", "0"},
	{"fs/protected_hardlinks", "1"},
	{"fs/protected_symlinks", "1"},
	{"fs/protected_fifos", "2"},
	{"fs/protected_regular", "2"},
	/* ping without a right to sockets of raw packets; what it asks does not leave the machine */
	{"net/ipv4/ping_group_range", "0 2147483647"},
	/* a lease could hold up the file server */
	{"fs/leases-enable", "0"},
	/* the host's view of files/ is descriptors of ours; users have RLIMIT_NOFILE */
	{"fs/file-max", "4194304"},
	{"fs/nr_open", "1048576"},
	{"kernel/pid_max", "32768"},
	{"kernel/randomize_va_space", "2"},
	/* a damaged kernel ends the machine; each line on the console costs an exit to the host */
	{"kernel/panic_on_oops", "1"},
	{"kernel/printk", "1 4 1 7"},
	/* the agent has real-time priority and sleeps when it has nothing to do */
	{"kernel/sched_rt_runtime_us", "-1"},
	{"kernel/modules_disabled", "1"},
};

/* Writes what the kernel has of a list of settings below a directory. */
static void apply(const char *dir, const struct setting *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char path[128];
		int r;

		snprintf(path, sizeof(path), "%s/%s", dir, list[i].name);
		r = proc_write(path, list[i].value);
		if (r < 0 && r != -ENOENT) /* which this kernel does not have */
			log_line("%s: %s", path, strerror(-r));
	}
}

/*
 * As many processes as can be configured, and some more, for root has to be able to start an interpreter however many
 * the user has. By itself the kernel goes by the memory, and a little of it holds fewer than were promised.
 */
static void allow_processes(void)
{
	static const struct setting threads[] = {{"kernel/threads-max", "16640"}};
	const struct rlimit user = {16384, 16384};

	apply("/proc/sys", threads, ARRAY_SIZE(threads));
	if (setrlimit(RLIMIT_NPROC, &user) < 0)
		log_line("RLIMIT_NPROC: %m");
}

void harden_sysctls(void)
{
	apply("/proc/sys", sysctls, ARRAY_SIZE(sysctls));
	allow_processes();
}

/*
 * Without swap, a machine whose memory is used up throws out the pages of running programs and
 * reads them back, for many seconds, before the OOM killer is called. The multi-generational LRU can
 * be told to call it as soon as what was used in the last moments does not fit any more.
 */
void harden_memory(void)
{
	static const struct setting lru[] = {{"enabled", "y"}, {"min_ttl_ms", "300"}};

	apply("/sys/kernel/mm/lru_gen", lru, ARRAY_SIZE(lru));
}

static const struct device {
	const char *name;
	unsigned major, minor;
	mode_t mode;
} devices[] = {
	{"null", 1, 3, 0666},	{"zero", 1, 5, 0666},	 {"full", 1, 7, 0666},
	{"random", 1, 8, 0444}, {"urandom", 1, 9, 0444}, {"tty", 5, 0, 0666},
};

static const struct link {
	const char *name, *target;
} links[] = {
	{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

static int fill_dev(int dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		const struct device *d = &devices[i];

		if (mknodat(dir, d->name, S_IFCHR | d->mode, makedev(d->major, d->minor)) < 0)
			return -errno;
	}
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		if (symlinkat(links[i].target, dir, links[i].name) < 0)
			return -errno;
	}
	if (mkdirat(dir, "pts", 0755) < 0 || mkdirat(dir, "shm", 0755) < 0)
		return -errno;
	return 0;
}

int harden_dev(const char *dir)
{
	const unsigned long flags = MS_NOSUID | MS_NOEXEC;
	_cleanup_close_ int fd = -1;
	char path[128];
	int r;

	if (mount("dev", dir, "tmpfs", flags, "mode=755,size=64k,nr_inodes=64") < 0)
		return -errno;
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fill_dev(fd);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/pts", dir);
	if (mount("devpts", path, "devpts", flags, "newinstance,gid=5,mode=620,ptmxmode=666") < 0)
		log_line("devpts: %s", strerror(errno)); /* no terminals then */
	snprintf(path, sizeof(path), "%s/shm", dir);
	if (mount("shm", path, "tmpfs", flags | MS_NODEV, "mode=1777,size=50%") < 0)
		return -errno;
	return mount(NULL, dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) < 0 ? -errno
											  : 0;
}

int harden_proc(const char *proc, const char *null)
{
	static const char *const covered[] = {"kcore",	       "kmsg",	     "keys",
					      "sysrq-trigger", "timer_list", "kallsyms",
					      "kpagecount",    "kpageflags", "kpagecgroup"};
	static const char *const frozen[] = {"sys", "irq", "bus", "fs"};
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(covered); i++) {
		snprintf(path, sizeof(path), "%s/%s", proc, covered[i]);
		if (mount(null, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
			return -errno;
	}
	for (size_t i = 0; i < ARRAY_SIZE(frozen); i++) {
		snprintf(path, sizeof(path), "%s/%s", proc, frozen[i]);
		if (mount(path, path, NULL, MS_BIND, NULL) < 0) {
			if (errno == ENOENT)
				continue;
			return -errno;
		}
		if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) < 0)
			return -errno;
	}
	return 0;
}
