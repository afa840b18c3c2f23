/* SPDX-License-Identifier: Apache-2.0 */
/* Seccomp filters: the system calls that each program may make, and why. */
#include "vm/jail/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The lists contain what is allowed. Any other call fails as if it did not exist (ENOSYS), including
 * calls of newer kernels; programs can handle that. Calls that programs are known to try are refused
 * with EPERM, which they report better. Calls of another architecture, which have other numbers and
 * would be mistaken for different calls, kill the process.
 *
 * User code may use about the same calls as in containers, without the parts of the kernel that had
 * the most vulnerabilities: io_uring, user namespaces, keyrings, BPF, userfaultfd, tracing. The agent
 * has the same list as user code but for pidfd_getfd, which it refuses to that: its additional rights come from
 * its capabilities.
 *
 * QEMU gets less: no new programs by fork, no ids, no terminals. It filters itself further after
 * its start (-sandbox). xsbxfs-net may open connections, but neither files nor programs.
 *
 * The daemon has a filter too, after its start: no programs, no processes, no network. So does the
 * program that talks to a store: files and connections, no programs. The process that lists a
 * sandbox's changes may only use files. The holder may wait, receive, send and close, and no more.
 *
 * A filter is made once for each use: making one takes two milliseconds, and installing it 0.1 (it is
 * a binary tree; a list would take four times as long).
 */

#define S	      (1u << JAIL_SANDBOX)
#define Q	      (1u << JAIL_QEMU)
#define N	      (1u << JAIL_NET | 1u << JAIL_DIAL)
#define D	      (1u << JAIL_DAEMON)
#define T	      (1u << JAIL_STORE)
#define C	      (1u << JAIL_CHANGES)
#define H	      (1u << JAIL_HOLDER)
#define CLONE_NS_MASK 0x7e020000u /* all CLONE_NEW* that clone(2) knows */
#define SOCKET_TYPE   0xfu
#if __BYTE_ORDER == __LITTLE_ENDIAN
#define LOW_HALF 0
#else
#define LOW_HALF 4
#endif

struct group {
	unsigned uses;
	const char *calls; /* names with blanks between them */
};

static const struct group allowed[] = {
	/* All that the holder does. */
	{H, "sendmsg recvmsg poll ppoll ppoll_time64 close exit exit_group rt_sigreturn "
	    "restart_syscall"},
	/* Reading, writing, waiting: what any program does with what it has open. */
	{S | Q | N | D | T | C,
	 "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek "
	 "_llseek close close_range dup dup2 dup3 fcntl fcntl64 poll ppoll ppoll_time64 "
	 "select _newselect pselect6 epoll_create epoll_create1 epoll_ctl epoll_ctl_old "
	 "epoll_wait epoll_pwait epoll_pwait2 epoll_wait_old eventfd eventfd2 pipe pipe2 "
	 "fsync fdatasync sync_file_range fstat fstat64 fstatfs fstatfs64 newfstatat "
	 "fstatat64 statx ftruncate ftruncate64 fallocate fadvise64 fadvise64_64 "
	 "readahead timerfd_create timerfd_settime timerfd_gettime signalfd signalfd4"},
	/* Opening and looking: the view decides what there is. QEMU opens /proc/self/fd/N and its
	 * libraries; the helper its libraries. */
	{S | Q | N | D | T | C,
	 "open openat openat2 stat stat64 lstat lstat64 access faccessat faccessat2 "
	 "readlink readlinkat getdents getdents64 getcwd statfs statfs64"},
	/* Memory. */
	{S | Q | N | D | T | C,
	 "brk mmap mmap2 munmap mremap mprotect madvise msync mincore mlock mlock2 "
	 "mlockall munlock munlockall memfd_create membarrier pkey_alloc pkey_free "
	 "pkey_mprotect map_shadow_stack mseal"},
	/* Threads, their locks and places; the C library's start. clone is looked at below. */
	{S | Q | N | D | T | C,
	 "futex futex_time64 futex_waitv futex_wait futex_wake futex_requeue "
	 "set_robust_list get_robust_list set_tid_address set_thread_area "
	 "get_thread_area arch_prctl rseq gettid getpid getppid getpgrp getpgid getsid "
	 "getuid geteuid getgid getegid getresuid getresgid getgroups getrlimit "
	 "ugetrlimit setrlimit prlimit64 getrusage times sysinfo uname getcpu "
	 "sched_yield sched_getaffinity sched_setaffinity sched_getparam "
	 "sched_getscheduler sched_getattr sched_get_priority_max sched_get_priority_min "
	 "sched_rr_get_interval getpriority exit exit_group restart_syscall getrandom "
	 "prctl capget seccomp umask"},
	/* Signals. Whom they reach is up to the PID namespace. */
	{S | Q | N | D | T | C,
	 "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend "
	 "rt_sigtimedwait rt_sigtimedwait_time64 rt_sigqueueinfo rt_tgsigqueueinfo "
	 "sigaction sigprocmask sigreturn sigpending sigsuspend signal sigaltstack kill "
	 "tkill tgkill alarm pause"},
	/* Time: read it and wait for it. The clock itself is refused below. */
	{S | Q | N | D | T | C,
	 "clock_gettime clock_gettime64 clock_getres clock_getres_time64 clock_nanosleep "
	 "clock_nanosleep_time64 nanosleep gettimeofday time timer_create timer_delete "
	 "timer_settime timer_settime64 timer_gettime timer_gettime64 timer_getoverrun "
	 "getitimer setitimer"},
	/* Talking over sockets it was given. */
	{S | Q | N | D | T,
	 "sendmsg sendmmsg sendto send recvmsg recvmmsg recvfrom recv "
	 "shutdown getsockopt setsockopt getsockname getpeername sendfile sendfile64 "
	 "splice tee vmsplice copy_file_range"},
	/* Making connections of its own: to loopback, or, by the helper, to the outside. Families
	 * are looked at below. Not for the daemon: whom it could reach by a path, as the host's init, a message
	 * bus or a container engine, runs programs for its user. */
	{S | N | T, "connect bind listen accept accept4 socketcall"},
	/* The program itself, which is run after the filter is there, and programs of user code. */
	{S | Q | N, "execve"},
	/* The daemon ends what it started, by descriptor. */
	{D, "pidfd_send_signal waitid wait4"},
	{S, "execveat fork vfork wait4 waitid waitpid pidfd_open pidfd_send_signal setsid "
	    "setpgid process_mrelease"},
	/* QEMU looks after a child that it never has. */
	{Q, "wait4 waitid"},
	/* Priorities only get lower without a capability. */
	{S | Q, "setpriority nice sched_setparam sched_setscheduler sched_setattr ioprio_get "
		"ioprio_set"},
	/* Files: their sizes, names and locks. */
	{S | Q | D | T | C,
	 "truncate truncate64 unlink unlinkat rename renameat renameat2 flock fchmod"},
	/* Of devices, there are only those of the view; and how much can be read. */
	{S | Q | N | D, "ioctl"},
	/* Disk images. Not for user code: the number of these contexts is the whole host's. */
	{Q | D | T, "io_setup io_submit io_getevents io_pgetevents io_pgetevents_time64 io_cancel "
		    "io_destroy"},
	/* Changing files and directories. */
	{S | D | T | C,
	 "creat mkdir mkdirat rmdir link linkat symlink symlinkat chmod fchmodat "
	 "fchmodat2 chown chown32 fchown fchown32 fchownat lchown lchown32 utime utimes "
	 "utimensat utimensat_time64 futimesat mknod mknodat chdir fchdir "
	 "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr "
	 "lsetxattr fsetxattr removexattr lremovexattr fremovexattr inotify_init "
	 "inotify_init1 inotify_add_watch inotify_rm_watch landlock_create_ruleset "
	 "landlock_add_rule landlock_restrict_self"},
	/* Writing out all that was changed; what user code gets instead is below. */
	{D | T | C, "sync syncfs"},
	/* Identity: only between the ids that its user namespace has, and the name that the session
	 * gives; by their capabilities only the agent may. */
	{S, "setuid setuid32 setgid setgid32 setreuid setreuid32 setregid setregid32 "
	    "setresuid setresuid32 setresgid setresgid32 setgroups setgroups32 setfsuid "
	    "setfsuid32 setfsgid setfsgid32 getresuid32 getresgid32 getuid32 getgid32 "
	    "geteuid32 getegid32 getgroups32 capset sethostname"},
	/* An interpreter's socket and memory, for the agent to look at, which refuses them to user code itself. Of an ordinary
	 * user's jail, which has one id, it can't open an interpreter's memory as a file. */
	{S, "pidfd_getfd process_vm_readv process_vm_writev"},
	/* System V's and POSIX's ways to share: the IPC namespace has its own. */
	{S, "shmget shmat shmdt shmctl semget semop semtimedop semtimedop_time64 semctl "
	    "msgget msgsnd msgrcv msgctl ipc mq_open mq_unlink mq_timedsend "
	    "mq_timedsend_time64 mq_timedreceive mq_timedreceive_time64 mq_notify "
	    "mq_getsetattr remap_file_pages"},
};

/* Known and refused, for every use unless it is allowed above. */
static const char *const refused[] = {
	/* views, namespaces, roots */
	"umount umount2 pivot_root chroot unshare setns open_by_handle_at "
	"name_to_handle_at",
	/* the host: clock, name, swap, modules, power, accounting, log */
	"settimeofday clock_settime clock_settime64 stime adjtimex clock_adjtime "
	"clock_adjtime64 setdomainname swapon swapoff reboot kexec_load "
	"kexec_file_load init_module finit_module delete_module acct quotactl "
	"quotactl_fd syslog vhangup nfsservctl lookup_dcookie uselib",
	/* programs inside the kernel, and handlers of its faults and events */
	"bpf perf_event_open userfaultfd fanotify_init io_uring_setup io_uring_enter "
	"io_uring_register memfd_secret",
	/* keyrings are not of a namespace */
	"add_key keyctl request_key",
	/* other processes' insides */
	"ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd",
	/* placing memory on nodes: rich in races, useless here */
	"mbind set_mempolicy get_mempolicy set_mempolicy_home_node migrate_pages "
	"move_pages",
	/* ports, segments, virtual 8086 */
	"iopl ioperm modify_ldt vm86 vm86old",
};

/* Would write out all the host's file systems, or all of one that can only be read here. User code's
 * own files are in memory; where they are not, it has fsync. They do nothing, with success. */
static const char idle[] = "sync syncfs";

/* personality(2) values that change nothing that matters to others: 32-bit, the name of an old version, addresses that are
 * not random (as debuggers want them, and sessions with a seed), query. */
static const unsigned personalities[] = {0x0, 0x8, 0x20000, 0x20008, 0x40000, 0xffffffff};

static const int families[] = {AF_UNIX, AF_INET, AF_INET6};

/* Who sees the host's network, and so its abstract sockets, or its files, and so its sockets with a path, makes
 * none of that family. The C library then asks name servers itself. */
static bool has_family(enum jail_use use, int family)
{
	if (family == AF_UNIX)
		return use != JAIL_DIAL && use != JAIL_STORE;
	return family == AF_INET || family == AF_INET6;
}

/* Return: 0 or -errno. Calls that this architecture, or the library, does not know are left out: they
 * do not exist then. */
static int add_call(scmp_filter_ctx ctx, uint32_t action, const char *name)
{
	const int nr = seccomp_syscall_resolve_name(name);
	int r;

	if (nr == __NR_SCMP_ERROR)
		return 0;
	r = seccomp_rule_add(ctx, action, nr, 0);
	return r == -EEXIST ? 0 : r;
}

static int add_calls(scmp_filter_ctx ctx, uint32_t action, const char *names)
{
	char name[64];
	int r = 0;

	while (r == 0 && *names) {
		size_t len = strcspn(names, " ");

		snprintf(name, sizeof(name), "%.*s", (int)len, names);
		r = add_call(ctx, action, name);
		names += len + (names[len] == ' ');
	}
	return r;
}

static int add_lists(scmp_filter_ctx ctx, enum jail_use use)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(allowed); i++) {
		if (allowed[i].uses & 1u << use)
			r = add_calls(ctx, SCMP_ACT_ALLOW, allowed[i].calls);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(refused); i++)
		r = add_calls(ctx, SCMP_ACT_ERRNO(EPERM), refused[i]);
	if (r == 0 && use == JAIL_SANDBOX)
		r = add_calls(ctx, SCMP_ACT_ERRNO(0), idle);
	return r;
}

/* Threads for all, processes for user code; namespaces for nobody. clone3 hides its flags behind a
 * pointer, and does not exist; the C library then takes clone. */
static int add_clone(scmp_filter_ctx ctx, enum jail_use use)
{
	int r;

	if (use == JAIL_HOLDER)
		return 0;
	if (use != JAIL_SANDBOX)
		return seccomp_rule_add(
			ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NS_MASK | CLONE_THREAD, CLONE_THREAD));
	r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			     SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NS_MASK, 0));
	for (unsigned bit = 1; r == 0 && bit; bit <<= 1) {
		if (bit & CLONE_NS_MASK)
			r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
					     SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit));
	}
	return r;
}

/*
 * Permits pairs of connected sockets, but not of datagram sockets: one of those can send to any address, so it
 * would reach sockets of the host that are visible in the jail. Others only reach the other end of their pair.
 */
static int add_pairs(scmp_filter_ctx ctx, enum jail_use use)
{
	static const unsigned types[] = {SOCK_STREAM, SOCK_SEQPACKET};
	int r = 0;

	if (use == JAIL_CHANGES || use == JAIL_HOLDER)
		return 0;
	if (use != JAIL_DAEMON && has_family(use, AF_UNIX))
		return add_call(ctx, SCMP_ACT_ALLOW, "socketpair");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(types); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 2,
				     SCMP_A0(SCMP_CMP_EQ, AF_UNIX),
				     SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE, types[i]));
	return r;
}

/* The common families, and of netlink the one that lists interfaces. No raw packets, which user code
 * has no capability for anyway; other families answer as if they were not built in. */
static int add_sockets(scmp_filter_ctx ctx, enum jail_use use)
{
	int r = 0;

	if (use == JAIL_QEMU || use == JAIL_CHANGES || use == JAIL_DAEMON || use == JAIL_HOLDER)
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(families); i++) {
		if (!has_family(use, families[i]))
			continue;
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
				     SCMP_A0(SCMP_CMP_EQ, families[i]),
				     SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE, SOCK_STREAM));
		if (r == 0)
			r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
					     SCMP_A0(SCMP_CMP_EQ, families[i]),
					     SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE, SOCK_DGRAM));
		if (r == 0)
			r = seccomp_rule_add(
				ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
				SCMP_A0(SCMP_CMP_EQ, families[i]),
				SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE, SOCK_SEQPACKET));
		if (r == 0)
			r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 2,
					     SCMP_A0(SCMP_CMP_EQ, families[i]),
					     SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE, SOCK_RAW));
	}
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
				     SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_EQ, 0));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
				     SCMP_A0(SCMP_CMP_GT, AF_NETLINK));
	for (int f = 0; r == 0 && f < AF_NETLINK; f++) {
		if (!has_family(use, f))
			r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
					     SCMP_A0(SCMP_CMP_EQ, (unsigned)f));
	}
	return r;
}

/* The agent gives its memory file systems their quotas: changing, never mounting. */
static int add_rest(scmp_filter_ctx ctx, enum jail_use use)
{
	int r = 0;

	for (size_t i = 0; use == JAIL_SANDBOX && r == 0 && i < ARRAY_SIZE(personalities); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
				     SCMP_A0(SCMP_CMP_EQ, personalities[i]));
	if (use == JAIL_SANDBOX && r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mount), 1,
				     SCMP_A3(SCMP_CMP_MASKED_EQ, MS_REMOUNT | MS_BIND, MS_REMOUNT));
	if (use == JAIL_SANDBOX && r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mount), 1,
				     SCMP_A3(SCMP_CMP_MASKED_EQ, MS_REMOUNT, 0));
	if (use == JAIL_SANDBOX && r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mount), 1,
				     SCMP_A3(SCMP_CMP_MASKED_EQ, MS_BIND, MS_BIND));
	return r;
}

/* What the library can't say, because it compares all 64 bits of an argument where the kernel looks at
 * 32:
 *  - nobody has a socket run a program in the kernel, whose memory is a share of one limit of the host's;
 *  - nobody's sockets get longer queues than the host's default: what waits in those of netlink, and in
 *    any socket's for errors, no control group counts. To try is no error, as it is none to ask the kernel
 *    for more than it grants;
 *  - nobody takes huge pages, of which the host has a number that no limit here counts. Each call fails as
 *    it does where there are none, or none for this user, and programs then take ordinary ones;
 *  - nobody puts words into a terminal's input;
 *  - nobody changes the limit on core dumps, which is 1: that is the one value with which the kernel
 *    does not hand the dump to a program of the host, either. It is no error to try, as programs that
 *    hold secrets do.
 * The architecture is looked at afterwards; for a wrong one it makes no difference. */
#define ARG(n)	(offsetof(struct seccomp_data, args[n]) + LOW_HALF)
#define REST(n) (offsetof(struct seccomp_data, args[n]) + 4 - LOW_HALF)

static const struct sock_filter by_hand[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_setsockopt, 0, 11),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(1)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOL_SOCKET, 0, 20),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(2)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_RCVBUF, 6, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_SNDBUF, 5, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_ATTACH_FILTER, 3, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_ATTACH_BPF, 2, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_ATTACH_REUSEPORT_CBPF, 1, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_ATTACH_REUSEPORT_EBPF, 0, 13),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 0, 3),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(3)),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_HUGETLB, 0, 8),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_shmget, 0, 2),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(2)),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SHM_HUGETLB, 3, 4),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_memfd_create, 0, 3),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(1)),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MFD_HUGETLB, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 0, 4),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(1)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 1, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCLINUX, 0, 12),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
#ifdef __NR_setrlimit
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_setrlimit, 0, 2),
#else
	BPF_JUMP(BPF_JMP | BPF_JA, 2, 0, 0),
#endif
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(0)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_CORE, 7, 8),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_prlimit64, 0, 7),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(1)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_CORE, 0, 5),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(2)), /* nothing new: it only asks */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, REST(2)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
};

/* Reads the program back from where the library wrote it, behind @before of our own instructions. */
static int export(scmp_filter_ctx ctx, const struct sock_filter *ours, size_t before,
		  struct sock_fprog *ret_prog)
{
	_cleanup_close_ int fd = memfd_create("seccomp", MFD_CLOEXEC);
	struct sock_filter code[BPF_MAXINSNS], *copy;
	const size_t skip = before * sizeof(*code);
	int r = fd < 0 ? -errno : seccomp_export_bpf(ctx, fd);
	ssize_t size;

	if (r < 0)
		return r;
	if (before)
		memcpy(code, ours, skip);
	size = pread(fd, code + before, sizeof(code) - skip, 0);
	if (size <= 0 || size != lseek(fd, 0, SEEK_END))
		return -E2BIG;
	copy = malloc(skip + (size_t)size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, code, skip + (size_t)size);
	ret_prog->len = (unsigned short)(before + (size_t)size / sizeof(*copy));
	ret_prog->filter = copy;
	return 0;
}

static int build(enum jail_use use, struct sock_fprog *ret_prog)
{
	static int (*const parts[])(scmp_filter_ctx ctx, enum jail_use use) = {
		add_lists, add_clone, add_sockets, add_pairs, add_rest};
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int r;

	if (!ctx)
		return -ENOMEM;
	r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* From 2.5 on, a tree. An older library makes a list, which is slower and as good. */
	(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		r = parts[i](ctx, use);
	if (r == 0)
		r = export(ctx, by_hand, ARRAY_SIZE(by_hand), ret_prog);
	seccomp_release(ctx);
	return r;
}

/* Calls that give a file its mode, and which argument that is; with flags, only if they make a file. */
static const struct {
	const char *name;
	unsigned mode, flags;
} givers[] = {
	{"chmod", 1, 0}, {"fchmod", 1, 0},  {"fchmodat", 2, 0}, {"fchmodat2", 2, 0},
	{"mkdir", 1, 0}, {"mkdirat", 2, 0}, {"mknod", 1, 0},	{"mknodat", 2, 0},
	{"creat", 1, 0}, {"open", 2, 1},    {"openat", 3, 2},
};

static int refuse_bit(scmp_filter_ctx ctx, size_t i, unsigned bit)
{
	static const unsigned makes[] = {O_CREAT, O_TMPFILE & ~(unsigned)O_DIRECTORY};
	const struct scmp_arg_cmp mode = SCMP_CMP(givers[i].mode, SCMP_CMP_MASKED_EQ, bit, bit);
	const int nr = seccomp_syscall_resolve_name(givers[i].name);
	const uint32_t no = SCMP_ACT_ERRNO(EPERM);
	int r = 0;

	/* Not known to the library: then the other filter lets nobody call it. */
	if (nr == __NR_SCMP_ERROR)
		return 0;
	if (!givers[i].flags)
		return seccomp_rule_add(ctx, no, nr, 1, mode);
	for (size_t m = 0; r == 0 && m < ARRAY_SIZE(makes); m++)
		r = seccomp_rule_add(
			ctx, no, nr, 2, mode,
			SCMP_CMP(givers[i].flags, SCMP_CMP_MASKED_EQ, makes[m], makes[m]));
	return r;
}

static int build_no_setid(struct sock_fprog *ret_prog)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int r;

	if (!ctx)
		return -ENOMEM;
	/* Its mode is behind a pointer; programs know how to do without it. */
	r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 0);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(givers); i++) {
		r = refuse_bit(ctx, i, S_ISUID);
		if (r == 0)
			r = refuse_bit(ctx, i, S_ISGID);
	}
	if (r == 0)
		r = export(ctx, NULL, 0, ret_prog);
	seccomp_release(ctx);
	return r;
}

static struct sock_fprog made[JAIL_NUSES], made_no_setid;

int jail_seccomp_prepare(enum jail_use use, bool no_setid)
{
	int r = made[use].filter ? 0 : build(use, &made[use]);

	return r == 0 && no_setid && !made_no_setid.filter ? build_no_setid(&made_no_setid) : r;
}

int jail_seccomp_install(enum jail_use use, bool no_setid)
{
	int r = jail_seccomp_prepare(use, no_setid);

	if (r < 0)
		return r;
	if ((no_setid && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &made_no_setid) < 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &made[use]) < 0)
		return -errno;
	return 0;
}
