/* SPDX-License-Identifier: Apache-2.0 */
/* The README.md nodes: how to use this mount, generated from its configuration. */
#ifndef XSBX_FS_TREE_HELP_H
#define XSBX_FS_TREE_HELP_H

#include "fs/config/daemon.h"

/* Each appends Markdown text. Return: as buf_append(). */

/* At the root: how to use the mount, at most 60 lines, examples first. */
int help_root(const struct conf *c, struct buf *out);

/* In a template's directory. */
int help_template(const struct conf *c, const struct conf_template *t, struct buf *out);

/* In a session's directory: its nodes and current settings. */
int help_session(const struct conf_template *t, const struct settings *s, struct buf *out);

#endif
