/* SPDX-License-Identifier: Apache-2.0 */
/* The `doctor` and `isolation` nodes. */
#ifndef XSBX_FS_TREE_REPORT_H
#define XSBX_FS_TREE_REPORT_H

#include "fs/config/daemon.h"
#include "fs/session/node.h"

int report_doctor(const struct node *n, struct buf *out);
int report_isolation(const struct node *n, struct buf *out);

/**
 * report_check() - Produce the output of `xsbxfs --check`, without a mount
 * @conf: Configuration
 * @out: The output is appended here
 * @ret_failed: True if a check has failed
 *
 * Return: 0 or -errno.
 */
int report_check(const struct conf *conf, struct buf *out, bool *ret_failed);

/* The kernel's limit on how long a FUSE request may take, in seconds; 0: none. */
unsigned report_request_timeout(void);

#endif
