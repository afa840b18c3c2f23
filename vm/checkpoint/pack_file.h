/* SPDX-License-Identifier: Apache-2.0 */
/* Packs on disk. */
#ifndef XSBX_VM_CHECKPOINT_PACK_FILE_H
#define XSBX_VM_CHECKPOINT_PACK_FILE_H

#include "pack_maker.h"
#include "vm/base/sink.h"

/* Both take as long as it takes to compress or read all of it: not for the loop's thread. A pack
 * may be written by another thread while it is used by the loop's, which has to hold a reference
 * meanwhile. */

/* Return: 0 or -errno. */
int pack_store(const struct pack *p, struct sink *to);

/**
 * pack_load() - Read a pack
 * @from: What pack_store() has written; it is read to its end
 * @limits: What it may be
 * @ret_pack: The pack; the reference is the caller's
 *
 * Return: 0; -EBADMSG if it is none, or is damaged; -EPROTONOSUPPORT: it is of another version;
 * -EFBIG, -ENOMEM, or another -errno.
 */
int pack_load(struct source *from, const struct pack_limits *limits, struct pack **ret_pack);

#endif
