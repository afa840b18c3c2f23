/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on files that were saved: of checkpoints, and of sessions that are asleep. */
#ifndef XSBX_FS_FILES_PACKED_H
#define XSBX_FS_FILES_PACKED_H

#include <stdbool.h>

struct file_op;
struct pack;
struct vm_file;

/* Does it only read, and no lock? */
bool packed_reads(const struct vm_file *rq);

/* Answers a request that only reads; the caller frees it. Its node is that of an entry of @pack. */
void packed_answer(struct file_op *op, const struct pack *pack);

#endif
