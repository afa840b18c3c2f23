/* SPDX-License-Identifier: Apache-2.0 */
/* Replays: what is asked for, and what becomes of it. See rerun.h. */
#ifndef XSBX_FS_SESSION_RERUN_VERBS_H
#define XSBX_FS_SESSION_RERUN_VERBS_H

#include <stdint.h>

struct fs;
struct session;

/* For `ctl`. Return: 0, -errno; `error` says why. */
int rerun_begin(struct session *s, uint32_t number);

/* Looks at a session that is a replay, which may remove it. Return: when to look again. */
uint64_t rerun_tick(struct session *copy, uint64_t now);

/* The mount ends: no replay is kept. */
void rerun_end_all(struct fs *fs);

#endif
