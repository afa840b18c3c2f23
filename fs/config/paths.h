/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of the host that a template shows to its sandboxes: the keys `ro`, `rw` and `work`. */
#ifndef XSBX_FS_CONFIG_PATHS_H
#define XSBX_FS_CONFIG_PATHS_H

#include <stddef.h>

#include "vm/vm.h"
#include "settings.h"

/**
 * paths_set() - Take the value of `ro` or `rw` from the configuration
 * @field: Of struct settings; replaced by the paths as they are found, links resolved
 * @key: For messages
 * @value: PATH[:TARGET] with blanks between them; "" for none
 * @ret_why: Filled in if it fails
 *
 * Return: 0, -EINVAL with @field unchanged, -ENOMEM.
 */
int paths_set(char **field, const char *key, const char *value, struct problem *ret_why);

/* The same for `view`: "host", which is kept as "", or "image". */
int paths_set_view(char **field, const char *value, struct problem *ret_why);

/* The same for `work`: one directory. */
int paths_set_work(char **field, const char *value, struct problem *ret_why);

/* Can a sandbox with these settings have what they show? Return: 0, or -EINVAL with @ret_why filled in. */
int paths_fit(const struct settings *s, struct problem *ret_why);

/* Paths as the seam has them; owns their text. */
struct paths {
	struct vm_path path[VM_PATHS_MAX];
	size_t n;
	char *text[2];
};

/* Return: 0 or -ENOMEM; paths_clear() is due in any case. */
int paths_init(struct paths *p, const struct settings *s);
void paths_clear(struct paths *p);

#endif
