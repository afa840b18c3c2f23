/* SPDX-License-Identifier: Apache-2.0 */
/* The `events` node: the event log, as a file that goes on. */
#ifndef XSBX_FS_TREE_EVENTS_NODE_H
#define XSBX_FS_TREE_EVENTS_NODE_H

#include "fs/request/handle.h"

/* A reader that has waited this long without a line gets end of file, so that a program which walks the whole tree gets
 * past it. */
#define EVENTS_IDLE_S 30u

extern const struct handle_ops events_ops;

/* The size to show: bytes of all lines that are kept. For @h, if not NULL, as its offsets count. */
uint64_t events_size(const struct fs *fs, const struct handle *h);

#endif
