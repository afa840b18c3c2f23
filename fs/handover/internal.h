/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of fs/handover/ share. */
#ifndef XSBX_FS_HANDOVER_INTERNAL_H
#define XSBX_FS_HANDOVER_INTERNAL_H

#include "fs/session/fs.h"
#include "fs/session/session.h"
#include "handover.h"

/* A session, also one that was removed and is still open. */
static inline uint64_t handover_key(const struct session *s)
{
	return (uint64_t)s->slot << 32 | s->generation;
}

/* ---- handles.c ---- */

/* Return: the session, or NULL. */
struct session *handover_session(struct fs *fs, uint64_t key);

int handover_put_handles(struct fs *fs, struct buf *out);
int handover_get_generations(struct fs *fs, struct record_reader fields);
int handover_get_handle(struct fs *fs, uint64_t id, struct record_reader fields);

/* ---- files.c: what the kernel knows below files/ ---- */

void handover_put_files(const struct session *s, struct buf *out);
int handover_get_files(struct session *s, struct record_reader fields);
/* Its sandbox is told. Return: 0 or -ENOMEM. */
int handover_hold_files(struct session *s);

/* ---- calls.c: what was answered by the agent, and not yet the kernel ---- */

bool handover_has_calls(const struct session *s);
void handover_put_calls(const struct session *s, struct buf *out);
int handover_get_calls(struct session *s, struct record_reader fields);

#endif
