/* SPDX-License-Identifier: Apache-2.0 */
/* Saved sandboxes: files, and if it was a machine its memory. Part of vm.h. */
#ifndef XSBX_VM_CHECKPOINT_SAVED_H
#define XSBX_VM_CHECKPOINT_SAVED_H

#include <stdbool.h>
#include <stdint.h>

#include "pack.h"

struct point;

/* A sandbox as it was at a moment between two runs. Immutable; any number of sandboxes may begin from it
 * (struct sandbox_spec, `from`). */
struct saved {
	unsigned refs;
	struct pack *pack; /* its files */
	struct point
		*point; /* memory and devices; NULL: files alone, an interpreter is started anew */
};

/* Takes over both references. Return: NULL if out of memory; they are dropped then. */
struct saved *saved_new(struct pack *pack, struct point *point);

struct saved *saved_ref(struct saved *s);

/* Drops a reference; @s may be NULL. Return: NULL. */
struct saved *saved_unref(struct saved *s);

/* What its files lack. */
struct pack_flaws saved_flaws(const struct saved *s);

/* Bytes that it takes, of files and of memory. */
uint64_t saved_files_bytes(const struct saved *s);
uint64_t saved_memory_bytes(const struct saved *s);

#endif
