/* SPDX-License-Identifier: Apache-2.0 */
/* Bases of points that are in memory, by what is in them: one that is needed is not read again, nor
 * there twice. */
#ifndef XSBX_VM_CHECKPOINT_BASE_TABLE_H
#define XSBX_VM_CHECKPOINT_BASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct ram_base;

TAILQ_HEAD(ram_base_list, ram_base);

/* `bytes`: what its bases take of memory, but for those that others have anyway. */
struct base_table {
	struct ram_base_list list; /* those that were used last are at the end */
	uint64_t bytes;
};

void base_table_init(struct base_table *t);
void base_table_fini(struct base_table *t);

/* @fd: a sealed file in memory, duplicated unless it is known; @sum: of sparse_sum(). @theirs:
 * somebody else has it, and counts it. */
void base_table_add(struct base_table *t, int fd, const char *sum, bool theirs);

/* Return: a descriptor of the table's, or -1. */
int base_table_find(const struct base_table *t, const char *sum);

/* Return: the sum of a file that is known, or NULL. */
const char *base_table_sum(const struct base_table *t, int fd);

/* A point that has it is loaded, and is not any more. */
void base_table_use(struct base_table *t, int fd);
void base_table_leave(struct base_table *t, int fd);

/* Of those that no point has, a few stay. */
void base_table_trim(struct base_table *t);

#endif
