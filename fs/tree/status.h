/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON nodes: `status.json` at three levels, and `template.json`. */
#ifndef XSBX_FS_TREE_STATUS_H
#define XSBX_FS_TREE_STATUS_H

#include "fs/config/daemon.h"

struct fs;
struct run;
struct session;

/* Digits of a number that is no integer: times to tens of microseconds, and none that only show how
 * a binary fraction comes near 0.087. */
#define REAL_DIGITS 15

/* Each appends one JSON object and a newline. Return: 0 or -errno. */
int status_root(struct fs *fs, struct buf *out);
int status_template(struct fs *fs, const struct conf_template *t, struct buf *out);
int status_session(struct session *s, struct buf *out);
int status_run(const struct run *r, struct buf *out);

#endif
