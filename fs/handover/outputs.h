/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of runs, as records: block by block. */
#ifndef XSBX_FS_HANDOVER_OUTPUTS_H
#define XSBX_FS_HANDOVER_OUTPUTS_H

#include "fs/session/run.h"
#include "sink.h"
#include "vm/base/record.h"

struct fs;

/* Writes the blocks of an output that are not written yet. Return: its id; 0: it belongs into the
 * run's record; or -errno. */
int outputs_put(struct handover_sink *sink, const struct run *r, struct spool *sp,
		uint64_t *ret_id);
/* Writes a block that is in an output already: it is on the disk now. Return: 0 or -errno. */
int outputs_put_block(struct handover_sink *sink, struct block *b);

/* Reads one block, before the run. Return: 0, -EBADMSG, -ENOMEM. */
int outputs_get(struct fs *fs, uint64_t id, struct record_reader fields);
/* All of those that were read of the output sp->id are put behind those that it has. Return:
 * likewise. */
int outputs_take(struct fs *fs, struct spool *sp);
/* Frees what nobody has taken. */
void outputs_clear(struct fs *fs);

#endif
