/* SPDX-License-Identifier: Apache-2.0 */
/* The table of instructions to test, and processor features. */
#ifndef XSBX_TESTS_VECTORS_VECTORS_H
#define XSBX_TESTS_VECTORS_VECTORS_H

#include <stddef.h>
#include <stdint.h>

enum feature {
	NONE, /* there is no such form */
	SSE2,
	SSSE3,
	SSE41,
	SSE42,
	AES,
	PCLMUL,
	SHA,
	POPCNT,
	LZCNT,
	ADX,
	BMI1,
	BMI2,
	AVX,
	AVX2,
	F16C,
	FMA,
	VAES,
	VPCLMUL,
	GFNI,
	NFEATURES,
};

/* The operands, in the order of the manuals: R is ModRM's reg, M its r/m, V the one in VEX.vvvv, X one in
 * the immediate, I an immediate. Without VEX, what would be V is R. */
enum form { RM, RMI, RVM, RVMI, RVMX, RMV, MR, MRI, VM, VMI, GATHER, LOAD, STORE, NOTHING, NFORMS };

enum prefix { P_NO, P_66, P_F3, P_F2 };
enum map { M_0F = 1, M_0F38, M_0F3A };

/* The initial content of registers. */
enum input { INTEGERS, SINGLES, DOUBLES, HALVES, COUNTS, NINPUTS };

#define GENERAL 1u  /* reg is a general register */
#define GENRM	2u  /* r/m is */
#define GENV	4u  /* vvvv is */
#define FLAGS	8u  /* the flags are a result, all six */
#define CARRY	16u /* only CF and ZF are */
#define NOMEM	32u /* no operand can be in memory */
#define ALLGEN	(GENERAL | GENRM | GENV)

struct instruction {
	const char *name;
	enum feature legacy, narrow, wide; /* without VEX, with 128, with 256 bits */
	enum form form;
	enum prefix prefix;
	enum map map;
	uint8_t opcode, w, extension; /* `extension` is in reg, where the form has no R */
	enum input input;
	unsigned flags;
};

extern const struct instruction instructions[];
extern const size_t ninstructions;

#endif
