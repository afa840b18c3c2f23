/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes see of the host beside their template's paths while they learn: `allow_learn` and `learn_paths`. */
#ifndef XSBX_FS_CONFIG_LEARN_H
#define XSBX_FS_CONFIG_LEARN_H

#include <stddef.h>

#include "vm/vm.h"

struct problem;

/**
 * learn_find() - Find out which paths that are
 * @text: PATH[:TARGET], separated by blanks; "" or NULL: the directories at the top of the host that a sandbox has not, and homes
 * @ret: Gets them as its paths; zeroed
 * @why: Filled in if it fails
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int learn_find(const char *text, struct sandbox_spec *ret, struct problem *why);

/**
 * learn_view() - The paths of a template's sandboxes that learn
 * @base: The template's
 * @learn: As found
 * @ret: VM_PATHS_MAX of them, whose strings are those of the two
 *
 * What the template shows comes last, on top. Return: how many.
 */
size_t learn_view(const struct sandbox_spec *base, const struct sandbox_spec *learn,
		  struct vm_path ret[VM_PATHS_MAX]);

#endif
