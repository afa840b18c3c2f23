/* SPDX-License-Identifier: Apache-2.0 */
/* Saying no to what a user wrote: filling in a struct vm_problem. */
#ifndef XSBX_FS_CONFIG_PROBLEM_H
#define XSBX_FS_CONFIG_PROBLEM_H

#include "vm/base/util.h"
#include "vm/vm.h"

/* Something a user wrote, cut short and made printable, for a message. */
struct problem_quoted {
	char text[48];
};

struct problem_quoted problem_quote_bytes(const char *text, size_t len);

/* Likewise for a string; the text lives until the end of the full expression. */
#define problem_quote(str) problem_quote_bytes(str, strlen(str))

/**
 * problem_refuse() - Say what is wrong with something a user wrote
 * @why: Filled in
 * @code: One word
 * @fix: What to write instead
 * @cause: What is wrong, as for printf()
 *
 * Return: -EINVAL, always.
 */
int problem_refuse(struct vm_problem *why, const char *code, const char *fix, const char *cause,
		   ...) printf_like(4, 5);

/* Puts "line N: " in front of the cause. */
void problem_name_line(struct vm_problem *why, unsigned line);

#endif
