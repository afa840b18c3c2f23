/* SPDX-License-Identifier: Apache-2.0 */
/* `from = SESSION[@CHECKPOINT]`: what a session begins as a copy of. */
#ifndef XSBX_FS_CONFIG_FROM_H
#define XSBX_FS_CONFIG_FROM_H

#include <stdbool.h>
#include <stddef.h>

struct problem;

#define FROM_MAX 256 /* bytes of the value, terminated */

struct from {
	char template[65];		  /* empty: its own */
	char session[65], checkpoint[65]; /* empty: as it is now */
};

/**
 * from_find() - Find the last line `from = VALUE` of settings
 * @text: As settings_parse() has it
 * @len: Its length
 * @ret_value: The value
 *
 * Return: whether there is one. What is too long for a value is cut, and makes none that from_parse() takes.
 */
bool from_find(const char *text, size_t len, char ret_value[static FROM_MAX]);

/* Return: 0, -EINVAL with @why. */
int from_parse(const char *value, struct from *ret_from, struct problem *why);

#endif
