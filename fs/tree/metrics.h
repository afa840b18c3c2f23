/* SPDX-License-Identifier: Apache-2.0 */
/* The `metrics` node: Prometheus text format. */
#ifndef XSBX_FS_TREE_METRICS_H
#define XSBX_FS_TREE_METRICS_H

#include "vm/base/buf.h"
#include "fs/session/node.h"

/* Appends all metrics, in the text exposition format 0.0.4. Return: 0 or -errno. */
int metrics_render(const struct node *n, struct buf *out);

#endif
