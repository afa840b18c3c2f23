/* SPDX-License-Identifier: Apache-2.0 */
/* Packs on disk. */
#ifndef XSBX_VM_CHECKPOINT_PACK_FILE_H
#define XSBX_VM_CHECKPOINT_PACK_FILE_H

#include "pack_maker.h"

/* Both take as long as it takes to compress or read all of it: not for the loop's thread. A pack may be written by another thread
 * while it is used by the loop's, which has to hold a reference meanwhile. */

/* Writes a pack at the current offset of @fd. Return: 0 or -errno. */
int pack_store(const struct pack *p, int fd);

/**
 * pack_load() - Read a pack
 * @fd: Where pack_store() has begun to write it; it is read to its end
 * @limits: What it may be
 * @ret_pack: The pack; the reference is the caller's
 *
 * Return: 0; -EBADMSG if it is none, is damaged, or of another version; -EFBIG, -ENOMEM, or another -errno.
 */
int pack_load(int fd, const struct pack_limits *limits, struct pack **ret_pack);

#endif
