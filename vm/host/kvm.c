/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether KVM is usable by running a guest, because opening /dev/kvm proves nothing. */
#include "kvm.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * On some hosts, which are virtual machines themselves, /dev/kvm can be opened and machines can be
 * created, but every instruction of a guest kernel is interpreted, slower than by QEMU, or fails
 * completely. So a very small guest is run through the KVM API: 64-bit code with page tables, segments
 * and an interrupt table, which executes what is known to fail on such hosts and what every kernel
 * executes at boot (restores the FPU's state, takes a breakpoint, counts bits, reads processor
 * features), then measures the time of a loop with its own time stamp counter, repeatedly. It reports by
 * writing to an I/O port.
 *
 * That time is compared with the same loop outside, using the minimum of each: on a busy host most loops
 * are interrupted, and take longer, but not all, as each takes less than a hundredth of a scheduler time
 * slice. If instructions are interpreted, no loop is short.
 *
 * All of it happens in a child process, which may hang in the kernel or die. Its processor time is
 * limited; on a busy host it gets that time late, but does not need more. The result is only undecided if
 * the host does not give it that time at all.
 *
 * The child runs in the same jail as QEMU, so that it has the same permissions.
 */

#define GUEST_SIZE  (2u << 20)
#define AT_PML4	    0x1000u
#define AT_PDPT	    0x2000u
#define AT_PD	    0x3000u
#define AT_GDT	    0x4000u
#define AT_IDT	    0x5000u
#define AT_CODE	    0x6000u
#define AT_FPU	    0x8000u /* a clean FPU state, for FXRSTOR and XRSTOR */
#define AT_STACK    0x10000u
#define REPORT_PORT 0xf1
#define REPORT_GOOD 0x2a
#define LOOPS	    100000u
#define ROUNDS	    64u
#define CPU_MS	    1000  /* processor time for all of it */
#define NOISE_TICKS 20000 /* what reading the counter may cost in a guest */
#define SLOW_FACTOR 10	  /* more than this times the host's own time is not worth it */

#define CR0_PE	    0x1ull
#define CR0_MP	    0x2ull
#define CR0_NE	    0x20ull
#define CR0_WP	    0x10000ull
#define CR0_PG	    0x80000000ull
#define CR4_PAE	    0x20ull
#define CR4_OSFXSR  0x200ull
#define CR4_XMMEXC  0x400ull
#define EFER_LME    0x100ull
#define EFER_LMA    0x400ull

/* The guest's program. Runs with the addresses above in registers: rsi the FPU state, rsp the
 * stack, r13 the loops; r12 counts breakpoints; rbx has the ticks of a loop when it reports. */
enum { IN_XRSTOR, IN_POPCNT, IN_INT3, IN_LOOP, IN_HANDLER, TRIAL_SIZE, TRIAL_NMARKS };
extern const uint8_t trial_code[];
extern const uint32_t trial_marks[TRIAL_NMARKS]; /* where the parts begin */
__asm__(".pushsection .rodata\n"
	"trial_code:\n"
	"	fxrstor (%rsi)\n"
	"	mov	$1, %eax\n"
	"	xor	%ecx, %ecx\n"
	"	cpuid\n"
	"	mov	%ecx, %r14d\n"
	"trial_xrstor:\n"
	"	bt	$26, %r14d\n" /* XSAVE */
	"	jnc	trial_popcnt\n"
	"	mov	%cr4, %rax\n"
	"	or	$0x40000, %eax\n" /* OSXSAVE */
	"	mov	%rax, %cr4\n"
	"	xor	%ecx, %ecx\n"
	"	xor	%edx, %edx\n"
	"	mov	$3, %eax\n"
	"	xsetbv\n"
	"	xrstor	(%rsi)\n"
	"trial_popcnt:\n"
	"	bt	$23, %r14d\n" /* POPCNT */
	"	jnc	trial_int3\n"
	"	popcnt	%r14, %rax\n"
	"trial_int3:\n"
	"	xor	%r12d, %r12d\n"
	"	int3\n"
	"	cmp	$1, %r12d\n"
	"	jne	2f\n"
	"trial_loop:\n"
	"	rdtsc\n"
	"	shl	$32, %rdx\n"
	"	lea	(%rax, %rdx), %rbx\n"
	"	mov	%r13, %rcx\n"
	"1:	add	%rcx, %rax\n"
	"	dec	%rcx\n"
	"	jnz	1b\n"
	"	rdtsc\n"
	"	shl	$32, %rdx\n"
	"	add	%rdx, %rax\n"
	"	sub	%rbx, %rax\n"
	"	mov	%rax, %rbx\n"
	"	mov	$0x2a, %al\n"
	"	out	%al, $0xf1\n"
	"	jmp	trial_loop\n"
	"2:	hlt\n"
	"	jmp	2b\n"
	"trial_handler:\n"
	"	inc	%r12d\n"
	"	iretq\n"
	"trial_end:\n"
	"	.balign	4\n"
	"trial_marks:\n"
	"	.long	trial_xrstor - trial_code, trial_popcnt - trial_code\n"
	"	.long	trial_int3 - trial_code, trial_loop - trial_code\n"
	"	.long	trial_handler - trial_code, trial_end - trial_code\n"
	".popsection\n");

struct trial {
	int kvm, vm, vcpu;
	uint8_t *memory;
	struct kvm_run *run;
};

static void printf_like(3, 4)
	verdict(struct kvm_verdict *v, enum kvm_state state, const char *fmt, ...)
{
	va_list ap;

	memset(v, 0, sizeof(*v));
	v->state = state;
	va_start(ap, fmt);
	vsnprintf(v->why, sizeof(v->why), fmt, ap);
	va_end(ap);
}

void kvm_verdict_none(struct kvm_verdict *ret_verdict, bool late)
{
	if (late)
		verdict(ret_verdict, KVM_UNDECIDED,
			"KVM is there, but this host did not get round to trying it out within %d "
			"s.",
			KVM_PROBE_MS / 1000);
	else
		verdict(ret_verdict, KVM_UNUSABLE, "KVM is there, but trying it out failed.");
}

/* ---- the guest's world ---- */

static void put64(struct trial *t, uint32_t at, uint64_t value)
{
	memcpy(t->memory + at, &value, sizeof(value));
}

static void write_tables(struct trial *t)
{
	const uint64_t handler = AT_CODE + trial_marks[IN_HANDLER];

	put64(t, AT_PML4, AT_PDPT | 3);
	put64(t, AT_PDPT, AT_PD | 3);
	put64(t, AT_PD, 0x83); /* two megabytes from 0 on */
	put64(t, AT_GDT + 0x08, 0x00af9b000000ffffull);
	put64(t, AT_GDT + 0x10, 0x00cf93000000ffffull);
	/* Breakpoint: an interrupt gate to the handler in segment 8. */
	put64(t, AT_IDT + 3 * 16,
	      (handler & 0xffff) | 0x08ull << 16 | 0x8eull << 40 | (handler >> 16 & 0xffff) << 48);
	put64(t, AT_IDT + 3 * 16 + 8, handler >> 32);
	put64(t, AT_FPU, 0x37f);       /* FCW */
	put64(t, AT_FPU + 24, 0x1f80); /* MXCSR */
	put64(t, AT_FPU + 512, 3);     /* XSTATE_BV: x87 and SSE */
	memcpy(t->memory + AT_CODE, trial_code, trial_marks[TRIAL_SIZE]);
}

static int make_vm(struct trial *t)
{
	struct kvm_userspace_memory_region region = {.memory_size = GUEST_SIZE};
	int size;

	t->vm = ioctl(t->kvm, KVM_CREATE_VM, 0);
	if (t->vm < 0)
		return -errno;
	t->memory =
		mmap(NULL, GUEST_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t->memory == MAP_FAILED)
		return -errno;
	region.userspace_addr = (uintptr_t)t->memory;
	if (ioctl(t->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return -errno;
	write_tables(t);
	t->vcpu = ioctl(t->vm, KVM_CREATE_VCPU, 0);
	size = ioctl(t->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (t->vcpu < 0 || size < (int)sizeof(*t->run))
		return -errno;
	t->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, t->vcpu, 0);
	return t->run == MAP_FAILED ? -errno : 0;
}

/* The guest sees all features that KVM offers, as under `-cpu host`. */
static int set_features(struct trial *t)
{
	enum { MAX_LEAVES = 256 };
	_cleanup_free_ struct kvm_cpuid2 *cpuid =
		calloc(1, sizeof(*cpuid) + MAX_LEAVES * sizeof(cpuid->entries[0]));

	if (!cpuid)
		return -ENOMEM;
	cpuid->nent = MAX_LEAVES;
	if (ioctl(t->kvm, KVM_GET_SUPPORTED_CPUID, cpuid) < 0 ||
	    ioctl(t->vcpu, KVM_SET_CPUID2, cpuid) < 0)
		return -errno;
	return 0;
}

static int set_registers(struct trial *t)
{
	const struct kvm_segment code = {
		.limit = ~0u, .selector = 8, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1};
	const struct kvm_segment data = {
		.limit = ~0u, .selector = 16, .type = 3, .present = 1, .s = 1, .db = 1, .g = 1};
	const struct kvm_regs regs = {
		.rip = AT_CODE, .rsp = AT_STACK, .rsi = AT_FPU, .r13 = LOOPS, .rflags = 2};
	struct kvm_sregs s;

	if (ioctl(t->vcpu, KVM_GET_SREGS, &s) < 0)
		return -errno;
	s.cs = code;
	s.ds = s.es = s.fs = s.gs = s.ss = data;
	s.gdt = (struct kvm_dtable){.base = AT_GDT, .limit = 0x17};
	s.idt = (struct kvm_dtable){.base = AT_IDT, .limit = 0xfff};
	s.cr3 = AT_PML4;
	s.cr4 = CR4_PAE | CR4_OSFXSR | CR4_XMMEXC;
	s.cr0 = CR0_PE | CR0_MP | CR0_NE | CR0_WP | CR0_PG;
	s.efer = EFER_LME | EFER_LMA;
	if (ioctl(t->vcpu, KVM_SET_SREGS, &s) < 0 || ioctl(t->vcpu, KVM_SET_REGS, &regs) < 0)
		return -errno;
	return 0;
}

/* ---- the trial ---- */

static volatile sig_atomic_t out_of_time;

static void on_out_of_time(int number)
{
	(void)number;
	out_of_time = 1;
}

/* From now on the processor's time is counted; when it is used up, KVM lets go of the guest. */
static void limit_time(void)
{
	const struct sigaction act = {.sa_handler = on_out_of_time};
	const struct itimerval limit = {.it_value = {CPU_MS / 1000, CPU_MS % 1000 * 1000},
					.it_interval = {0, 100000}};

	sigaction(SIGPROF, &act, NULL);
	setitimer(ITIMER_PROF, &limit, NULL);
}

/* How many ticks the guest's loop takes outside. */
static uint64_t loop_ticks(void)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < ROUNDS && !out_of_time; i++) {
		const uint64_t start = __builtin_ia32_rdtsc();
		uint64_t n = LOOPS, sum = 0, took;

		__asm__ volatile("1:	add	%0, %1\n"
				 "	dec	%0\n"
				 "	jnz	1b\n"
				 : "+r"(n), "+r"(sum));
		took = __builtin_ia32_rdtsc() - start;
		best = MIN(best, took);
	}
	return best;
}

/* Where the guest was, in words. */
static const char *stage(struct trial *t)
{
	struct kvm_regs regs = {0};
	uint64_t at;

	if (ioctl(t->vcpu, KVM_GET_REGS, &regs) < 0)
		return "an unknown instruction";
	at = regs.rip - AT_CODE;
	if (at < trial_marks[IN_XRSTOR])
		return "FXRSTOR or CPUID";
	if (at < trial_marks[IN_POPCNT])
		return "switching XSAVE on, or XRSTOR";
	if (at < trial_marks[IN_INT3])
		return "POPCNT";
	if (at < trial_marks[IN_LOOP])
		return "a breakpoint";
	return at < trial_marks[IN_HANDLER] ? "a loop" : "a breakpoint's handler";
}

/* Runs the guest up to its next report. Return: false, with a verdict, if there was none. */
static bool run_round(struct trial *t, uint64_t *ret_ticks, struct kvm_verdict *v)
{
	const struct kvm_run *r = t->run;
	struct kvm_regs regs = {0};
	int n;

	assert(r);
	do
		n = ioctl(t->vcpu, KVM_RUN, 0);
	while (n < 0 && errno == EINTR && !out_of_time);
	if (n < 0 && out_of_time)
		verdict(v, KVM_UNUSABLE,
			"KVM is there, but a trial guest computed for %d ms and came to no end, at "
			"%s.",
			CPU_MS, stage(t));
	else if (n < 0)
		verdict(v, KVM_UNUSABLE, "KVM is there, but it does not run a guest: %s.",
			strerror(errno));
	else if (r->exit_reason != KVM_EXIT_IO || r->io.port != REPORT_PORT ||
		 *((const uint8_t *)r + r->io.data_offset) != REPORT_GOOD ||
		 ioctl(t->vcpu, KVM_GET_REGS, &regs) < 0)
		verdict(v, KVM_UNUSABLE,
			"KVM is there, but a trial guest failed at %s (%s), so a kernel would too.",
			stage(t),
			r->exit_reason == KVM_EXIT_INTERNAL_ERROR ? "internal error of KVM"
								  : "the guest stopped");
	*ret_ticks = regs.rbx;
	return !v->why[0];
}

/* Until a loop was about as short as outside. */
static void run(struct trial *t, struct kvm_verdict *v)
{
	const uint64_t host = loop_ticks();
	uint64_t best = UINT64_MAX, ticks;

	for (unsigned i = 0; i < ROUNDS && !out_of_time; i++) {
		if (!run_round(t, &ticks, v))
			return;
		best = MIN(best, ticks);
		if (best <= host * SLOW_FACTOR + NOISE_TICKS) {
			verdict(v, KVM_USABLE, "KVM works: a trial guest ran at the host's speed.");
			return;
		}
	}
	verdict(v, KVM_UNUSABLE,
		"KVM is there, but a trial guest ran %llu times slower than the host.",
		(unsigned long long)(best / host));
}

static void try_kvm(struct kvm_verdict *v)
{
	struct trial t = {.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC)};
	int r;

	if (t.kvm < 0 && errno == ENOENT)
		verdict(v, KVM_UNUSABLE, "This host has no KVM (/dev/kvm does not exist).");
	else if (t.kvm < 0)
		verdict(v, errno == EACCES || errno == EPERM ? KVM_DENIED : KVM_UNUSABLE,
			"KVM is there, but QEMU may not open /dev/kvm: %s.", strerror(errno));
	else if (ioctl(t.kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		verdict(v, KVM_UNUSABLE, "KVM is there, but its interface is not the known one.");
	if (v->why[0])
		return;
	r = make_vm(&t);
	if (r == 0)
		r = set_features(&t);
	if (r == 0)
		r = set_registers(&t);
	if (r < 0)
		verdict(v, KVM_UNUSABLE, "KVM is there, but it can't make a machine: %s.",
			strerror(-r));
	else
		run(&t, v);
}

static const char *const wish_str[] = {
	[ACCEL_AUTO] = "auto", [ACCEL_KVM] = "kvm", [ACCEL_TCG] = "tcg"};
static_assert(ARRAY_SIZE(wish_str) == ACCEL_NWISHES, "a name for each wish");

int accel_wish_parse(const char *name, enum accel_wish *ret_wish)
{
	for (unsigned i = 0; i < ACCEL_NWISHES; i++) {
		if (strcmp(name, wish_str[i]) == 0) {
			*ret_wish = i;
			return 0;
		}
	}
	return -EINVAL;
}

void kvm_probe_child(int fd)
{
	struct kvm_verdict v = {0};

	limit_time();
	try_kvm(&v);
	(void)!write(fd, &v, sizeof(v));
	_exit(0);
}
