/* SPDX-License-Identifier: Apache-2.0 */
/* Records in memory that outlives the process: what a daemon leaves if it dies at any moment. */
#ifndef XSBX_VM_BASE_ESTATE_H
#define XSBX_VM_BASE_ESTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"
#include "sheets.h"

/*
 * Theory of operation
 * -------------------
 * A file in memory, mapped, which another process has open as well. Records are appended behind the
 * last ones, and a commit stores the one number that says which of two areas they are in and how
 * far it counts. A process that is killed leaves memory as it was, so what is behind that number
 * was never said, and what is before it is whole; no checksums, no fsync.
 *
 * What is replaced stays where it is until it is more than half of an area. Then what counts is
 * copied to the other area, a part at each commit, while everything new is written to both; when
 * all is there, the number is stored that names the other area, and the pages of the first one are
 * given back. So some memory stays taken, one MiB of each area (eight while much is written and
 * replaced at once), and otherwise twice what counts, at most three times for a moment.
 *
 * Memory is asked for before it is written to, so that there is an error instead of a signal. After
 * the first error nothing here is true any more: it says so of itself, and nobody inherits it.
 *
 *     head | regions, of a fixed place each | area | area
 *     entry: u32 length, u32 kind, u64 key, u64 sub, u64 serial, the fields; whatever was there up
 *            to a multiple of eight
 *
 * The numbers are those of this machine: nothing is read on another one.
 */
struct estate;

/* Whose a region is. Never reuse. */
enum estate_region {
	ESTATE_REGION_BLACKBOX = 1, /* fs/revival.c */
	ESTATE_REGION_INBOX,	    /* fs/fuse/devfuse_turn.c, as the next one */
	ESTATE_REGION_OUTBOX,
	ESTATE_REGION_SHEETS, /* estate_sheets() */
};

#define ESTATE_REGIONS	  16u
#define ESTATE_REGION_MAX (64u << 20) /* bytes of one */

/* Kinds of records that are written down here below, beside enum handover_kind, which goes on. */
enum estate_kind {
	ESTATE_CHANNEL_BYTES = 130, /* vm/guest/channel_record.c */
};

/* Makes an empty one. Return: 0 or -errno. */
int estate_new(struct estate **ret_e);

/**
 * estate_open() - Go on with the estate of a process that has ended, or stands still
 * @fd: Its file; taken in any case
 * @ret_e: What was committed, and nothing else, and its regions: a copy, in a file of its own
 *
 * All of it is checked, and nothing believed. The process that has it must not write to it any more;
 * but it may, and so may who it has shown its file to, a guest that has taken it over. So everything
 * is copied before it is looked at, and the file is not used any more: whoever is to inherit this one
 * needs estate_fd().
 *
 * Return: 0; -EBADMSG: damaged, of another version, or given up; -ENOMEM; -errno.
 */
int estate_open(int fd, struct estate **ret_e);

/* Likewise into @e, in which there is nothing yet but regions that were asked for already: so the
 * memory of these is there, if there is time before. @gets_on is called with @data every now and
 * then: it may be much. @e is worth nothing after a failure. */
int estate_take(struct estate *e, int fd, void (*gets_on)(void *data), void *data);

/* The file, to be lent or inherited. */
int estate_fd(const struct estate *e);

/* Unmaps it, and closes this process's descriptor; what was not committed is lost. NULL is fine. */
void estate_free(struct estate *e);

/* False after the first error of any of the functions here: it can't be inherited any more, and its
 * memory was given back. */
bool estate_is_whole(const struct estate *e);

/* What it has is not true any more, because of something that failed elsewhere. @err: a negative
 * error, which all that writes returns from now on. */
void estate_give_up(struct estate *e, int err);

/* Likewise, and nobody will be left anything any more: so its regions go as well, and each of the
 * sheets as soon as nobody holds it. */
void estate_retire(struct estate *e);

/*
 * Writing. Nothing of it is there for an heir before the next commit. A name is a kind, a key and a
 * sub; both of the first are those of struct record, and a sub only tells apart several of them.
 */

/* Writes a record, or replaces it. Equal bytes cost nothing. Return: 0; -ENOMEM, -EFBIG, -errno: it
 * is not whole any more. */
int estate_put(struct estate *e, uint32_t kind, uint64_t key, uint64_t sub, const void *fields,
	       size_t len);

/* Takes one away, if there is one. Return: likewise. */
int estate_drop(struct estate *e, uint32_t kind, uint64_t key, uint64_t sub);

/* Takes away all of this key. */
void estate_drop_all(struct estate *e, uint32_t kind, uint64_t key);

/* All since the last one counts from now on, or nothing of it. Return: 0 or -ENOMEM: it is not
 * whole. */
int estate_commit(struct estate *e);

/* There is something to be copied or given back by further commits, though nothing was written. */
bool estate_is_untidy(const struct estate *e);

/* What was written last by this name, until something is written. Return: is there anything? */
bool estate_get(const struct estate *e, uint32_t kind, uint64_t key, uint64_t sub,
		const void **ret_fields, size_t *ret_len);

/* Is there one of this name? */
bool estate_has(const struct estate *e, uint32_t kind, uint64_t key, uint64_t sub);

/**
 * estate_each() - Read all records of a kind
 * @e: Estate
 * @kind: Kind
 * @fn: Is given each, as it was written last; writes nothing here
 * @data: Its first argument
 *
 * They come in the order in which their names were first put.
 *
 * Return: 0, or what @fn returned, if that was not 0: then it was the last.
 */
int estate_each(const struct estate *e, uint32_t kind,
		int (*fn)(void *data, const struct record *rec, uint64_t sub), void *data);

/**
 * estate_region() - Shared pages beside the records
 * @e: Estate
 * @number: enum estate_region
 * @size: In bytes, at most ESTATE_REGION_MAX
 *
 * Zeroes at first; in an heir, whatever was there. No commit is needed, and none protects them. All
 * pages are there, and locked where this process may do that. Asking again for the same size gives
 * the same memory; it is there until estate_free() or estate_retire(), also if the records are
 * given up.
 *
 * Return: the memory, of whole pages, or NULL: there is none.
 */
void *estate_region(struct estate *e, unsigned number, size_t size);

/* The sheets beside the records, which are made when somebody asks first. Return: NULL: there is no
 * memory for them. */
struct sheets *estate_sheets(struct estate *e);

/*
 * Comparing: between the two calls estate_put() and estate_drop() write nothing, but tell where
 * what they were given is not what is there. So whoever writes everything anew between them learns
 * what should have been written before.
 */

enum estate_difference {
	ESTATE_MISSING, /* was not put, or was dropped */
	ESTATE_OTHER,	/* other bytes */
	ESTATE_LEFT,	/* was not put again in between: should have been dropped */
};

struct estate_compare {
	void (*differs)(void *data, enum estate_difference what, uint32_t kind, uint64_t key,
			uint64_t sub);
	/* Kinds that all records are written of in between; others are not looked for. NULL:
	 * all. */
	bool (*is_whole)(uint32_t kind);
	void *data;
	/* For `differs`, if it wants to look: what is there, and what should be; NULL, 0:
	 * nothing. */
	const void *has, *wants;
	size_t has_len, wants_len;
};

bool estate_is_compared(const struct estate *e);
void estate_compare_begin(struct estate *e, struct estate_compare *c);
void estate_compare_end(struct estate *e);

/*
 * Sweeping: between the two calls all is written that there is, and what of the kinds @of_kind was
 * not, another one has left. Return: 0 or -errno: it is not whole any more.
 */
void estate_sweep_begin(struct estate *e);
int estate_sweep_end(struct estate *e, bool (*of_kind)(uint32_t kind));

/* While it is compared, or swept: this one, if there is one, or all of this key, are what they
 * should be, and are not put for that. Nothing else. */
void estate_keeps(struct estate *e, uint32_t kind, uint64_t key, uint64_t sub);
void estate_keeps_all(struct estate *e, uint32_t kind, uint64_t key);

/* Bytes: that the records which count take; that are taken by all of this, as the kernel counts. */
size_t estate_live(const struct estate *e);
size_t estate_taken(const struct estate *e);

#endif
