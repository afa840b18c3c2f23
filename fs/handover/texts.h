/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow, as records. */
#ifndef XSBX_FS_HANDOVER_TEXTS_H
#define XSBX_FS_HANDOVER_TEXTS_H

#include "fs/request/touched.h"
#include "fs/request/trail.h"
#include "sink.h"
#include "vm/base/record.h"

struct fs;

/* Writes those that are not written yet; gives them an id. @at: position of the first. Return: 0 or
 * -errno. */
int texts_put(struct handover_sink *sink, struct touched *touched, struct trail *t, uint64_t at,
	      const char *bytes, size_t len);
/* There are none, or they are somewhere else. */
void texts_forget(struct handover_sink *sink, struct trail *t);

/* Reads one piece, before whoever has the bytes. Return: 0, -EBADMSG, -ENOMEM. */
int texts_get(struct fs *fs, uint64_t id, struct record_reader fields);
/* All of trail->id from @at on, which are @len; replaces what is in @dest. Return: likewise. */
int texts_take(struct fs *fs, struct trail *trail, uint64_t at, size_t len, struct buf *dest);
/* Likewise all of them, as long as the first position is 0. */
int texts_take_all(struct fs *fs, struct trail *trail, struct buf *dest);
/* Frees what nobody has taken. */
void texts_clear(struct fs *fs);

#endif
