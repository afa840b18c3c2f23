/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, in words, for whoever reads `error`: a code, the cause, and what to do about it. */
#ifndef XSBX_VM_BASE_PROBLEM_H
#define XSBX_VM_BASE_PROBLEM_H

#include <stdarg.h>
#include <stdbool.h>

#include "problem_codes.h"
#include "util.h"

/*
 * The error contract
 * ------------------
 * Who returns -errno. A function that can fail returns 0 (or something positive) or -errno, and says nothing: who
 * called it knows what it was for. What it was to hand out (ret_...) stays as it was.
 *
 * Who fills in a problem. Where the reader of `error` needs more than an errno, a struct problem goes along, as the
 * last argument. It is filled in by whoever knows the cause, with problem_set() and nothing else, and only if the
 * function fails; words that never change may be a constant. Who is told of a problem may add to its cause
 * (problem_add()), and gives it another code only if that says more to the user: boot-failed, for whatever it was that
 * a machine died of. Bytes of a guest or of a user are made printable before they come into a cause:
 * problem_quote(), or the tail of a stream.
 *
 * Who decides. A problem goes up, by return or by callback, to what owns the thing that failed: the build queue, the
 * pool, the sandbox, the session. That one decides what becomes of it: another attempt, another way, or the end.
 *
 * Who logs. Whoever decides, once, and nobody else: not who returned the errno, and not who filled in the problem. If
 * many wait for what failed (an image, packages, QEMU's answer, the spawner), its owner logs the cause and says so in
 * the problem (`logged`); each of those who wait then logs no more than that it ended of this. What an attempt failed
 * of is information, if there is another one. What a user is refused is told to him, in `error`, and to no log.
 *
 * For a caller of the kernel an errno is made of it at the very end, in fs/.
 *
 * Codes are written by the daemon and read by nobody but users: no file and no peer of ours brings any, and the agent
 * sends an errno and words, which a guest makes a problem of.
 */
struct problem {
	enum problem_code code;
	char cause[1024];
	char fix[512]; /* or "" */
	bool logged;   /* by the owner of what failed, with the cause */
};

/* The name of @code in `error`; of PROBLEM_NONE "". */
const char *problem_code_str(enum problem_code code);

/**
 * problem_set() - Say what went wrong
 * @p: Filled in; what it said before is gone, but may be an argument
 * @code: What kind of thing it is
 * @fix: What to do about it, a sentence to the user, or ""
 * @cause: What happened, as for printf(); cut short if it is too long
 *
 * Return: -EINVAL, always: for whoever refuses what a user wrote.
 */
int problem_set(struct problem *p, enum problem_code code, const char *fix, const char *cause, ...)
	printf_like(4, 5);

/* The same, with the arguments of somebody else. */
void problem_setv(struct problem *p, enum problem_code code, const char *fix, const char *cause,
		  va_list ap) printf_like(4, 0);

/* Appends to the cause as much as fits. */
void problem_add(struct problem *p, const char *fmt, ...) printf_like(2, 3);

/* Appends to what to do about it, or leaves that as it is if it doesn't fit: half a sentence is none. */
void problem_add_fix(struct problem *p, const char *fmt, ...) printf_like(2, 3);

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
