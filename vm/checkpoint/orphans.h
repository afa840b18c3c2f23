/* SPDX-License-Identifier: Apache-2.0 */
/* What is on the disk, and nobody has: for a while, for it may be named in what was written there before. */
#ifndef XSBX_VM_CHECKPOINT_ORPHANS_H
#define XSBX_VM_CHECKPOINT_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vault_disk.h"

/* Embedded by the vault; see vault_mark(). A name is in it once. */
struct orphans {
	uint64_t mark; /* the last one */
	TAILQ_HEAD(orphan_list, orphan) list;
};

void orphans_init(struct orphans *o);
void orphans_clear(struct orphans *o);

/* From now on. Without memory for it, it goes at the next start. */
void orphans_add(struct orphans *o, const char *name);

bool orphans_has(const struct orphans *o, const char *name);

/* Somebody has it again: it stays on the disk. */
void orphans_adopt(struct orphans *o, const char *name);

/* Those of @from as well, which are others, and which has none then. */
void orphans_join(struct orphans *o, struct orphans *from);

/* Takes those that were before @mark. Return: how many, with *@ret_names, to be freed; 0: none, or out of memory: none is taken. */
size_t orphans_take(struct orphans *o, uint64_t mark, char (**ret_names)[VAULT_NAME_MAX]);

#endif
