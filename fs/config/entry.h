/* SPDX-License-Identifier: Apache-2.0 */
/* Where jobs begin and what they execute unless they say so: an image's working directory and entry point. */
#ifndef XSBX_FS_CONFIG_ENTRY_H
#define XSBX_FS_CONFIG_ENTRY_H

#include "settings.h"

#define ENTRY_PATH_MAX 4095u
#define ENTRY_WORD_MAX \
	131072u /* one word, with its end: the kernel's MAX_ARG_STRLEN, with pages of 4 KiB */
#define ENTRY_WORDS_MAX 65536u

/* Is it absolute, or below files/? Return: 0 or -EINVAL. */
int entry_check_cwd(const char *cwd, struct problem *why);

/* Can a program be given these words, with a NUL behind each? Return: 0 or -EINVAL. */
int entry_check_argv(const struct buf *words, struct problem *why);

/**
 * entry_set_cwd() - Set where jobs begin
 * @s: Settings
 * @value: A path; "" is files/
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @s unchanged, -ENOMEM.
 */
int entry_set_cwd(struct settings *s, const char *value, struct problem *why);

/* Sets what a job executes that has neither code nor argv: words as in words.h; "" is nothing. Return: likewise. */
int entry_set_argv(struct settings *s, const char *value, struct problem *why);

/* Appends the words of what entry_set_argv() has set. Return: 0 or -ENOMEM. */
int entry_argv(const struct settings *s, struct buf *out);

#endif
