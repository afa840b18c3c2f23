/* SPDX-License-Identifier: Apache-2.0 */
/* Host paths that are visible in a template's sandboxes: the keys `ro`, `rw` and `work`. */
#ifndef XSBX_FS_CONFIG_PATHS_H
#define XSBX_FS_CONFIG_PATHS_H

#include <stdbool.h>

#include "vm/base/buf.h"
#include "vm/vm.h"

/**
 * paths_set() - Set the value of `ro` or `rw` from the configuration
 * @s: Its paths of this key are replaced by those in @value, with links resolved
 * @write: `rw`
 * @value: PATH[:TARGET], separated by blanks; "" for none
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @s unchanged, -ENOMEM.
 */
int paths_set(struct sandbox_spec *s, bool write, const char *value, struct problem *why);

/* The same for `work`: one directory. */
int paths_set_work(struct sandbox_spec *s, const char *value, struct problem *why);

/* Appends `ro` or `rw` in a form that paths_set() accepts. Return: as buf_append(). */
int paths_print(const struct sandbox_spec *s, bool write, struct buf *out);

/* Are its paths possible with its other settings? Return: 0, or -EINVAL with @why filled in. */
int paths_fit(const struct sandbox_spec *s, struct problem *why);

#endif
