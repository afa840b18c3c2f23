/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on files that were saved: of checkpoints, and of sessions that are asleep. */
#ifndef XSBX_FS_FILES_PACKED_H
#define XSBX_FS_FILES_PACKED_H

#include <stdbool.h>
#include <stdint.h>

struct file_op;
struct file_was;
struct pack;
struct problem;
struct saved;
struct vm_file;

/* Does it only read, and no lock? */
bool packed_reads(const struct vm_file *rq);

/* Answers a request that only reads; the caller frees it. Its node is that of an entry of @pack. */
void packed_answer(struct file_op *op, const struct pack *pack);

/* What is known of a saved file by which it can be found again. Return: to be freed by the caller; NULL if out of memory, or of one
 * that no path leads to. */
struct file_was *packed_was(const struct pack *pack, uint32_t entry);

/* Holds it until the files of @saved are in memory, which are not; then calls @loaded, unless it
 * was interrupted or given up before. */
void packed_load(struct file_op *op, struct saved *saved,
		 void (*loaded)(struct file_op *op, const struct problem *why));

#endif
