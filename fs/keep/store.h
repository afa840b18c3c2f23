/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory: files of sessions, sealed. Knows no session; all of it blocks. */
#ifndef XSBX_FS_KEEP_STORE_H
#define XSBX_FS_KEEP_STORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "reserve.h"

#include "vm/base/buf.h"

struct problem;
struct vault;

/*
 * What is in it
 * -------------
 *	lock				who has it locked is its mount
 *	version				a number, and a newline
 *	sessions/TEMPLATE/NAME.rec	the record of a session
 *	sessions/TEMPLATE/NAME.ID.out/	its long outputs: r3.0 is stdout of run 3, j2.1 is stderr of job 2;
 *					and long code: r3.code
 *	accounts			what users have used today. Who does not know it leaves it alone
 *	saved/, key			see vm/checkpoint/vault.h
 *	reserve				nothing but room, for records: see reserve.h. Who does not know it leaves it alone
 *
 * ID is when the session was made, for another one may have the same name later. Everything is
 * sealed, for the place where it is: what is moved elsewhere is damaged. A file is written under
 * another name, and renamed when all of it is on the disk; so a power cut leaves the old one or the
 * new one. What it leaves of the other name is written over.
 *
 * The directory is for its owner alone. It is refused if others could have written there.
 *
 * In version 1 code of any length was in the records. Such a directory is of this version when the first
 * file of code is about to be written: who knows version 1 alone would take it for an output that
 * nobody wants.
 */
#define STORE_VERSION 2u

struct store {
	int dir, sessions; /* descriptors, or -1 */
	int lock;
	unsigned version;	   /* of what is there */
	const struct vault *vault; /* what seals, set by store_use() */
	pthread_mutex_t *gate;	   /* held while it seals */
	struct reserve reserve;
};

/* Whose a file is. */
struct store_name {
	char template[65], name[65];
	struct timespec made;
};

/* An output's, or that of code: "r3.0", "r3.code". */
struct store_output {
	char name[24];
	char of[40]; /* what it is sealed for as well: of code, store_id() of when that was submitted */
};

/* Opens, or makes, and locks it. A lock of another mount is waited for, for some seconds: it may be
 * ending. Return: 0, or -errno with @why. */
int store_open(const char *path, struct store *ret_st, struct problem *why);
/* Without the lock: another process has it, and is going to give it away. */
int store_open_heir(const char *path, struct store *ret_st, struct problem *why);
/* The lock, which its owner gives away with what the lock is for; it is the store's from now on.
 * Return: 0, -EBADMSG if it is the lock of another directory. */
int store_inherit(struct store *st, int lock);
void store_close(struct store *st);

/* What is read and written is sealed with @vault. NULL: it is gone, and a thread that still waits
 * for the disk gets -ECANCELED for what follows. Return: 0 or -ENOMEM. */
int store_use(struct store *st, const struct vault *vault);

/* What is there is of this version, from now on. Return: 0 or -errno. */
int store_upgrade(struct store *st);

/* Calls @fn for each record. Return: 0; or the first -errno, when @fn has had all that could be
 * read: there may be more. */
int store_list(const struct store *st,
	       void (*fn)(void *data, const char *template, const char *name), void *data);

/* Appends a record to @out. Return: 0, -EBADMSG, -EKEYREJECTED, -errno. */
int store_read(const struct store *st, const char *template, const char *name, struct buf *out);

/*
 * Replaces a record, in steps, so that many can be written at the price of a few: a disk that has
 * been told to write one file has mostly written the others as well.
 */

/* Writes it under another name. Return: a descriptor for store_settle(), or -errno. */
int store_stage(const struct store *st, const struct store_name *of, const void *data, size_t len);
/* It is on the disk; the descriptor is closed. Return: 0 or -errno. */
int store_settle(int fd);
/* It has its own name. Return: 0 or -errno. */
int store_publish(const struct store *st, const struct store_name *of);
/* So have it all of a template, on the disk. Return: 0 or -errno. */
int store_sync(const struct store *st, const char *template);

/* All that there is by that name. Return: 0, also if there is nothing; -errno. */
int store_remove(const struct store *st, const char *template, const char *name);

/* One output. @read: gives @len bytes from @offset, or -errno. Return: 0 or -errno. */
int store_put_output(const struct store *st, const struct store_name *of,
		     const struct store_output *o, uint64_t len,
		     int (*read)(void *data, uint64_t offset, void *to, size_t len), void *data);

/* @put takes the pieces in order. Return: 0; -EBADMSG also if it has another length; -errno; or
 * what @put returned. */
int store_get_output(const struct store *st, const struct store_name *of,
		     const struct store_output *o, uint64_t len,
		     int (*put)(void *data, const void *bytes, size_t len), void *data);

/* Removes outputs of others that had its name. */
void store_trim_others(const struct store *st, const struct store_name *of);
/* All but these go. */
void store_trim_outputs(const struct store *st, const struct store_name *of,
			const struct store_output *keep, size_t n);

/* Of a template: outputs of sessions that are not there any more. @wanted: is there one of that
 * name, made then (as text)? */
void store_sweep(const struct store *st, const char *template,
		 bool (*wanted)(void *data, const char *name, const char *id), void *data);

/* What users have used, as a whole. Return: 0, -ENOENT, -EBADMSG, -EKEYREJECTED, -errno. */
int store_put_accounts(const struct store *st, const void *data, size_t len);
int store_get_accounts(const struct store *st, struct buf *out);

/* How `made` is written. */
struct store_id {
	char text[40];
};

struct store_id store_id(const struct timespec *made);

#endif
