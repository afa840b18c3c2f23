/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: parts of the kernel that had many holes, sockets that are not for programs, the host. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/fanotify.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include "probe.h"

#define UFFD_USER_ONLY 1
#define KLOG_SIZE      10
#define NR_IA32_GETPID 20
#define NR_CACHESTAT   451 /* newer than many headers, and the same everywhere */

/* A call with arguments that are wrong: who may not make it is told so first. */
static int reached(long r)
{
	return r < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES) ? -errno : 0;
}

/* ---- large parts ---- */

static int bpf_map(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};

	return probe_result(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
}

static int bpf_program(void)
{
	/* r0 = 0; exit */
	const struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
					{.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
			       .insn_cnt = 2,
			       .insns = (uintptr_t)code,
			       .license = (uintptr_t) "GPL"};

	return probe_result(syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)));
}

static int io_uring(void)
{
	char params[256] = {0}; /* a struct io_uring_params, whatever the headers' age */

	return probe_result(syscall(SYS_io_uring_setup, 1, params));
}

static int userfaultfd(void)
{
	return probe_result(syscall(SYS_userfaultfd, O_CLOEXEC));
}

static int userfaultfd_user_only(void)
{
	return probe_result(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_ONLY));
}

static int perf(uint32_t type, uint64_t config, pid_t pid, int cpu)
{
	struct perf_event_attr attr = {.size = sizeof(attr), .type = type, .config = config};

	attr.exclude_kernel = pid == 0;
	return probe_result(syscall(SYS_perf_event_open, &attr, pid, cpu, -1, 0));
}

static int perf_self(void)
{
	return perf(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 0, -1);
}

static int perf_all(void)
{
	return perf(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, -1, 0);
}

static int fanotify(void)
{
	return probe_result(syscall(SYS_fanotify_init, FAN_CLASS_NOTIF, O_RDONLY));
}

static int add_key(void)
{
	return probe_result(
		syscall(SYS_add_key, "user", "probe", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

static int request_key(void)
{
	return reached(syscall(SYS_request_key, "user", "probe-none", NULL, 0));
}

static int keyctl_session(void)
{
	return probe_result(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1));
}

static int secret_memory(void)
{
	return probe_result(syscall(SYS_memfd_secret, 0));
}

static int numa(void)
{
	return probe_result(syscall(SYS_set_mempolicy, 0, NULL, 0));
}

/* Of these the whole host has a number. */
static int aio(void)
{
	unsigned long context = 0;

	return probe_result(syscall(SYS_io_setup, 1, &context));
}

/* What is not open can't be written out, if anything is. */
static int sync_all(void)
{
	return syncfs(-1) < 0 && errno == EBADF ? 0 : -EPERM;
}

/* Which of the host's programs have been read lately. */
static int page_cache(void)
{
	const int fd = open("/usr/bin/env", O_RDONLY | O_CLOEXEC);
	uint64_t range[2] = {0, 4096}, stat[5];

	return fd < 0 ? -errno : probe_result(syscall(NR_CACHESTAT, fd, range, stat, 0));
}

/* ---- another way to make calls ---- */

#ifdef __x86_64__
static int getpid_by_int80(void)
{
	long r = NR_IA32_GETPID;

	__asm__ volatile("int $0x80" : "+a"(r) : : "r8", "r9", "r10", "r11", "memory");
	errno = (int)-r;
	return r > 0 ? 0 : -errno;
}

static int getpid_by_x32(void)
{
	return probe_result(syscall(0x40000000 | SYS_getpid));
}

static int local_descriptors(void)
{
	return probe_result(syscall(SYS_modify_ldt, 0, NULL, 0));
}

static int ports(void)
{
	return probe_result(syscall(SYS_ioperm, 0x80, 1, 1));
}

static int all_ports(void)
{
	return probe_result(syscall(SYS_iopl, 3));
}
#endif

/* ---- sockets ---- */

static int raw_ip(void)
{
	return probe_result(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1));
}

static int raw_ip6(void)
{
	return probe_result(socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 58));
}

static int packets(void)
{
	return probe_result(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
}

static int cooked_packets(void)
{
	return probe_result(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

static int netfilter(void)
{
	return probe_result(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
}

static int audit(void)
{
	return probe_result(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_AUDIT));
}

static int events_of_devices(void)
{
	return probe_result(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT));
}

static int crypto(void)
{
	return probe_result(socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

static int vsock(void)
{
	return probe_result(socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int express(void)
{
	return probe_result(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
}

/* ---- the host ---- */

static int module_load(void)
{
	return reached(syscall(SYS_init_module, NULL, 0, ""));
}

static int module_unload(void)
{
	return reached(syscall(SYS_delete_module, "no_such_module", O_NONBLOCK));
}

static int kexec(void)
{
	return reached(syscall(SYS_kexec_load, 0, 1 << 20, NULL, ~0ul));
}

/* The first magic number is wrong. */
static int power(void)
{
	return reached(syscall(SYS_reboot, 0, 0, RB_AUTOBOOT, NULL));
}

static int swap(void)
{
	return reached(syscall(SYS_swapoff, "/no-such-swap"));
}

static int accounting(void)
{
	return reached(syscall(SYS_acct, "/no/such/file"));
}

static int quotas(void)
{
	return reached(syscall(SYS_quotactl, 0xffffffff, "/no", 0, NULL));
}

/* To the pace that it has. */
static int clock_pace(void)
{
	struct timex t = {0};

	if (adjtimex(&t) < 0)
		return -errno;
	t.modes = ADJ_TICK;
	return probe_result(adjtimex(&t));
}

static int host_name(void)
{
	char name[65];

	if (gethostname(name, sizeof(name)) < 0)
		return -errno;
	return probe_result(sethostname(name, strlen(name)));
}

static int kernel_log(void)
{
	return probe_result(klogctl(KLOG_SIZE, NULL, 0));
}

static int hang_up(void)
{
	return probe_result(syscall(SYS_vhangup));
}

const struct probe kernel_probes[] = {
	{"bpf-map", bpf_map},
	{"bpf-program", bpf_program},
	{"io-uring", io_uring},
	{"userfaultfd", userfaultfd},
	{"userfaultfd-user-only", userfaultfd_user_only},
	{"perf-self", perf_self},
	{"perf-all", perf_all},
	{"fanotify", fanotify},
	{"add-key", add_key},
	{"request-key", request_key},
	{"keyctl", keyctl_session},
	{"memfd-secret", secret_memory},
	{"set-mempolicy", numa},
	{"aio", aio},
	{"sync", sync_all},
	{"cachestat", page_cache},
#ifdef __x86_64__
	{"int80", getpid_by_int80},
	{"x32", getpid_by_x32},
	{"modify-ldt", local_descriptors},
	{"ioperm", ports},
	{"iopl", all_ports},
#endif
	{"raw-ip", raw_ip},
	{"raw-ip6", raw_ip6},
	{"packet", packets},
	{"packet-cooked", cooked_packets},
	{"netfilter", netfilter},
	{"audit", audit},
	{"uevent", events_of_devices},
	{"af-alg", crypto},
	{"vsock", vsock},
	{"xdp", express},
	{"init-module", module_load},
	{"delete-module", module_unload},
	{"kexec", kexec},
	{"reboot", power},
	{"swapoff", swap},
	{"acct", accounting},
	{"quotactl", quotas},
	{"adjtimex", clock_pace},
	{"sethostname", host_name},
	{"syslog", kernel_log},
	{"vhangup", hang_up},
};
const size_t n_kernel_probes = sizeof(kernel_probes) / sizeof(kernel_probes[0]);
