/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of machines, packed: files in memory, without their holes, compressed. */
#ifndef XSBX_VM_CHECKPOINT_PACKED_RAM_H
#define XSBX_VM_CHECKPOINT_PACKED_RAM_H

#include <stdint.h>

#include "vm/base/sink.h"

/* These take as long as it takes to compress or read all of it: not for the loop's thread. */

/* Packs the first @size bytes of a file. Return: 0 or -errno. */
int packed_ram_write(int from, uint64_t size, struct sink *to);

/* Reads to the end of @from. Return: a sealed file in memory of @size bytes; -EBADMSG if that is not what is there; or another
 * -errno. */
int packed_ram_read(struct source *from, uint64_t size);

#endif
