/* SPDX-License-Identifier: Apache-2.0 */
/* The `events` node: the event log, as a file that keeps growing. */
#ifndef XSBX_FS_TREE_EVENTS_NODE_H
#define XSBX_FS_TREE_EVENTS_NODE_H

#include "fs/request/handle.h"

/* A reader that has waited this long without a line gets end of file, so that programs that walk the whole tree are not
 * blocked. */
#define EVENTS_IDLE_S 30u

extern const struct handle_ops events_ops;

/* The size to show: bytes of all lines that are kept. With @h not NULL, relative to its offsets. */
uint64_t events_size(const struct fs *fs, const struct handle *h);

#endif
