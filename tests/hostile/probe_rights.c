/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: other processes' insides, privileges, priorities, terminals. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static char word[16] = "theirs";

/* ---- other processes' insides ---- */

/* A process of our own that waits: what is refused here is refused for all. */
static pid_t victim(void)
{
	const pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			pause();
	}
	return pid;
}

static int with_victim(int (*what)(pid_t pid))
{
	const pid_t pid = victim();
	int r = what(pid);

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return r;
}

static int trace(pid_t pid)
{
	return probe_result(ptrace(PTRACE_SEIZE, pid, NULL, NULL));
}

static int ptrace_child(void)
{
	return with_victim(trace);
}

static int ptrace_parent(void)
{
	const pid_t pid = getppid();
	int r = trace(pid);

	if (r == 0) { /* it goes on when we have ended */
		(void)ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
		waitpid(pid, NULL, __WALL);
		(void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
	}
	return r;
}

static int ptrace_me(void)
{
	return probe_result(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int read_memory(pid_t pid)
{
	char copy[16];
	const struct iovec here = {copy, sizeof(copy)}, there = {word, sizeof(word)};

	return probe_result(process_vm_readv(pid, &here, 1, &there, 1, 0));
}

static int vm_read(void)
{
	return with_victim(read_memory);
}

static int write_memory(pid_t pid)
{
	char copy[16] = "ours";
	const struct iovec here = {copy, sizeof(copy)}, there = {word, sizeof(word)};

	return probe_result(process_vm_writev(pid, &here, 1, &there, 1, 0));
}

static int vm_write(void)
{
	return with_victim(write_memory);
}

static int steal_descriptor(pid_t pid)
{
	const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	return pidfd < 0 ? -errno : probe_result(syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}

static int pidfd_getfd_child(void)
{
	return with_victim(steal_descriptor);
}

static int compare(pid_t pid)
{
	return probe_result(syscall(SYS_kcmp, getpid(), pid, 1 /* KCMP_VM */, 0, 0));
}

static int kcmp_child(void)
{
	return with_victim(compare);
}

static int memory_of_init(void)
{
	return probe_result(open("/proc/1/mem", O_RDONLY | O_CLOEXEC));
}

static int descriptors_of_init(void)
{
	return probe_result(open("/proc/1/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int root_of_init(void)
{
	return probe_result(open("/proc/1/root/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int environment_of_init(void)
{
	return probe_result(open("/proc/1/environ", O_RDONLY | O_CLOEXEC));
}

static int signal_to_init(void)
{
	return probe_result(kill(1, 0));
}

static int signal_queued_to_init(void)
{
	siginfo_t info = {.si_code = SI_QUEUE};

	return probe_result(syscall(SYS_rt_sigqueueinfo, 1, 0, &info));
}

static int signal_to_init_by_pidfd(void)
{
	const int fd = (int)syscall(SYS_pidfd_open, 1, 0);

	return fd < 0 ? -errno : probe_result(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
}

static int limits_of_init(void)
{
	struct rlimit old;

	return probe_result(prlimit(1, RLIMIT_NOFILE, NULL, &old));
}

static int affinity_of_init(void)
{
	cpu_set_t set;

	return sched_getaffinity(1, sizeof(set), &set) < 0
		       ? -errno
		       : probe_result(sched_setaffinity(1, sizeof(set), &set));
}

/* ---- privileges ---- */

static int become_root(void)
{
	return getuid() == 0 ? 0 : probe_result(setresuid(0, 0, 0));
}

static int become_other(void)
{
	return probe_result(setresuid(12345, 12345, 12345));
}

static int become_group(void)
{
	return getgid() == 0 ? 0 : probe_result(setresgid(0, 0, 0));
}

static int files_as_root(void)
{
	setfsuid(0);
	return setfsuid((uid_t)-1) == 0 ? 0 : -EPERM;
}

static int drop_groups(void)
{
	return probe_result(setgroups(0, NULL));
}

static int have_capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	return d[0].permitted | d[1].permitted ? 0 : -EPERM;
}

static int raise_capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{.effective = 1, .permitted = 1}};

	return probe_result(syscall(SYS_capset, &h, d));
}

static int gain_by_programs(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 ? 0 : -EPERM;
}

static int bounding_set(void)
{
	for (int cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			return 0;
	}
	return -EPERM;
}

static int give_away(void)
{
	const int fd = open("probe-file", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : probe_result(fchown(fd, 12345, 12345));
}

static int device_node(void)
{
	(void)unlink("probe-node");
	return probe_result(mknod("probe-node", S_IFCHR | 0600, makedev(1, 3)));
}

static int block_node(void)
{
	(void)unlink("probe-block");
	return probe_result(mknod("probe-block", S_IFBLK | 0600, makedev(7, 0)));
}

static int executable_data(void)
{
	return probe_result(personality(READ_IMPLIES_EXEC));
}

/* ---- more than its share ---- */

static int raise_limit(int which)
{
	struct rlimit l;

	if (getrlimit(which, &l) < 0)
		return -errno;
	if (l.rlim_max == RLIM_INFINITY)
		return 0;
	l.rlim_max++;
	return probe_result(setrlimit(which, &l));
}

static int more_processes(void)
{
	return raise_limit(RLIMIT_NPROC);
}

static int more_files(void)
{
	return raise_limit(RLIMIT_NOFILE);
}

/* With 0, the kernel hands a dump to the program that the host has for it; with 1 it does not. */
static int core_dumps(void)
{
	const struct rlimit none = {0, 0};
	struct rlimit l;

	if (setrlimit(RLIMIT_CORE, &none) < 0 || getrlimit(RLIMIT_CORE, &l) < 0)
		return -errno;
	return l.rlim_cur == 1 ? -EPERM : 0;
}

static int core_dumps_upper_bits(void)
{
	const struct rlimit none = {0, 0};
	struct rlimit l;

	if (syscall(SYS_prlimit64, 0, RLIMIT_CORE | 1ull << 35, &none, NULL) < 0 ||
	    getrlimit(RLIMIT_CORE, &l) < 0)
		return -errno;
	return l.rlim_cur == 1 ? -EPERM : 0;
}

static int real_time(void)
{
	const struct sched_param p = {.sched_priority = 1};

	return probe_result(sched_setscheduler(0, SCHED_FIFO, &p));
}

static int less_nice(void)
{
	return probe_result(setpriority(PRIO_PROCESS, 0, -1));
}

static int real_time_input(void)
{
	return probe_result(syscall(SYS_ioprio_set, 1, 0, 1 << 13));
}

static int spared_by_oom(void)
{
	const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : probe_result(write(fd, "-1000", 5));
}

static int lock_much(void)
{
	void *p = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? -errno : probe_result(mlock(p, 64 << 20));
}

/* ---- terminals ---- */

/* Words into a terminal's input, by a process that has it as its own. */
static int stuff(uint64_t request)
{
	const int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlock = 0, slave;

	setsid();
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -EBADF;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		return -EBADF;
	return probe_result(syscall(SYS_ioctl, slave, request, "x"));
}

static int stuffing(void)
{
	return stuff(TIOCSTI);
}

static int stuffing_upper_bits(void)
{
	return stuff(TIOCSTI | 1ull << 33);
}

const struct probe rights_probes[] = {
	{"ptrace-child", ptrace_child},
	{"ptrace-parent", ptrace_parent},
	{"ptrace-me", ptrace_me},
	{"vm-read", vm_read},
	{"vm-write", vm_write},
	{"pidfd-getfd", pidfd_getfd_child},
	{"kcmp", kcmp_child},
	{"init-memory", memory_of_init},
	{"init-descriptors", descriptors_of_init},
	{"init-root", root_of_init},
	{"init-environment", environment_of_init},
	{"init-signal", signal_to_init},
	{"init-signal-queued", signal_queued_to_init},
	{"init-signal-by-pidfd", signal_to_init_by_pidfd},
	{"init-limits", limits_of_init},
	{"init-affinity", affinity_of_init},
	{"root", become_root},
	{"other-user", become_other},
	{"root-group", become_group},
	{"fsuid", files_as_root},
	{"setgroups", drop_groups},
	{"capabilities", have_capabilities},
	{"capset", raise_capabilities},
	{"new-privileges", gain_by_programs},
	{"bounding-set", bounding_set},
	{"chown", give_away},
	{"mknod-char", device_node},
	{"mknod-block", block_node},
	{"read-implies-exec", executable_data},
	{"raise-processes", more_processes},
	{"raise-files", more_files},
	{"core-dumps", core_dumps},
	{"core-dumps-upper-bits", core_dumps_upper_bits},
	{"real-time", real_time},
	{"less-nice", less_nice},
	{"real-time-io", real_time_input},
	{"oom-spared", spared_by_oom},
	{"mlock", lock_much},
	{"tiocsti", stuffing},
	{"tiocsti-upper-bits", stuffing_upper_bits},
};
const size_t n_rights_probes = sizeof(rights_probes) / sizeof(rights_probes[0]);
