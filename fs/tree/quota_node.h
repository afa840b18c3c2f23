/* SPDX-License-Identifier: Apache-2.0 */
/* What a user has, and may have, as JSON; see nodes.h for `quota`. */
#ifndef XSBX_FS_TREE_QUOTA_NODE_H
#define XSBX_FS_TREE_QUOTA_NODE_H

#include <jansson.h>
#include <sys/types.h>

struct fs;

json_t *quota_json(const struct fs *fs, uid_t uid);

#endif
