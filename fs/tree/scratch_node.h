/* SPDX-License-Identifier: Apache-2.0 */
/* Open scratch files. */
#ifndef XSBX_FS_TREE_SCRATCH_NODE_H
#define XSBX_FS_TREE_SCRATCH_NODE_H

#include "fs/request/handle.h"

extern const struct handle_ops scratch_ops;

#endif
