/* SPDX-License-Identifier: Apache-2.0 */
/* What is saved, in a record: it becomes another daemon's. Part of vm.h. */
#ifndef XSBX_VM_CHECKPOINT_SAVED_RECORD_H
#define XSBX_VM_CHECKPOINT_SAVED_RECORD_H

#include <errno.h>
#include <stdbool.h>

#include "vm/base/fdbag.h"
#include "vm/base/record.h"

struct saved;
struct layers;
struct pack;
struct vault;

/* Files that were taken out of a bag, by their number: others may have the same ones, as a session that sleeps as a checkpoint is,
 * and was reset. Zeroed at first. */
struct saved_packs {
	struct saved_pack_taken {
		unsigned number;
		struct pack *pack; /* reference */
	} * at;
	size_t n;
};

/* All records were read. */
void saved_packs_drop(struct saved_packs *p);

/* Appends its fields; its files and memory go along. Return: 0, -ENOMEM. */
int saved_put(const struct saved *s, struct buf *out, struct fdbag *fds);

/* @vault: what is kept on the disk, or NULL. @packs: of all records of one bag. Return: 0; -EBADMSG; -ENOENT: the packages of its
 * memory are gone, or it is not on the disk; -ENOMEM, -errno. @died: who has left it has it no more, and what is not had now is
 * lost: what is on the disk by a name keeps it then, whatever it can't be read for (vault_stand_in()), unless that
 * saved_take_passes(). */
int saved_take(struct vault *vault, struct layers *layers, struct saved_packs *packs,
	       struct record_reader fields, struct fdbag *fds, bool died, struct saved **ret_saved);

/* Does this error of its say nothing of what was saved, and may be over when it is tried once more? */
static inline bool saved_take_passes(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE;
}

#endif
