/* SPDX-License-Identifier: Apache-2.0 */
/* Points at which tests end the daemon. There are none but in the build for tests: see tests/unit/fixture/aim.c. */
#ifndef XSBX_VM_BASE_AIM_H
#define XSBX_VM_BASE_AIM_H

#include "util.h"

/*
 * What is to be true at any instruction is tested at those where it matters: between two steps that must not be seen apart. A point
 * is a word or two, and each step of the trace (log_trace()) is one as well, by its text. Sources that have points include this, and
 * are compiled a second time for the tests, with XSBX_LOCAL_BACKEND.
 */
#ifdef XSBX_LOCAL_BACKEND
void aim_at(const char *fmt, ...) printf_like(1, 2);
#else
printf_like(1, 2) static inline void aim_at(const char *fmt, ...)
{
	(void)fmt;
}
#endif

#endif
