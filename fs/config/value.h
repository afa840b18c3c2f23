/* SPDX-License-Identifier: Apache-2.0 */
/* Values of keys as text: read, checked, written. */
#ifndef XSBX_FS_CONFIG_VALUE_H
#define XSBX_FS_CONFIG_VALUE_H

#include "key.h"

/* Reads a value of one of the plain types into @at. Return: as key_set(). */
int value_set(const struct key *k, void *at, const char *value, const struct key_context *ctx,
	      struct problem *why);

/* Return: 0 or what buf_append() said. */
int value_print(const struct key *k, const void *at, struct buf *out);

/* A number that may be kept, but is more than the limit by now: one that nobody chose becomes the limit.
 * Return: 0 or -EINVAL. */
int value_fit(const struct key *k, unsigned *n, const struct settings_limits *limits,
	      struct problem *why);

/* Which of the key's words it is. Return: -EINVAL if it is none. */
int value_word(const struct key *k, const char *value);

/* Puts a copy of @text in the place of what @field, a char *, has. Return: 0 or -ENOMEM. */
int value_keep(void *field, const char *text);

bool value_has_control(const char *text);

/* The home directory, or "/" if there is none. */
const char *value_home(void);

#endif
