/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the keeper share. */
#ifndef XSBX_FS_KEEP_KEEPER_INTERNAL_H
#define XSBX_FS_KEEP_KEEPER_INTERNAL_H

#include <uv.h>

#include "fs/session/session.h"
#include "keep.h"
#include "keeper.h"
#include "store.h"
#include "vm/base/problem.h"

#define KEEPER_ROUND_MS	 1000u	    /* a session is written once in so long */
#define KEEPER_RETRY_MS	 5000u	    /* ... if the disk has refused */
#define KEEPER_JOB_BYTES (8u << 20) /* of records and outputs, of one job */
#define KEEPER_JOB_ITEMS 256u

/* A piece of a long output: in the depot's file, or a copy. */
struct keeper_piece {
	struct block *block; /* reference; is STORED */
	char *copy;
	uint32_t len;
};

struct keeper_output {
	struct store_output name;
	struct keep_output id;
	struct keeper_piece *piece;
	uint32_t npieces;
	uint64_t len;
};

/* The code of a run, which the thread reads where it is, for it does not change. */
struct keeper_code {
	struct store_output name;
	struct run *r; /* reference */
};

/* A session that is written, or removed, by a job. */
struct keeper_item {
	struct keeper_item *next;
	struct store_name of;
	unsigned slot, generation;
	bool remove;
	bool replaces; /* a record of its name that this mount has not written */
	struct buf record;
	struct buf
		bare; /* the record without `output` and `code`, where the disk may have no room for these; or nothing */
	struct keeper_output *output; /* that are written */
	size_t noutputs;
	struct keeper_code *code; /* likewise */
	size_t ncodes;
	struct session *s;	     /* reference, if there is code of it */
	struct store_output *wanted; /* all that the record names */
	size_t nwanted;
	size_t bytes;
	int depot; /* descriptor of the depot's file */
	const unsigned char *depot_key;
	int fd;	      /* of the record that is being written */
	uint64_t sum; /* of the record; the thread works it out */
	uint64_t was; /* ... of what is on the disk, 0: nothing */
	int err;
	int beside_err;	  /* of `output` and `code`; where `err` is 0, `bare` was written */
	bool beside_done; /* they are there, all */
	bool done;	  /* it has no second turn */
	/* Of one that removes: */
	TAILQ_ENTRY(keeper_item) removal;
	struct touch touch;
	uint64_t id; /* of its record */
};

/* What users have used, see keeper_accounts.c. */
struct keeper_accounts {
	struct keeper *k;
	bool busy, failed, told;
	int err;
	uint64_t written,
		writing; /* accounts.changes of what is there, and of what is being written */
	struct buf text;
	uv_work_t work;
	uv_timer_t timer;
};

enum keeper_end_step {
	END_NONE,
	END_SLEEP,     /* sessions are to fall asleep */
	END_INTERRUPT, /* runs were interrupted */
	END_KILL,      /* ... and killed */
	END_WRITE,
	END_OVER,
};

struct keeper {
	struct fs *fs;
	struct store store;
	struct vault *vault;
	TAILQ_HEAD(keeper_dirty, session) dirty, refused; /* the others can be written meanwhile */
	uint64_t retry_ms; /* uv_now() from when on what was refused is tried again */
	struct keeper_item *removals, **removals_end;	   /* before what is dirty */
	TAILQ_HEAD(keeper_removing, keeper_item) removing; /* these, and those of the job */
	bool unremoved; /* some of them were tried, and wait for another time */
	uv_timer_t timer;
	uint64_t round_ms; /* uv_now() when the last round began */
	unsigned storing;  /* by the vault */
	bool told;	   /* that the disk refuses */
	bool unkept;	   /* at the end: not all was written, or could be saved */
	bool comes_back;   /* likewise: what was removed is there still */
	bool urgent; /* the next round is to name what was saved, and does not wait for its time */
	bool loading, closed;
	bool flushed; /* it is the end: nothing is written twice */
	bool left; /* a record that is there may name what nobody holds any more: nothing is forgotten from now on */
	TAILQ_HEAD(keeper_held_list, keeper_held) held;
	struct keeper_held *held_found; /* see keeper_held.c */
	bool not_ours; /* what such a record names may be there, and be another key's, or version's */

	bool busy; /* a job is under way */
	uv_work_t work;
	struct keeper_item *job;
	uint64_t mark; /* vault_mark() before it */
	bool all;      /* nothing else was dirty */

	bool bringing;
	struct keeper_accounts accounts;

	enum keeper_end_step step;
	void (*look)(struct keeper *k); /* from then on: something has come to its end */
	uv_timer_t end_timer;
	uint64_t step_ms;
	struct awake {
		unsigned running, saving, other;
	} awake;	   /* when it was last looked */
	uint64_t freed_ms; /* uv_now() when there were fewer than before, or 0 */
	void (*done)(void *data);
	void *data;
};

/* ---- keeper.c ---- */

/* All sessions are written once more. */
void keeper_flush(struct keeper *k);
/* Is nothing on its way? */
bool keeper_is_idle(const struct keeper *k);
/* If no record names it: what nobody had any more at that vault_mark() is removed. */
void keeper_forget(struct keeper *k, uint64_t mark);
/* No more of it. */
void keeper_stop(struct keeper *k);

/* ---- keeper_item.c ---- */

struct store_name keeper_name(const struct session *s);
/* Return: NULL with *@ret_err if it can't be written: -ENOMEM, -EFBIG. */
struct keeper_item *keeper_item_new(struct keeper *k, struct session *s, int *ret_err);
/* Of a record's bytes. */
uint64_t keeper_sum(const struct buf *record);
/* One that is there. Return: 0 with the record, which points into @text, also to be cleared if not; -EBADMSG, -EKEYREJECTED,
 * -errno. */
int keeper_read(const struct keeper *k, const char *template, const char *name, struct buf *text,
		struct record *ret);
/* It was written: its outputs and code need not be again. */
void keeper_item_kept(const struct keeper_item *item, struct session *s);
void keeper_item_free(struct keeper *k, struct keeper_item *item);
/* The name of an output's file. */
struct store_output keeper_output_name(const struct keep_output *o);
struct store_output keeper_code_name(const struct keep_output *o, const struct run *r);
/* Of keep_io: the vault's name of it. */
const char *keeper_saved_name(void *data, const struct saved *saved);
/* See keeping.h. */
void keeper_bring(struct session *s, struct run *r, unsigned which);

/* ---- keeper_write.c ---- */

/* In another thread: writes them all, but those that are on the disk as they are, or sets their `err`. For records the reserve is
 * taken, if need be. */
void keeper_write(struct store *st, struct keeper_item *items);

/* ---- keeper_held.c ---- */

/* What it names has references from now on. @record: NULL: it can't be read. Return: NULL if out of memory: nothing at all is
 * removed from the vault then. */
struct keeper_held *keeper_hold(struct keeper *k, const char *template, const char *name,
				const struct record *record);
/* This mount does write it. @h may be NULL. */
void keeper_hold_no_more(struct keeper *k, struct keeper_held *h);
/* All records were looked at. */
void keeper_hold_found(struct keeper *k);
/* Likewise of who goes on, who did not: it looks at those that it does not write. */
void keeper_hold_again(struct keeper *k);
/* Is there a record of that name that this mount does not write? */
bool keeper_holds(const struct keeper *k, const struct store_name *of);
/* That record is about to be removed, or was replaced. */
void keeper_let_go(struct keeper *k, const struct store_name *of);
void keeper_held_clear(struct keeper *k);

/* ---- keeper_accounts.c ---- */

void keeper_accounts_init(struct keeper *k);
void keeper_accounts_load(struct keeper *k);
/* See keeping.h. */
void keeper_spent(struct fs *fs);
/* They are written at once, from now on. */
void keeper_accounts_flush(struct keeper *k);
bool keeper_accounts_written(const struct keeper *k);
/* ... or can't be. */
bool keeper_accounts_done(const struct keeper *k);
void keeper_accounts_close(struct keeper *k);

/* ---- keeper_removal.c ---- */

/* All of that name is to go from the disk. @id: of its record, or 0. Return: 0 or -ENOMEM. */
int keeper_remove(struct keeper *k, const struct store_name *of, uint64_t id);
/* It is about to be freed. */
void keeper_removed(struct keeper *k, struct keeper_item *item);
/* Of struct keeping. */
struct touch *keeper_next_removal(const struct fs *fs, struct touch *last);
int keeper_put_removal(struct fs *fs, struct touch *removal, struct buf *out, uint64_t *ret_id);
int keeper_get_removal(struct fs *fs, uint64_t id, struct record_reader fields);

#endif
