/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as records: for the next mount, or for the daemon that comes after this one. */
#ifndef XSBX_FS_KEEP_KEEP_H
#define XSBX_FS_KEEP_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/buf.h"
#include "vm/base/record.h"

struct fs;
struct job;
struct problem;
struct run;
struct saved;
struct scratch_file;
struct session;
struct spool;
struct trail;

/*
 * Theory of operation
 * -------------------
 * There are two forms of a session, and the same functions write and read the fields of both (vm/base/record.h):
 *
 * - at rest: one record with all that belongs to it, of what the session shall be when its sandbox and this process are gone. What runs is `lost`, what waits is
 *   `refused`; it is asleep if something was saved of it that is on the disk, else closed or new. It has no handles, so runs
 *   and jobs that were removed and are still read are left out.
 * - live: records of each of its parts, so that what has changed can be written alone: its head, what of it changes seldom, each
 *   run and what was asked of it, each job, each scratch file. They are what a new daemon needs to go on with the same sandboxes,
 *   handles and requests, and refer to each other by ids (fs/request/touched.h). Times of uv_now() stay true in it,
 *   for it is of the same boot. Handles, nodes below files/, sandboxes, and what is saved are not in it, but all that they refer
 *   to is, also what was removed and is still open.
 *
 * Some things are not in a record, but somewhere that only who writes it knows: what was saved, long outputs, at rest long code, and
 * live all bytes that grow. struct keep_io has functions for these.
 *
 * A record is not trusted. Whoever reads it checks each value as if a user had written it; one wrong one, and the session is
 * refused, and nothing of it stays.
 */

/* Kinds of records. Never reuse a number; those from 64 on are of others: see fs/handover/ and vm/. */
enum keep_kind {
	KEEP_SESSION = 1, /* key: live: slot << 32 | generation; at rest: 0 */
	/* Live. The key is that of the session, but of blocks and texts. */
	KEEP_RUN = 2,
	KEEP_JOB = 3,
	KEEP_BLOCK = 4, /* of an output; key: its id. fs/handover/outputs.c */
	KEEP_TEXT = 5,	/* a piece of bytes that grow; key: their id. fs/handover/texts.c */
	KEEP_SCRATCH = 6,
	KEEP_REMOVAL = 7, /* of a session that was kept, from the disk; key: its id */
	KEEP_ACCOUNT =
		8, /* at rest, in a file of their own: what a user has used; key: its place. fs/session/account.h */
};

/* Code of more bytes is written once, beside the record, which is written anew each time that something changes. */
#define KEEP_CODE_SHORT 4096u

/* Output or code that is too long for the record. Its numbers are those of the session, and so stay the same. */
struct keep_output {
	bool of_job;
	uint32_t number; /* of the run, or of the job */
	unsigned which;	 /* enum run_output, or KEEP_CODE */
};

#define KEEP_CODE 3u

struct keep_output keep_output_of(const struct run *r, unsigned which);

/*
 * Of who writes and reads the records. @data is the first argument of all.
 * - At rest, a long output is put elsewhere by whoever wrote the record, behind its back: `away` is told of each, and the record
 *   has its length alone. `back` is told of them when they are read, and marks the spool: see spool.h, `away`.
 */
struct keep_io {
	void *data;
	/* At rest. Return: is this output there, or will it be before the record is? If not, it is written as lost. */
	bool (*away)(void *data, const struct keep_output *o, const struct spool *sp);
	/* At rest. Return: 0 or -errno. */
	int (*back)(void *data, const struct keep_output *o, struct spool *sp);
	/* Likewise a run's long code. Return: is it there, or will it be before the record is? If not, the record has it. */
	bool (*code_away)(void *data, const struct keep_output *o, struct run *r);
	/* Appends these @len bytes to its code; it is @s's. Return: 0; -ENOMEM: the session is refused; another -errno: they can't be
	 * read. */
	int (*code_back)(void *data, const struct session *s, const struct keep_output *o,
			 struct run *r, uint64_t len);
	/* A name for what is saved, text of at most KEEP_NAME_MAX - 1 bytes; NULL: it can't be named, and so is not kept. */
	const char *(*name)(void *data, const struct saved *saved);
	/* What has that name, a reference. Return: 0; -ENOENT with @why: it is gone; -EBADMSG with @why: it is damaged, and *ret_saved
	 * stands for it, if that is not NULL as it was before; another -errno: the session is refused. */
	int (*find)(void *data, const char *name, struct saved **ret_saved, struct problem *why);

	/* The others are of the live form alone. */
	bool live;
	/* Puts bytes elsewhere, of which the first has the position @at. Return: their id; 0: they are few, and go into the record. */
	uint64_t (*text)(void *data, struct trail *t, uint64_t at, const char *bytes, size_t len);
	/* Replaces what is in @dest. Return: 0, -EBADMSG: there are none of that id with these positions; -ENOMEM. */
	int (*text_back)(void *data, struct trail *t, uint64_t at, size_t len, struct buf *dest);
	/* Likewise the blocks of an output, but those that it shares with another of its run. Return: their id; 0: there is one short
	 * block, and it goes into the record. */
	uint64_t (*blocks)(void *data, const struct run *r, struct spool *sp);
	/* All that there are of the id sp->id, behind those that are there. Return: 0, -EBADMSG, -ENOMEM. */
	int (*blocks_back)(void *data, struct spool *sp);
};

#define KEEP_NAME_MAX 64u

/* At rest: appends its record. Return: 0, -ENOMEM, -EFBIG. */
int keep_put(struct buf *out, const struct session *s, const struct keep_io *io);

/* Who it is, of which a record begins with. */
struct keep_name {
	char template[65], name[65];
	uint32_t uid, gid;
};

/* Return: 0 or -EBADMSG. */
int keep_get_name(const struct record *record, struct keep_name *ret_name);

/* At rest: what was saved that it names, in no order, some of it perhaps twice. Return: 0; -EBADMSG: there may be more; or the
 * first -errno of @fn. */
int keep_get_names(const struct record *record, int (*fn)(void *data, const char *name),
		   void *data);

/**
 * keep_get() - Make the session of a record, at rest
 * @fs: Mount; there is none of that name in it
 * @record: Record
 * @io: As above
 * @why: In words, if it fails
 * @ret_s: Result, the table's reference
 *
 * What was saved of it and is not there any more is told in its `error`: it is closed then. So is a run's code that can't be read:
 * the run has none.
 *
 * Return: 0, -EBADMSG (it is damaged), -ENOENT (its template is gone), -ENOMEM, -errno of session_revive().
 */
int keep_get(struct fs *fs, const struct record *record, const struct keep_io *io,
	     struct problem *why, struct session **ret_s);

/* Why a session is closed that loses its sandbox at the end, and was not saved. @back: there is a checkpoint to go back to. */
void keep_lost(const struct session *s, bool back, struct problem *ret_why);

/*
 * Live: append the fields of one record. What is referred to by an id gets one. Return: 0, -ENOMEM, -EFBIG.
 */
int keep_put_head(struct buf *out, const struct session *s, const struct keep_io *io);
int keep_put_rest(struct buf *out, const struct session *s, const struct keep_io *io);
int keep_put_live_run(struct buf *out, struct run *r, const struct keep_io *io);
int keep_put_asked(struct buf *out, struct run *r, const struct keep_io *io);
int keep_put_live_job(struct buf *out, struct job *j, const struct keep_io *io);
int keep_put_live_scratch(struct buf *out, const struct scratch_file *file);

/**
 * keep_get_live() - Read one of these
 * @fs: Mount
 * @record: Of the kinds KEEP_SESSION (its head is the first of all that are of it), KEEP_RUN, KEEP_JOB, KEEP_SCRATCH, in
 * this order
 * @io: As above
 * @why: In words, if it fails
 *
 * Return: 0, -EBADMSG, -ENOENT, -ENOMEM, -errno.
 */
int keep_get_live(struct fs *fs, const struct record *record, const struct keep_io *io,
		  struct problem *why);

/* All of these were read. Those that are no session that there can be are gone then. Return: 0, -EBADMSG, -ENOMEM. */
int keep_complete(struct fs *fs, struct problem *why);

/* Of one of them, before keep_complete(): is it a session that there can be, now that all of it was read? Return: likewise. */
int keep_check(struct session *s);

/**
 * keep_salvage() - Something of a session can't be read: keep what can be looked at
 * @s: Of the records of a daemon that has died; without a sandbox, and nobody holds it. It goes
 * @why: What is said of it
 *
 * Another one has its name then, which is FAILED and can do nothing but be removed: it has those of its runs that have ended,
 * its checkpoints, what it slept with, and what it wrote to the console. Inode numbers of the old one are not its. What is in the
 * state directory is left alone.
 *
 * Return: it; NULL: there is none, for the old one had been removed, or there is no memory.
 */
struct session *keep_salvage(struct session *s, const struct problem *why);

/* The run of this id, while they are read; or NULL. */
struct run *keep_run_of(const struct fs *fs, const struct session *s, uint64_t mark);

/* Live: the session of this key, also a removed one; or NULL. */
struct session *keep_session(struct fs *fs, uint64_t key);

/* All were read: what they know of each other is put together. */
void keep_join(struct fs *fs);

/* Live: whatever holds them has its references now. What was removed and is held by nobody goes. */
void keep_settle(struct fs *fs);

#endif
