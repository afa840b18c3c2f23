/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, in words, for whoever reads `error`: a code, the cause, and what to do about it. */
#ifndef XSBX_VM_BASE_PROBLEM_H
#define XSBX_VM_BASE_PROBLEM_H

#include <stdarg.h>

#include "util.h"

/*
 * The error contract
 * ------------------
 * - A function that can fail returns 0 (or something positive) or -errno, and says nothing. Who called it knows
 *   what it was for.
 * - Where the reader of `error` needs more than an errno, a struct problem goes along, as the last argument. It is
 *   filled in by whoever knows the cause, with problem_set() and nothing else, and only if the function fails.
 * - Who is told of a problem may add to its cause (problem_add()), and gives it another code only if that says
 *   more to the user: boot-failed, for whatever it was that a machine died of.
 * - Who decides what becomes of the sandbox, run or session logs it, once, and nobody else does.
 * - For a caller of the kernel an errno is made of it at the very end, in fs/.
 * - Bytes of a guest or of a user are made printable before they come into a cause: problem_quote(), or the tail of
 *   a stream.
 */
struct problem {
	char code[32]; /* "": there is none */
	char cause[1024];
	char fix[512]; /* or "" */
};

/* Codes that are asked for as well as given. */
#define PROBLEM_OOM		"out-of-memory"
#define PROBLEM_NO_JAIL		"no-jail" /* of a sandbox that never began */
#define PROBLEM_IMAGE_MISSING	"image-missing"
#define PROBLEM_PACKAGES_WAIT	"packages-installing"
#define PROBLEM_PACKAGES_FAILED "packages-failed"

/**
 * problem_set() - Say what went wrong
 * @p: Filled in; what it said before is gone
 * @code: One of the table
 * @fix: What to do about it, a sentence to the user, or ""
 * @cause: What happened, as for printf(); cut short if it is too long
 *
 * Return: -EINVAL, always: for whoever refuses what a user wrote.
 */
int problem_set(struct problem *p, const char *code, const char *fix, const char *cause, ...)
	printf_like(4, 5);

/* The same, with the arguments of somebody else. */
void problem_setv(struct problem *p, const char *code, const char *fix, const char *cause,
		  va_list ap) printf_like(4, 0);

/* Appends to the cause as much as fits. */
void problem_add(struct problem *p, const char *fmt, ...) printf_like(2, 3);

/* Puts "line N: " in front of the cause. */
void problem_name_line(struct problem *p, unsigned line);

/* Something a user wrote, cut short and made printable, for a message. */
struct problem_quoted {
	char text[48];
};

struct problem_quoted problem_quote_bytes(const char *text, size_t len);

/* Likewise for a string; the text lives until the end of the full expression. */
#define problem_quote(str) problem_quote_bytes(str, strlen(str))

#endif
