/* SPDX-License-Identifier: Apache-2.0 */
/* A seccomp filter for user code. */
#include "filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util.h"

/*
 * Theory of operation
 * -------------------
 * Three things are refused. The first is anything that a process may do to another process of the same
 * user, if that is the agent, which is always process 1: if the daemon is not root, agent and user code
 * share an id, and the kernel would let user code limit, slow down or signal the agent. The numbers of
 * the agent's threads, which wait for locks, are not known in advance. Calls that affect only a thread
 * merely delay the lock that it waits for; the agent ignores signals, as process 1; and for calls that
 * need more than the id, user code lacks the agent's capabilities. That leaves limits, which apply to a
 * whole process given the number of any thread: so user code can't set limits of other processes, not
 * even of its own children. The second, in guests, are the parts of the kernel that programs in a
 * sandbox don't need and in which most vulnerabilities were found, including calls that need privileges
 * which user code does not have, and the system calls of other architectures, which are not in the
 * lists below. The third, in jails, are what the agent needs and user code does not, other processes' descriptors,
 * and further filters: the kernel has one memory limit for all
 * programs of this kind. Those are refused as by a kernel without filters, which programs that confine
 * themselves can handle.
 *
 * It is a list of what is refused, not of what is allowed: the kernel belongs to the guest, and ordinary
 * programs, including debuggers, should work as usual. A refusal is EPERM, or EAFNOSUPPORT for a socket,
 * which also occur elsewhere.
 */

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#define X32_BIT	    0x40000000u
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#error "name this architecture's AUDIT_ARCH"
#endif

#define LOW(n)	 ((uint32_t)offsetof(struct seccomp_data, args[n])) /* both are little-endian */
#define HIGH(n)	 (LOW(n) + 4)
#define AGENT	 1u
#define CODE_MAX 512

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* Refused in guests. */
static const int never[] = {
	SYS_bpf,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_userfaultfd,
	SYS_perf_event_open,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	SYS_fanotify_init,
	SYS_fanotify_mark,
	SYS_open_by_handle_at,
	SYS_kexec_load,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_move_mount,
	SYS_open_tree,
	SYS_fsopen,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fspick,
	SYS_mount_setattr,
	SYS_setns,
	SYS_quotactl,
	SYS_quotactl_fd,
	SYS_swapon,
	SYS_swapoff,
	SYS_reboot,
	SYS_acct,
	SYS_syslog,
	SYS_vhangup,
	SYS_settimeofday,
	SYS_clock_settime,
#ifdef __x86_64__
	SYS_kexec_file_load,
	SYS_iopl,
	SYS_ioperm,
	SYS_modify_ldt,
#endif
};

/* The kinds of sockets that guests have a use for. */
static const unsigned families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

/* Their first argument is a process. */
static const int to_a_process[] = {
	SYS_kill,
	SYS_tkill,
	SYS_tgkill,
	SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo,
	SYS_pidfd_open,
	SYS_prlimit64,
	SYS_sched_setaffinity,
	SYS_sched_getaffinity,
	SYS_sched_setscheduler,
	SYS_sched_setparam,
	SYS_sched_setattr,
	SYS_migrate_pages,
	SYS_move_pages,
};

struct program {
	struct sock_filter v[CODE_MAX];
	unsigned short n;
};

static void emit(struct program *p, struct sock_filter one)
{
	if (p->n < CODE_MAX)
		p->v[p->n++] = one;
}

static void load(struct program *p, uint32_t offset)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

/* Skips @yes instructions if what was loaded is @value, else @no. */
static void when(struct program *p, uint32_t value, uint8_t yes, uint8_t no)
{
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no));
}

static void ret(struct program *p, uint32_t action)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* What was loaded afterwards is the number of the system call. */
static void begin(struct program *p)
{
	load(p, offsetof(struct seccomp_data, arch));
	when(p, FILTER_ARCH, 1, 0);
	ret(p, SECCOMP_RET_KILL_PROCESS);
	load(p, offsetof(struct seccomp_data, nr));
#ifdef X32_BIT
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
	ret(p, SECCOMP_RET_ERRNO | ENOSYS);
#endif
}

static void spare_kernel(struct program *p)
{
	const uint8_t n = ARRAY_SIZE(families);

	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		when(p, (uint32_t)never[i], 0, 1);
		ret(p, SECCOMP_RET_ERRNO | EPERM);
	}
	when(p, SYS_socket, 0, (uint8_t)(n + 3));
	load(p, LOW(0));
	for (uint8_t i = 0; i < n; i++)
		when(p, families[i], (uint8_t)(n - i), 0);
	ret(p, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	ret(p, SECCOMP_RET_ALLOW);
}

/* @which says in @user that the call is for all processes of a user, of which the agent may be one. */
static void spare_agent_of(struct program *p, int nr, uint32_t user)
{
	when(p, (uint32_t)nr, 0, 6);
	load(p, LOW(0));
	when(p, user, 2, 0);
	load(p, LOW(1));
	when(p, AGENT, 0, 1);
	ret(p, SECCOMP_RET_ERRNO | EPERM);
	ret(p, SECCOMP_RET_ALLOW);
}

/* Sets no limits but the caller's, which is 0, and does not look at the agent's. */
static void spare_limits(struct program *p)
{
	when(p, SYS_prlimit64, 0, 9);
	load(p, LOW(0));
	when(p, 0, 6, 0);
	when(p, AGENT, 4, 0);
	load(p, LOW(2));
	when(p, 0, 0, 2);
	load(p, HIGH(2));
	when(p, 0, 1, 0);
	ret(p, SECCOMP_RET_ERRNO | EPERM);
	ret(p, SECCOMP_RET_ALLOW);
}

static void spare_agent(struct program *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(to_a_process); i++) {
		when(p, (uint32_t)to_a_process[i], 0, 4);
		load(p, LOW(0));
		when(p, AGENT, 0, 1);
		ret(p, SECCOMP_RET_ERRNO | EPERM);
		ret(p, SECCOMP_RET_ALLOW);
	}
	spare_agent_of(p, SYS_setpriority, PRIO_USER);
	spare_agent_of(p, SYS_ioprio_set, IOPRIO_WHO_USER);
}

static void spare_filters(struct program *p)
{
	when(p, SYS_seccomp, 0, 1);
	ret(p, SECCOMP_RET_ERRNO | ENOSYS);
	when(p, SYS_prctl, 0, 4);
	load(p, LOW(0));
	when(p, PR_SET_SECCOMP, 0, 1);
	ret(p, SECCOMP_RET_ERRNO | EINVAL);
	ret(p, SECCOMP_RET_ALLOW);
}

static void spare_insides(struct program *p)
{
	static const int calls[] = {SYS_pidfd_getfd, SYS_process_vm_readv, SYS_process_vm_writev};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		when(p, (uint32_t)calls[i], 0, 1);
		ret(p, SECCOMP_RET_ERRNO | EPERM);
	}
}

/* Opens to read alone, of what may be a device. @flags: the argument that has them. */
static void listen_to_open(struct program *p, int nr, uint32_t flags)
{
	when(p, (uint32_t)nr, 0, 4);
	load(p, flags);
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K,
					     O_WRONLY | O_RDWR | O_CREAT | O_DIRECTORY | O_PATH, 0,
					     1));
	ret(p, SECCOMP_RET_ALLOW);
	ret(p, SECCOMP_RET_USER_NOTIF);
}

int filter_listen(void)
{
	struct program p = {.n = 0};
	struct sock_fprog prog = {.filter = p.v};
	long fd;

	begin(&p);
	when(&p, SYS_getrandom, 0, 1);
	ret(&p, SECCOMP_RET_USER_NOTIF);
	listen_to_open(&p, SYS_openat, LOW(2));
#ifdef SYS_open
	listen_to_open(&p, SYS_open, LOW(1));
#endif
	/* Threads are no processes; of clone3() a filter can't see what it makes, and libraries do without. */
	when(&p, SYS_clone3, 0, 1);
	ret(&p, SECCOMP_RET_ERRNO | ENOSYS);
	when(&p, SYS_clone, 0, 4);
	load(&p, LOW(0));
	emit(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1));
	ret(&p, SECCOMP_RET_ALLOW);
	ret(&p, SECCOMP_RET_USER_NOTIF);
#ifdef SYS_fork
	when(&p, SYS_fork, 0, 1);
	ret(&p, SECCOMP_RET_USER_NOTIF);
	when(&p, SYS_vfork, 0, 1);
	ret(&p, SECCOMP_RET_USER_NOTIF);
#endif
	when(&p, SYS_mmap, 0, 4);
	load(&p, LOW(3));
	emit(&p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MAP_TYPE));
	when(&p, MAP_DROPPABLE, 0, 1);
	ret(&p, SECCOMP_RET_ERRNO | EINVAL); /* as of a kernel that has none */
	ret(&p, SECCOMP_RET_ALLOW);
	prog.len = p.n;
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		     SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		     &prog);
	if (fd < 0 && errno == EINVAL) /* before Linux 5.19 */
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			     &prog);
	return (int)fd;
}

bool filter_still_waits(int listener, uint64_t id)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

int filter_confine(unsigned what)
{
	struct program p = {.n = 0};
	struct sock_fprog prog = {.filter = p.v};

	begin(&p);
	if (what & FILTER_KERNEL)
		spare_kernel(&p);
	if (what & FILTER_FILTERS)
		spare_filters(&p);
	if (what & FILTER_INSIDES)
		spare_insides(&p);
	if (what & FILTER_LIMITS)
		spare_limits(&p);
	if (what & FILTER_AGENT)
		spare_agent(&p);
	ret(&p, SECCOMP_RET_ALLOW);
	if (p.n == CODE_MAX) {
		errno = E2BIG;
		return -1;
	}
	prog.len = p.n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}
