/* SPDX-License-Identifier: Apache-2.0 */
/* Parses, checks and prints values of keys. */
#ifndef XSBX_FS_CONFIG_VALUE_H
#define XSBX_FS_CONFIG_VALUE_H

#include "key.h"

/* Parses a value of a plain type into @at. Return: as key_set(). */
int value_set(const struct key *k, void *at, const char *value, const struct key_context *ctx,
	      struct problem *why);

/* Return: as buf_append(). */
int value_print(const struct key *k, const void *at, struct buf *out);

/* Lowers a number to the limit, if it exceeds that. Return: did it? */
bool value_lower(const struct key *k, void *at, const struct settings_limits *limits);

/* Checks a valid number against the limit; a default that exceeds it is lowered.
 * Return: 0 or -EINVAL. */
int value_fit(const struct key *k, void *at, const struct settings_limits *limits,
	      struct problem *why);

/* Return: the index of @value in the key's words, or -EINVAL. */
int value_word(const struct key *k, const char *value);

/* Replaces the string at @field, a char *, by a copy of @text. Return: 0 or -ENOMEM. */
int value_keep(void *field, const char *text);

bool value_has_control(const char *text);

/* The home directory, or "/" if there is none. */
const char *value_home(void);

#endif
