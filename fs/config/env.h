/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a session: the env.NAME part of its settings. For settings.c only. */
#ifndef XSBX_FS_CONFIG_ENV_H
#define XSBX_FS_CONFIG_ENV_H

#include "settings.h"

/**
 * env_set() - Add a variable, or give it another value
 * @s: Owns its variables
 * @name: Without the "env." in front
 * @value: Text; one pair of double quotes around it is taken off
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @s unchanged, -ENOMEM.
 */
int env_set(struct sandbox_spec *s, const char *name, const char *value, struct problem *why);

/* Removes the variable @key, written "env.NAME". Removing what is not there is no error: the result
 * is what was asked for. Return: 0 or -EINVAL. */
int env_unset(struct sandbox_spec *s, const char *key, struct problem *why);

/* Return: how long names and values are, in all. */
size_t env_bytes(const struct sandbox_spec *s);

/* Appends `env.NAME = value` lines. Return: 0 or what buf_append() said. */
int env_render(const struct sandbox_spec *s, struct buf *out);

/* The same names and values, in any order? */
bool env_same(const struct sandbox_spec *a, const struct sandbox_spec *b);

#endif
