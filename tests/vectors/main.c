/* SPDX-License-Identifier: Apache-2.0 */
/* Does this processor compute what others do? Prints a checksum for each instruction it has. */
#include <assert.h>
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vectors.h"

/*
 * Theory of operation
 * -------------------
 * Each instruction of the table is put together as machine code, once for each of the processor's registers and
 * for operands in memory, and called with all registers filled in a way that is the same everywhere. What
 * all registers and the memory hold afterwards goes into one checksum. Two processors that print the same line
 * compute the same; emulated ones are compared with the host's that way.
 *
 * Everything lies at a fixed address, because some of it ends up in registers. Instructions whose
 * results are left to the maker of the processor (approximations) are not in the table.
 */

#define AREA	    0x10000000ul
#define AREA_SIZE   0x200000ul
#define DATA	    (AREA + 0x100000ul) /* an operand in memory */
#define TABLE	    (DATA + 0x1000ul)	/* the middle of what is gathered from */
#define TABLE_LEN   0x400u		/* bytes, on either side of it */
#define ROUNDS	    4u
#define BASE	    3u /* rbx holds the address of the table */
#define STACK	    4u /* rsp is not ours to change */
#define REGISTERS   16u

#define FLAGS_ALL   0x8d5u /* OF SF ZF AF PF CF */
#define FLAGS_CARRY 0x41u  /* ZF CF */

struct state {
	uint64_t vector[REGISTERS][4];
	uint64_t general[REGISTERS];
	uint64_t flags;
};

static_assert(offsetof(struct state, general) == 512, "as the assembler below has it");
static_assert(offsetof(struct state, flags) == 640, "as the assembler below has it");

void run_sse(struct state *s, const void *code);
void run_avx(struct state *s, const void *code);

/* Fills all registers from the state, calls the code, and stores them again. */
#define RUN(name, move, stride, end)                                                       \
	__asm__(".text\n"                                                                  \
		".globl " name "\n" name ":\n"                                             \
		"	push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n" \
		"	push %rdi\n push %rsi\n"                                                 \
		".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"           \
		"	" move " 32*\\i(%rdi), %" stride "\\i\n"                           \
		".endr\n"                                                                  \
		"	push 640(%rdi)\n popfq\n"                                                \
		"	mov 512(%rdi), %rax\n mov 520(%rdi), %rcx\n mov 528(%rdi), %rdx\n"       \
		"	mov 536(%rdi), %rbx\n mov 552(%rdi), %rbp\n mov 560(%rdi), %rsi\n"       \
		".irp i, 8, 9, 10, 11, 12, 13, 14, 15\n"                                   \
		"	mov 512+8*\\i(%rdi), %r\\i\n"                                            \
		".endr\n"                                                                  \
		"	mov 568(%rdi), %rdi\n"                                                   \
		"	call *(%rsp)\n"                                                          \
		"	push %rax\n pushfq\n mov 24(%rsp), %rax\n"                               \
		"	mov %rcx, 520(%rax)\n mov %rdx, 528(%rax)\n mov %rbx, 536(%rax)\n"       \
		"	mov %rbp, 552(%rax)\n mov %rsi, 560(%rax)\n mov %rdi, 568(%rax)\n"       \
		".irp i, 8, 9, 10, 11, 12, 13, 14, 15\n"                                   \
		"	mov %r\\i, 512+8*\\i(%rax)\n"                                            \
		".endr\n"                                                                  \
		"	pop 640(%rax)\n pop 512(%rax)\n"                                         \
		".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"           \
		"	" move " %" stride "\\i, 32*\\i(%rax)\n"                           \
		".endr\n" end "	add $16, %rsp\n"                                           \
		"	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"       \
		"	ret\n")

RUN("run_sse", "movdqu", "xmm", "");
RUN("run_avx", "vmovdqu", "ymm", "	vzeroupper\n");

/* ---- what there is ---- */

static const char *const feature_str[] = {
	[NONE] = "none",     [SSE2] = "sse2",	[SSSE3] = "ssse3",     [SSE41] = "sse4_1",
	[SSE42] = "sse4_2",  [AES] = "aes",	[PCLMUL] = "pclmul",   [SHA] = "sha",
	[POPCNT] = "popcnt", [LZCNT] = "lzcnt", [ADX] = "adx",	       [BMI1] = "bmi1",
	[BMI2] = "bmi2",     [AVX] = "avx",	[AVX2] = "avx2",       [F16C] = "f16c",
	[FMA] = "fma",	     [VAES] = "vaes",	[VPCLMUL] = "vpclmul", [GFNI] = "gfni",
};
static_assert(sizeof(feature_str) / sizeof(feature_str[0]) == NFEATURES, "a name for each");

static bool has[NFEATURES];

static bool system_saves_avx(void)
{
	uint32_t low, high;

	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low & 6) == 6;
}

static void look(void)
{
	unsigned a, b, c = 0, d = 0, b7 = 0, c7 = 0, d7, ce = 0;
	bool avx;

	__get_cpuid(1, &a, &b, &c, &d);
	__get_cpuid_count(7, 0, &a, &b7, &c7, &d7);
	__get_cpuid(0x80000001, &a, &b, &ce, &d7);
	avx = c & bit_OSXSAVE && c & bit_AVX && system_saves_avx();
	has[SSE2] = d & bit_SSE2 && c & bit_SSE3;
	has[SSSE3] = c & bit_SSSE3;
	has[SSE41] = c & bit_SSE4_1;
	has[SSE42] = c & bit_SSE4_2;
	has[AES] = c & bit_AES;
	has[PCLMUL] = c & bit_PCLMUL;
	has[SHA] = b7 & bit_SHA;
	has[POPCNT] = c & bit_POPCNT;
	has[LZCNT] = ce & bit_LZCNT;
	has[ADX] = b7 & bit_ADX;
	has[BMI1] = b7 & bit_BMI;
	has[BMI2] = b7 & bit_BMI2;
	has[AVX] = avx;
	has[AVX2] = avx && b7 & bit_AVX2;
	has[F16C] = avx && c & bit_F16C;
	has[FMA] = avx && c & bit_FMA;
	has[VAES] = avx && c7 & bit_VAES;
	has[VPCLMUL] = avx && c7 & bit_VPCLMULQDQ;
	has[GFNI] = avx && c7 & bit_GFNI;
}

/* ---- machine code ---- */

enum width { LEGACY, NARROW, WIDE };

/* Which registers, and what else is chosen. */
struct choice {
	unsigned reg, v, rm;
	bool memory; /* r/m is at DATA */
	uint8_t imm;
};

static bool takes_memory(const struct instruction *in)
{
	return in->form == LOAD || in->form == STORE || in->form == GATHER;
}

static uint8_t *put_disp(uint8_t *p, bool has_imm)
{
	/* From the end of the instruction. */
	const int32_t disp = (int32_t)((intptr_t)DATA - (intptr_t)(p + 4) - has_imm);

	memcpy(p, &disp, sizeof(disp));
	return p + sizeof(disp);
}

/* Prefixes and opcode. */
static uint8_t *put_opcode(uint8_t *p, const struct instruction *in, enum width width, unsigned reg,
			   unsigned v, unsigned index, unsigned rm)
{
	static const uint8_t prefixes[] = {[P_66] = 0x66, [P_F3] = 0xf3, [P_F2] = 0xf2};
	const uint8_t rex = (uint8_t)(in->w << 3 | (reg >> 3) << 2 | (index >> 3) << 1 | (rm >> 3));

	if (width == LEGACY) {
		if (in->prefix != P_NO)
			*p++ = prefixes[in->prefix];
		if (rex)
			*p++ = 0x40 | rex;
		*p++ = 0x0f;
		if (in->map != M_0F)
			*p++ = in->map == M_0F38 ? 0x38 : 0x3a;
	} else {
		*p++ = 0xc4;
		*p++ = (uint8_t)((~rex & 7) << 5 | in->map);
		*p++ = (uint8_t)(in->w << 7 | (~v & 15) << 3 | (width == WIDE) << 2 | in->prefix);
	}
	*p++ = in->opcode;
	return p;
}

/* One instruction, and a return. */
static uint8_t *put(uint8_t *p, const struct instruction *in, enum width width,
		    const struct choice *c)
{
	const bool has_imm = in->form == RMI || in->form == RVMI || in->form == RVMX ||
			     in->form == MRI || in->form == VMI;
	const bool has_v = in->form == RVM || in->form == RVMI || in->form == RVMX ||
			   in->form == RMV || in->form == VM || in->form == VMI || takes_memory(in);
	const unsigned reg = in->form == VM || in->form == VMI ? in->extension : c->reg;
	const unsigned v = has_v ? c->v : 0;

	if (in->form == NOTHING) {
		p = put_opcode(p, in, width, 0, 0, 0, 0);
	} else if (in->form == GATHER) {
		p = put_opcode(p, in, width, reg, v, c->rm, BASE);
		*p++ = (uint8_t)((reg & 7) << 3 | 4);
		*p++ = (uint8_t)((c->imm & 3) << 6 | (c->rm & 7) << 3 | BASE);
	} else if (c->memory) {
		p = put_opcode(p, in, width, reg, v, 0, 0);
		*p++ = (uint8_t)((reg & 7) << 3 | 5);
		p = put_disp(p, has_imm);
	} else {
		p = put_opcode(p, in, width, reg, v, 0, c->rm);
		*p++ = (uint8_t)(0xc0 | (reg & 7) << 3 | (c->rm & 7));
	}
	if (has_imm)
		*p++ = c->imm;
	*p++ = 0xc3;
	return p;
}

/* ---- what registers hold ---- */

static uint8_t *area; /* at AREA */

static uint64_t seed;

static uint64_t random64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint32_t a_single(unsigned round)
{
	static const uint32_t special[] = {
		0,	    0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0x4b000001, 0x4f000000,
		0xcf000000, 0x00000001, 0x807fffff, 0x7f800000, 0xff800000, 0x7fc00000};
	const uint64_t r = random64();
	const size_t n = sizeof(special) / sizeof(special[0]) - (round < ROUNDS - 1 ? 3 : 0);

	if (r % 4 == 0)
		return special[(r >> 8) % n];
	/* Of like sizes, so that sums and comparisons mean something. */
	return (uint32_t)((r >> 32 & 0x807fffff) | (0x78 + (r >> 8 & 15)) << 23);
}

static uint64_t a_double(unsigned round)
{
	static const uint64_t special[] = {
		0,
		1ull << 63,
		0x3ff0000000000000,
		0xbff0000000000000,
		0x3fe0000000000000,
		0x41e0000000000000,
		0xc1e0000000000000,
		0x43e0000000000000,
		0x0000000000000001,
		0x800fffffffffffff,
		0x7ff0000000000000,
		0xfff0000000000000,
		0x7ff8000000000000,
	};
	const uint64_t r = random64();
	const size_t n = sizeof(special) / sizeof(special[0]) - (round < ROUNDS - 1 ? 3 : 0);

	if (r % 4 == 0)
		return special[(r >> 8) % n];
	return (random64() & 0x800fffffffffffff) | (0x3f8 + (r >> 8 & 15)) << 52;
}

static uint64_t lane(enum input input, unsigned round)
{
	if (input == SINGLES) {
		const uint64_t low = a_single(round);

		return low | (uint64_t)a_single(round) << 32;
	}
	return input == DOUBLES ? a_double(round) : random64();
}

static uint64_t a_count(unsigned round)
{
	const uint64_t r = random64();

	return (r & 0x3f) | (round & 1 ? (r >> 8 & 0x3f) << 32 | (r >> 16 & 0x3f) << 8 : 0);
}

/* An index of what lies around TABLE, or two. */
static uint64_t an_index(bool two)
{
	const uint64_t r = random64();
	const int64_t low = (int64_t)(r & 127) - 64, high = (int64_t)(r >> 8 & 127) - 64;

	return two ? (uint32_t)low | (uint64_t)high << 32 : (uint64_t)low;
}

static void fill(struct state *s, const struct instruction *in, const struct choice *c,
		 unsigned round)
{
	uint64_t *const memory = (uint64_t *)(void *)(area + (DATA - AREA));

	for (unsigned i = 0; i < REGISTERS; i++) {
		for (unsigned k = 0; k < 4; k++)
			s->vector[i][k] = lane(in->input, round);
		s->general[i] = random64();
	}
	for (unsigned k = 0; k < 4; k++)
		memory[k] = in->input == COUNTS ? a_count(round) : lane(in->input, round);
	if (in->input == COUNTS) {
		const unsigned counts = in->form == RMV ? c->v : c->rm;

		for (unsigned k = 0; k < 4; k++)
			s->vector[counts][k] = a_count(round);
		s->general[counts] = a_count(round);
	}
	if (in->form == RMV && in->input == COUNTS)
		memory[0] = random64();
	if (in->form == GATHER) {
		for (unsigned k = 0; k < 4; k++)
			s->vector[c->rm][k] = an_index(!(in->opcode & 1));
		s->general[BASE] = TABLE;
	}
	s->flags = 0x202 | (round & 1) | (round & 2) << 10;
}

/* ---- the trial ---- */

static uint64_t sum;

static void add(const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len--)
		sum = (sum ^ *p++) * 0x100000001b3ull;
}

static void try_choice(const struct instruction *in, enum width width, const struct choice *c)
{
	void (*const run)(struct state *, const void *) = width == LEGACY ? run_sse : run_avx;
	struct state s;

	for (unsigned round = 0; round < ROUNDS; round++) {
		/* So that each can be repeated alone. */
		seed = 0x9e3779b97f4a7c15ull + c->reg * 4099u + c->rm * 257u + c->v * 31u + round;
		random64();
		fill(&s, in, c, round);
		run(&s, area);
		for (unsigned i = 0; i < REGISTERS; i++)
			add(s.vector[i], width == LEGACY ? 16 : 32);
		s.general[STACK] = 0;
		add(s.general, sizeof(s.general));
		add(area + (DATA - AREA), 32);
		s.flags &= in->flags & FLAGS ? FLAGS_ALL : in->flags & CARRY ? FLAGS_CARRY : 0;
		add(&s.flags, sizeof(s.flags));
	}
}

static unsigned pick(unsigned n, bool general)
{
	n %= REGISTERS;
	return general && n == STACK ? STACK + 1 : n;
}

/* Each register in each place; or all of them the same, which a gather can't have. */
static void try_all(const struct instruction *in, enum width width)
{
	const unsigned turns = in->form == GATHER ? REGISTERS * (REGISTERS - 2) : REGISTERS * 3;

	for (unsigned i = 0; i < turns; i++) {
		const unsigned step = i / REGISTERS, far = in->form == GATHER ? step + 1 : 2;
		const unsigned near = in->form == GATHER && far == 1 ? 2 : 1;
		const bool alike = step == 2 && in->form != GATHER;
		const struct choice c = {
			.reg = pick(i, in->flags & GENERAL),
			.v = pick(alike ? i : i + near, in->flags & GENV),
			.rm = pick(alike ? i : i + far, in->flags & GENRM),
			.memory = in->form == LOAD || in->form == STORE ||
				  (step == 1 && in->form != VMI && !(in->flags & NOMEM)),
			.imm = (uint8_t)(i * 37 + 3),
		};

		(void)put(area, in, width, &c);
		try_choice(in, width, &c);
	}
}

static const char *volatile at = "the beginning";

static void on_signal(int number)
{
	(void)number;
	(void)!write(STDERR_FILENO, at, strlen(at));
	(void)!write(STDERR_FILENO, ": died\n", 7);
	_exit(1);
}

static void try_instruction(const struct instruction *in)
{
	static const char *const width_str[] = {"", "v", "v256."};
	const enum feature needs[] = {in->legacy, in->narrow, in->wide};

	for (enum width w = LEGACY; w <= WIDE; w++) {
		if (!has[needs[w]])
			continue;
		at = in->name;
		sum = 0xcbf29ce484222325ull;
		try_all(in, w);
		printf("%s %s%s %016llx\n", feature_str[needs[w]], width_str[w], in->name,
		       (unsigned long long)sum);
	}
}

int main(void)
{
	area = mmap((void *)AREA, AREA_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (area != (void *)AREA) {
		fprintf(stderr, "no memory at a fixed address: %s\n", strerror(errno));
		return 1;
	}
	signal(SIGILL, on_signal);
	signal(SIGSEGV, on_signal);
	look();
	seed = 1;
	for (size_t i = 0; i < 2 * TABLE_LEN; i += sizeof(uint64_t)) {
		const uint64_t r = random64();

		memcpy(area + (TABLE - AREA) - TABLE_LEN + i, &r, sizeof(r));
	}
	for (enum feature f = NONE + 1; f < NFEATURES; f++)
		printf("%s: %s\n", feature_str[f], has[f] ? "yes" : "no");
	for (size_t i = 0; i < ninstructions; i++)
		try_instruction(&instructions[i]);
	return 0;
}
