/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as records: for the next mount, or for the daemon that comes after this one. */
#ifndef XSBX_FS_KEEP_KEEP_H
#define XSBX_FS_KEEP_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/buf.h"
#include "vm/base/record.h"

struct fs;
struct problem;
struct saved;
struct session;
struct spool;

/*
 * Theory of operation
 * -------------------
 * One record is one session, with all that belongs to it in fields: vm/base/record.h. There are two kinds, and the same
 * functions write and read both:
 *
 * - at rest: what the session shall be when its sandbox and this process are gone. What runs is `lost`, what waits is
 *   `refused`; it is asleep if something was saved of it that is on the disk, else closed or new. It has no handles, so runs
 *   and jobs that were removed and are still read are left out.
 * - live: what a new daemon needs to go on with the same sandboxes, handles and requests. Times of uv_now() stay true in it,
 *   for it is of the same boot. Handles, nodes below files/, sandboxes, and what is saved are not in it, but all that they refer
 *   to is, also what was removed and is still open.
 *
 * Two things are not in a record, but somewhere that only who writes it knows: long outputs, and what was saved. struct
 * keep_io has functions for these.
 *
 * A record is not trusted. Whoever reads it checks each value as if a user had written it; one wrong one, and the session is
 * refused, and nothing of it stays.
 */

/* Kinds of records. Never reuse a number; those from 64 on are of others: see fs/handover/ and vm/. */
enum keep_kind {
	KEEP_SESSION = 1, /* key: live: slot << 32 | generation; at rest: 0 */
};

/* An output that is too long for the record. Its numbers are those of the session, and so stay the same. */
struct keep_output {
	bool of_job;
	uint32_t number; /* of the run, or of the job */
	unsigned which;	 /* enum run_output */
};

/*
 * Of who writes and reads the records. @data is the first argument of all.
 * - At rest, a long output is put elsewhere by whoever wrote the record, behind its back: `away` is told of each, and the record
 *   has its length alone. `back` is told of them when they are read, and marks the spool: see spool.h, `away`.
 */
struct keep_io {
	bool live;
	void *data;
	/* At rest. Return: is this output there, or will it be before the record is? If not, it is written as lost. */
	bool (*away)(void *data, const struct keep_output *o, const struct spool *sp);
	/* At rest. Return: 0 or -errno. */
	int (*back)(void *data, const struct keep_output *o, struct spool *sp);
	/* A name for what is saved, text of at most KEEP_NAME_MAX - 1 bytes; NULL: it can't be named, and so is not kept. */
	const char *(*name)(void *data, const struct saved *saved);
	/* What has that name, a reference. Return: 0; -ENOENT or -EBADMSG with @why: it is gone; another -errno: the session is refused. */
	int (*find)(void *data, const char *name, struct saved **ret_saved, struct problem *why);
};

#define KEEP_NAME_MAX 64u

/* Appends its record. Return: 0, -ENOMEM, -EFBIG. */
int keep_put(struct buf *out, const struct session *s, const struct keep_io *io);

/* Who it is, of which a record begins with. */
struct keep_name {
	char template[65], name[65];
	uint32_t uid, gid;
};

/* Return: 0 or -EBADMSG. */
int keep_get_name(const struct record *record, struct keep_name *ret_name);

/**
 * keep_get() - Make the session of a record
 * @fs: Mount; there is none of that name in it
 * @record: Record
 * @io: As above
 * @why: In words, if it fails
 * @ret_s: Result, the table's reference
 *
 * What was saved of it and is not there any more is told in its `error`: it is closed then.
 *
 * Return: 0, -EBADMSG (it is damaged), -ENOENT (its template is gone), -ENOMEM, -errno of session_revive().
 */
int keep_get(struct fs *fs, const struct record *record, const struct keep_io *io,
	     struct problem *why, struct session **ret_s);

/* Why a session is closed that loses its sandbox at the end, and was not saved. */
const struct problem *keep_lost(const struct session *s);

/* All were read: what they know of each other is put together. */
void keep_join(struct fs *fs);

/* Live: whatever holds them has its references now. What was removed and is held by nobody goes. */
void keep_settle(struct fs *fs);

#endif
