/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, for readers of `error`: a code, the cause, and what to do about it. */
#ifndef XSBX_VM_BASE_PROBLEM_H
#define XSBX_VM_BASE_PROBLEM_H

#include <stdarg.h>
#include <stdbool.h>

#include "problem_codes.h"
#include "util.h"

/*
 * The error contract
 * ------------------
 * Who returns -errno. A function that can fail returns 0 (or a positive value) or -errno, and logs
 * nothing: its caller knows what it was for. On failure its outputs (ret_...) are not modified.
 *
 * Who fills in a problem. Where the reader of `error` needs more than an errno, a struct problem is
 * passed as the last argument. The function that knows the cause fills it in, with problem_set()
 * and nothing else, and only if it fails; a fixed text may be a constant. Callers may add to the
 * cause (problem_add()), and replace the code only if another one tells the user more
 * (problem_wrap()): boot-failed, whatever a machine died of. Bytes from a guest or a user are made
 * printable before they become part of a cause: problem_quote(), or tail_quote().
 *
 * Who decides. A problem is passed up, by return or callback, to the owner of what failed: the
 * build queue, the pool, the sandbox, the session. The owner decides: retry, fall back to something
 * else, or give up.
 *
 * Who logs. The owner that decides, once, and nobody below it. If many wait for what failed (an
 * image, packages, QEMU's answer, the spawner), its owner logs the cause and sets `logged` in the
 * problem; those who wait then log only that they have ended because of it. A failed attempt is
 * logged at level info if another one follows. What a user is refused is reported to that user in
 * `error`, and not logged.
 *
 * Only fs/ turns a problem into an errno, when it replies to the kernel.
 *
 * Codes are made by the daemon, for users: they are read from nothing but its own records, by name,
 * and never from a peer. The agent sends an errno and a text, from which the guest makes a problem.
 */
struct problem {
	enum problem_code code;
	char cause[1024];
	char fix[512]; /* or "" */
	bool logged;   /* the owner of what failed has logged the cause */
};

/* The name of @code as in `error`; "" for PROBLEM_NONE. */
const char *problem_code_str(enum problem_code code);

/* The code of that name, of a record (record.h); PROBLEM_FAILED if there is none of it in this
 * version. */
enum problem_code problem_code_find(const char *name);

/**
 * problem_set() - Describe what went wrong
 * @p: Overwritten; its old texts may be arguments
 * @code: Kind of problem
 * @fix: What to do about it, a sentence addressed to the user, or ""
 * @cause: What happened, as for printf(); truncated if it is too long
 *
 * Return: always -EINVAL, a convenience for parsers of user input.
 */
int problem_set(struct problem *p, enum problem_code code, const char *fix, const char *cause, ...)
	printf_like(4, 5);

/* The same, with a va_list. */
void problem_setv(struct problem *p, enum problem_code code, const char *fix, const char *cause,
		  va_list ap) printf_like(4, 0);

/* Replaces @p by what tells the user more, its cause being part of the new one: whether that was
 * logged is kept. */
void problem_wrap(struct problem *p, enum problem_code code, const char *fix, const char *cause,
		  ...) printf_like(4, 5);

/* Appends to the cause, as much as fits. */
void problem_add(struct problem *p, const char *fmt, ...) printf_like(2, 3);

/* @more is so as well: its cause behind that of @p, or all of it where there is none yet. */
void problem_also(struct problem *p, const struct problem *more);

/* Appends to `fix`, or leaves it unchanged if the whole text does not fit. */
void problem_add_fix(struct problem *p, const char *fmt, ...) printf_like(2, 3);

/* The same with a sentence of its own: what is there is ended first, whatever it ends with. */
void problem_advise(struct problem *p, const char *fmt, ...) printf_like(2, 3);

/* Prepends "line N: " to the cause. */
void problem_name_line(struct problem *p, unsigned line);

/* A problem that there mostly is not, and that takes no memory then. All zeroes is none. */
struct problem_kept {
	struct problem *there;
};

/* Copies @p; NULL, or one without a code: none. */
void problem_keep(struct problem_kept *k, const struct problem *p);
/* Return: it, or one without a code; until the next change. */
const struct problem *problem_kept(const struct problem_kept *k);

/* User input, shortened and made printable, for a message. */
struct problem_quoted {
	char text[48];
};

struct problem_quoted problem_quote_bytes(const char *text, size_t len);

/* The same for a string; the result is valid until the end of the full expression. */
#define problem_quote(str) problem_quote_bytes(str, strlen(str))

#endif
