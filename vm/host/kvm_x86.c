/* SPDX-License-Identifier: Apache-2.0 */
/* The guest that KVM is tried with, for x86-64: with page tables, segments and an interrupt table. See kvm.c. */
#if defined(__x86_64__)
#include "kvm_trial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "vm/base/util.h"

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
#define NOISE_TICKS 20000

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

static void put64(struct trial *t, uint32_t at, uint64_t value)
{
	memcpy(t->memory + at, &value, sizeof(value));
}

void trial_load(struct trial *t)
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
		.rip = AT_CODE, .rsp = AT_STACK, .rsi = AT_FPU, .r13 = TRIAL_LOOPS, .rflags = 2};
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

int trial_begin(struct trial *t)
{
	const int r = set_features(t);

	return r < 0 ? r : set_registers(t);
}

bool trial_reported(struct trial *t, uint64_t *ret_ticks)
{
	const struct kvm_run *r = t->run;
	struct kvm_regs regs = {0};

	if (r->exit_reason != KVM_EXIT_IO || r->io.port != REPORT_PORT ||
	    *((const uint8_t *)r + r->io.data_offset) != REPORT_GOOD ||
	    ioctl(t->vcpu, KVM_GET_REGS, &regs) < 0)
		return false;
	*ret_ticks = regs.rbx;
	return true;
}

const char *trial_stage(struct trial *t)
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

uint64_t trial_host_loop(void)
{
	const uint64_t start = __builtin_ia32_rdtsc();
	uint64_t n = TRIAL_LOOPS, sum = 0;

	__asm__ volatile("1:	add	%0, %1\n"
			 "	dec	%0\n"
			 "	jnz	1b\n"
			 : "+r"(n), "+r"(sum));
	return __builtin_ia32_rdtsc() - start;
}

uint64_t trial_noise(void)
{
	return NOISE_TICKS;
}

#endif
