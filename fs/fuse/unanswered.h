/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the kernel that were not answered at once, as they came: for the next daemon. */
#ifndef XSBX_FS_FUSE_UNANSWERED_H
#define XSBX_FS_FUSE_UNANSWERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct sheets;

#define UNANSWERED_BUCKETS 256u
#define UNANSWERED_SPARE   4u

/* Where the bytes of one are. */
enum unanswered_bytes {
	UNANSWERED_NOWHERE,   /* but in the records, if it is recorded; or lost */
	UNANSWERED_OWN,	      /* its own, until it is recorded */
	UNANSWERED_TO_REPLAY, /* its own, until it was handled once more, by these */
	UNANSWERED_LENT,      /* somebody else's, until it is recorded */
	UNANSWERED_ON_SHEET,  /* on one that is held until it is answered */
};

/* One of them. */
struct unanswered_request {
	TAILQ_ENTRY(unanswered_request) link; /* in the order in which they came */
	LIST_ENTRY(unanswered_request) near;  /* of the same bucket */
	uint64_t unique;
	size_t len;
	enum unanswered_bytes where;
	char *data; /* begins with a struct fuse_in_header; NULL: NOWHERE */
	bool recorded;
};

/*
 * Short ones are copied. Of a long one the buffer is kept, in which it was received, and who
 * receives gets another: there are some to spare.
 *
 * Where there are records of all that a daemon knows, those that are not answered at a commit are
 * written there, and their bytes are nowhere else.
 *
 * - Those that are not recorded yet are the last of the list, from `fresh` on.
 */
struct unanswered {
	TAILQ_HEAD(unanswered_list, unanswered_request) list;
	LIST_HEAD(, unanswered_request) bucket[UNANSWERED_BUCKETS];
	size_t n;
	struct unanswered_request *fresh; /* the first that is not recorded, or NULL */
	size_t size;			  /* of a buffer */
	struct sheets *sheets;		  /* or NULL: none is held */
	char *spare[UNANSWERED_SPARE];
	unsigned nspare;
	/* Whoever waits for an answer must not be left alone, so while there are these no other
	 * daemon takes the mount over: */
	size_t ngone;	 /* their bytes are lost */
	size_t nunknown; /* there was no memory for as much as an entry in the list */
};

/* @size: of the buffers that requests are received in. */
void unanswered_init(struct unanswered *u, size_t size);
void unanswered_fini(struct unanswered *u);

/* A request that is not answered yet, of @len bytes in *@buffer, which is replaced if it is kept.
 * Return: 0; -ENOMEM: there is no buffer any more to receive in. */
int unanswered_add(struct unanswered *u, uint64_t unique, char **buffer, size_t len);

/* The same of bytes that stay where they are: LENT, or ON_SHEET, of u->sheets, which is held. */
void unanswered_lend(struct unanswered *u, uint64_t unique, char *data, size_t len,
		     enum unanswered_bytes where);

/* One of a daemon before, which is to be handled once more: it is copied. @recorded: it is in the
 * records already. Return: 0, -ENOMEM. */
int unanswered_load(struct unanswered *u, uint64_t unique, const char *data, size_t len,
		    bool recorded);
/* Likewise of one whose bytes are on a sheet: it is held. */
int unanswered_load_held(struct unanswered *u, uint64_t unique, const char *data, size_t len);

/* Return: the first that is not recorded, or NULL. */
struct unanswered_request *unanswered_new(const struct unanswered *u);
/* That one is recorded now: its bytes are not needed here any more. */
void unanswered_recorded(struct unanswered *u, struct unanswered_request *r);

/* It was handled again, and is not answered now either: likewise, if it was recorded before. */
void unanswered_settle(struct unanswered *u, struct unanswered_request *r);

/* There will be no records any more: these bytes are those of one that is in them alone. */
void unanswered_restore(struct unanswered *u, uint64_t unique, const char *data, size_t len);

/* There are no records any more. What was in them alone, and not restored, is lost; what was lent
 * is copied. */
void unanswered_keep(struct unanswered *u);

/* Is it known of all of them what was asked? */
bool unanswered_is_whole(const struct unanswered *u);

/* To the end of the list. */
void unanswered_requeue(struct unanswered *u, struct unanswered_request *r);

/* It was answered, if it is one of them. Return: it was recorded. */
bool unanswered_drop(struct unanswered *u, uint64_t unique);

#endif
