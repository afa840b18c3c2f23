/* SPDX-License-Identifier: Apache-2.0 */
/* What is saved, in a record: it becomes another daemon's. Part of vm.h. */
#ifndef XSBX_VM_CHECKPOINT_SAVED_RECORD_H
#define XSBX_VM_CHECKPOINT_SAVED_RECORD_H

#include "vm/base/fdbag.h"
#include "vm/base/record.h"

struct saved;
struct layers;
struct vault;

/* Appends its fields; its files and memory go along. Return: 0, -ENOMEM. */
int saved_put(const struct saved *s, struct buf *out, struct fdbag *fds);

/* @vault: what is kept on the disk, or NULL. Return: 0; -EBADMSG; -ENOENT: the packages of its
 * memory are gone, or it is not on the disk; -ENOMEM, -errno. */
int saved_take(struct vault *vault, struct layers *layers, struct record_reader fields,
	       struct fdbag *fds, struct saved **ret_saved);

#endif
