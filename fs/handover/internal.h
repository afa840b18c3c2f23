/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of fs/handover/ share. */
#ifndef XSBX_FS_HANDOVER_INTERNAL_H
#define XSBX_FS_HANDOVER_INTERNAL_H

#include "fs/session/fs.h"
#include "fs/session/session.h"
#include "handover.h"
#include "fs/keep/keep.h"
#include "sink.h"

/* For tfind(3): of what begins with a number of 64 bits. */
static inline int handover_by_id(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* mount.c: all that there is, of all parts. */
int handover_put_all(struct fs *fs, struct handover_sink *sink);

/*
 * Each part has these functions: `put` writes all that there is of it, into an estate;
 * `commit` writes into an estate what has changed since, and takes away what is gone; `settle`
 * says, behind a `put` into one, that all is there as it is; `get` reads one record; `join` puts
 * together what was read. All return 0 or -errno; -EBADMSG is what can't be.
 */

/* ---- losses.c: what can't be read ---- */

/* Is this record of a session that is lost already, and so not to be read? */
bool handover_passes_over(const struct fs *fs, const struct record *rec);
/* This record was refused with @err. Return: 0: whoever it is of is lost for that, and nobody else;
 * @err: it is of the whole mount; -ENOMEM. */
int handover_lost(struct fs *fs, const struct record *rec, int err);
/* All sessions were read: those that can't be are salvaged; or, of a daemon that has not died,
 * refused. Return: 0, -EBADMSG, -ENOMEM. */
int handover_complete(struct fs *fs, struct problem *why);
/* Likewise what there is of their files/. */
int handover_complete_files(struct fs *fs);
/* In the log and in the mount's events; once, when this is the daemon. */
void handover_tell_losses(struct fs *fs);
void handover_forget_losses(struct fs *fs);

/* ---- shadow.c ---- */

/* Are all records of this kind put then? */
bool handover_is_whole(uint32_t kind);

/* ---- sessions.c: they, and their sandboxes ---- */

/* While they are written. */
struct handover_sessions {
	struct fs *fs;
	struct handover_sink *sink;
	bool changes_only; /* what has a number is written */
	int failed;	   /* of what is written aside */
	void *put;	   /* saved ones that were, for tsearch(3) */
	char name[KEEP_NAME_MAX];
};

int handover_put_sessions(struct fs *fs, struct handover_sink *sink);
int handover_commit_sessions(struct fs *fs, struct handover_sink *sink);
void handover_settle_sessions(struct fs *fs);
/* Also KEEP_TEXT and KEEP_BLOCK. */
int handover_get_session(struct fs *fs, const struct record *rec, struct problem *why);
void handover_join_sessions(struct fs *fs);
/* Return: all that are in the mount's list, oldest first, to be freed; NULL if out of memory. */
struct session **handover_all_sessions(const struct fs *fs, size_t *ret_n);

/* ---- savings.c: what was saved of them ---- */

/* It is named in a record. */
int handover_put_saved(struct handover_sessions *to, const struct saved *saved);
/* Those that are otherwise than when they were written. */
int handover_commit_saved(struct handover_sessions *to);
void handover_saved_fini(struct handover_sessions *to);
/* From now on those that are freed are noted. */
void handover_watch_saved(struct fs *fs);
int handover_get_saved(struct fs *fs, const struct record *rec, struct fdbag *fds);
/* Return: a reference, or NULL. */
struct saved *handover_find_saved(const struct fs *fs, uint64_t number);
/* All were read. */
void handover_forget_saved(struct fs *fs);

/* ---- whole.c: what there is of the mount as such ---- */

/* The first of all, and what comes behind the sessions. */
int handover_put_mount(struct fs *fs, struct handover_sink *sink);
int handover_put_rest(const struct fs *fs, struct handover_sink *sink);
int handover_commit_whole(struct fs *fs, struct handover_sink *sink);
void handover_settle_whole(struct fs *fs);
int handover_get_whole(struct fs *fs, const struct record *rec, struct fdbag *fds,
		       struct problem *why);
/* Behind all sessions. */
int handover_join_whole(struct fs *fs);

/* ---- handles.c ---- */

int handover_put_handles(struct fs *fs, struct handover_sink *sink);
int handover_commit_handles(struct fs *fs, struct handover_sink *sink);
/* All are there as they are. */
void handover_settle_handles(struct fs *fs);
/* One that is closed. */
int handover_drop_handle(struct fs *fs, struct handover_sink *sink, uint64_t id);
int handover_get_handle(struct fs *fs, uint64_t id, struct record_reader fields);
int handover_get_text(struct fs *fs, uint64_t id, struct record_reader fields);
/* It can't be read: the kernel has it still, and nobody else is to have its number. Return: 0 or
 * -ENOMEM. */
int handover_lose_handle(struct fs *fs, uint64_t id);
/* All were read, and so was what they are of: they are put into the lists of those who have
 * something open. Those that don't fit are lost. */
int handover_join_handles(struct fs *fs);

/* ---- generations.c: numbers of handles that nobody has been told ---- */

int handover_put_generations(struct fs *fs, struct handover_sink *sink);
/* This index may be free now. */
int handover_free_generation(struct fs *fs, struct handover_sink *sink, uint32_t index);
int handover_get_generation(struct fs *fs, uint64_t index, struct record_reader fields);

/* ---- files.c: what the kernel knows below files/ ---- */

int handover_put_files(struct session *s, struct handover_sink *sink);
int handover_commit_files(struct fs *fs, struct handover_sink *sink);
void handover_settle_files(struct fs *fs);
/* Of a session that is freed. */
int handover_drop_files(struct estate *e, uint64_t key);
int handover_get_files(struct session *s, struct record_reader fields);
int handover_get_node(struct session *s, struct record_reader fields);
int handover_join_files(struct session *s);
/* Its sandbox is told. Return: 0 or -ENOMEM. */
int handover_hold_files(struct session *s);

/* ---- calls.c: what was answered by the agent, and not yet the kernel ---- */

bool handover_has_calls(const struct session *s);
void handover_put_calls(const struct session *s, struct buf *out);
int handover_get_calls(struct session *s, struct record_reader fields);

#endif
