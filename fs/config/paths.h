/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of the host that a template shows to its sandboxes: the keys `ro`, `rw` and `work`. */
#ifndef XSBX_FS_CONFIG_PATHS_H
#define XSBX_FS_CONFIG_PATHS_H

#include <stdbool.h>

#include "vm/base/buf.h"
#include "vm/vm.h"

/**
 * paths_set() - Take the value of `ro` or `rw` from the configuration
 * @s: Its paths that are of this key are replaced by those that are named, as they are found, links resolved
 * @write: `rw`
 * @value: PATH[:TARGET] with blanks between them; "" for none
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @s unchanged, -ENOMEM.
 */
int paths_set(struct sandbox_spec *s, bool write, const char *value, struct problem *why);

/* The same for `work`: one directory. */
int paths_set_work(struct sandbox_spec *s, const char *value, struct problem *why);

/* Appends `ro` or `rw` as paths_set() takes it. Return: 0 or what buf_append() said. */
int paths_print(const struct sandbox_spec *s, bool write, struct buf *out);

/* Can a sandbox have what it shows? Return: 0, or -EINVAL with @why filled in. */
int paths_fit(const struct sandbox_spec *s, struct problem *why);

#endif
