/* SPDX-License-Identifier: Apache-2.0 */
/* The guest that KVM is tried with, for arm64: at EL1, without translation of addresses. See kvm.c. */
#if defined(__aarch64__)
#include "kvm_trial.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#include "vm/base/util.h"

#define AT_CODE	   0x1000u
#define AT_VECTORS 0x8000u
#define AT_SYNC	   (AT_VECTORS + 0x200u) /* for what comes from EL1 itself, with its own stack */
#define AT_REPORT  0x10000000u		 /* no memory is there */
#define NOISE_US   10			 /* what reading the counter may cost in a guest */
#define US_PER_SEC 1000000u

/*
 * The guest's program, with x13 the loops, x20 the vectors, x21 where it reports; x12 counts breakpoints. Only
 * instructions are cached, so that the loop runs as fast as outside: for data that takes page tables.
 */
enum { IN_FLOAT, IN_BREAK, IN_LOOP, IN_HANDLER, TRIAL_SIZE, TRIAL_NMARKS };
/* Hidden: addresses of labels are not taken from the table of what is global, where the linker would have them wrong. */
extern const uint8_t trial_code[] __attribute__((visibility("hidden")));
extern const uint32_t trial_marks[TRIAL_NMARKS]
	__attribute__((visibility("hidden"))); /* where the parts begin */
__asm__(".pushsection .rodata\n"
	"	.balign	8\n"
	"trial_code:\n"
	"	mrs	x0, id_aa64pfr0_el1\n"
	"	mrs	x1, id_aa64isar0_el1\n"
	"	mrs	x0, sctlr_el1\n"
	"	orr	x0, x0, #0x1000\n" /* I */
	"	msr	sctlr_el1, x0\n"
	"	isb\n"
	"trial_float:\n"
	"	mov	x0, #0x300000\n" /* FPEN */
	"	msr	cpacr_el1, x0\n"
	"	isb\n"
	"	fmov	d0, #1.0\n"
	"	fadd	d0, d0, d0\n"
	"trial_break:\n"
	"	msr	vbar_el1, x20\n"
	"	isb\n"
	"	mov	x12, #0\n"
	"	brk	#0\n"
	"	cmp	x12, #1\n"
	"	b.ne	2f\n"
	"trial_loop:\n"
	"	isb\n"
	"	mrs	x1, cntvct_el0\n"
	"	mov	x2, x13\n"
	"1:	add	x3, x3, x2\n"
	"	subs	x2, x2, #1\n"
	"	b.ne	1b\n"
	"	isb\n"
	"	mrs	x4, cntvct_el0\n"
	"	sub	x4, x4, x1\n"
	"	str	x4, [x21]\n"
	"	b	trial_loop\n"
	"2:	str	wzr, [x21]\n"
	"	b	2b\n"
	"trial_handler:\n"
	"	add	x12, x12, #1\n"
	"	mrs	x0, elr_el1\n"
	"	add	x0, x0, #4\n"
	"	msr	elr_el1, x0\n"
	"	eret\n"
	"trial_end:\n"
	"	.balign	4\n"
	"trial_marks:\n"
	"	.long	trial_float - trial_code, trial_break - trial_code\n"
	"	.long	trial_loop - trial_code, trial_handler - trial_code\n"
	"	.long	trial_end - trial_code\n"
	".popsection\n");

static uint64_t counter(void)
{
	uint64_t n;

	__asm__ volatile("isb\n	mrs	%0, cntvct_el0" : "=r"(n));
	return n;
}

/* A register's number, for KVM. */
#define CORE(member)                                           \
	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | \
	 (offsetof(struct kvm_regs, member) / sizeof(uint32_t)))

static int set(struct trial *t, uint64_t id, uint64_t value)
{
	const struct kvm_one_reg reg = {.id = id, .addr = (uintptr_t)&value};

	return ioctl(t->vcpu, KVM_SET_ONE_REG, &reg) < 0 ? -errno : 0;
}

void trial_load(struct trial *t)
{
	const uint32_t handler = trial_marks[IN_HANDLER];

	memcpy(t->memory + AT_CODE, trial_code, handler);
	memcpy(t->memory + AT_SYNC, trial_code + handler, trial_marks[TRIAL_SIZE] - handler);
}

int trial_begin(struct trial *t)
{
	const struct {
		uint64_t id, value;
	} regs[] = {
		{CORE(regs.pc), AT_CODE},
		{CORE(regs.regs[13]), TRIAL_LOOPS},
		{CORE(regs.regs[20]), AT_VECTORS},
		{CORE(regs.regs[21]), AT_REPORT},
	};
	struct kvm_vcpu_init init = {0};
	int r = 0;

	if (ioctl(t->vm, KVM_ARM_PREFERRED_TARGET, &init) < 0 ||
	    ioctl(t->vcpu, KVM_ARM_VCPU_INIT, &init) < 0)
		return -errno;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(regs); i++)
		r = set(t, regs[i].id, regs[i].value);
	return r;
}

bool trial_reported(struct trial *t, uint64_t *ret_ticks)
{
	const struct kvm_run *r = t->run;

	if (r->exit_reason != KVM_EXIT_MMIO || r->mmio.phys_addr != AT_REPORT ||
	    !r->mmio.is_write || r->mmio.len != sizeof(*ret_ticks))
		return false;
	memcpy(ret_ticks, r->mmio.data, sizeof(*ret_ticks));
	return true;
}

const char *trial_stage(struct trial *t)
{
	uint64_t at = 0;
	const struct kvm_one_reg pc = {.id = CORE(regs.pc), .addr = (uintptr_t)&at};

	if (ioctl(t->vcpu, KVM_GET_ONE_REG, &pc) < 0)
		return "an unknown instruction";
	if (at >= AT_VECTORS)
		return "a breakpoint's handler";
	at -= AT_CODE;
	if (at < trial_marks[IN_FLOAT])
		return "reading processor features";
	if (at < trial_marks[IN_BREAK])
		return "floating point";
	return at < trial_marks[IN_LOOP] ? "a breakpoint" : "a loop";
}

uint64_t trial_host_loop(void)
{
	const uint64_t start = counter();
	uint64_t n = TRIAL_LOOPS, sum = 0;

	__asm__ volatile("1:	add	%1, %1, %0\n"
			 "	subs	%0, %0, #1\n"
			 "	b.ne	1b\n"
			 : "+r"(n), "+r"(sum)
			 :
			 : "cc");
	return counter() - start;
}

uint64_t trial_noise(void)
{
	uint64_t hz;

	__asm__("mrs	%0, cntfrq_el0" : "=r"(hz));
	return hz / US_PER_SEC * NOISE_US;
}

#endif
