/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, in words: filling in a struct vm_problem. */
#ifndef XSBX_VM_BASE_PROBLEM_H
#define XSBX_VM_BASE_PROBLEM_H

#include "util.h"

struct vm_problem;

/* The code of a problem that is a want of memory: a run that ends with it is out of memory. */
#define TROUBLE_OOM	"out-of-memory"

/* That of a sandbox that never began, because its jail could not be made. */
#define TROUBLE_NO_JAIL "no-jail"

/* Sets all three; @fmt makes the cause. */
void trouble_set(struct vm_problem *p, const char *code, const char *fix, const char *fmt, ...)
	printf_like(4, 5);

/* Appends to the cause as much as fits. */
void trouble_add(struct vm_problem *p, const char *fmt, ...) printf_like(2, 3);

#endif
