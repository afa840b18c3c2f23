/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions tell whoever keeps them on a disk (fs/keep/), which is layered above them. */
#ifndef XSBX_FS_SESSION_KEEPING_H
#define XSBX_FS_SESSION_KEEPING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vm/base/record.h"

struct fs;
struct problem;
struct run;
struct session;
struct touch;

/* Set once, or NULL: nothing is kept. */
struct keeping {
	/* Something of it is to be there after a power cut. */
	void (*changed)(struct session *s);
	/* Something was saved of it, and is to be there as soon as can be. */
	void (*saved)(struct session *s);
	/* It is removed: so is what was kept. */
	void (*removed)(struct session *s);
	/* A long output is to be brought back, for fetch.h: fetch_brought() is the answer. */
	void (*bring)(struct session *s, struct run *r, unsigned which);

	/* Somebody has used something: fs->accounts is to be there at the next mount. */
	void (*spent)(struct fs *fs);

	/* What is removed, and on the disk still, for who writes records: all of these, by what is embedded in them. @last: the one
	 * before, or NULL. */
	struct touch *(*next_removal)(const struct fs *fs, struct touch *last);
	/* Appends fields. Return: 0, -ENOMEM. */
	int (*put_removal)(struct fs *fs, struct touch *removal, struct buf *out, uint64_t *ret_id);
	/* Return: 0, -EBADMSG, -ENOMEM. */
	int (*get_removal)(struct fs *fs, uint64_t id, struct record_reader fields);
};

/* What can be done about what is damaged there: the end of a `fix`. */
#define KEEPING_MEND "A copy of state_dir that is whole can be put there while nothing is mounted."

/* Embedded in a session. */
struct kept {
	bool dirty; /* on the list of those to be written: `link` */
	bool damaged; /* its record could not be read, or those of a daemon that died: it can do nothing but be removed */
	bool refused; /* on another list: it could not be written, and is tried again later */
	int err; /* why it could not be written, and was told; 0: what there is of it is on the disk */
	uint64_t sum;	  /* of what was written last, 0: nothing */
	uint64_t bytes;	  /* of its record there */
	unsigned storing; /* saved things of it that are on their way to the disk */
	TAILQ_ENTRY(session) link;
};

/* What there is of it is not on the disk, and why. Return: false if that is not so. */
bool keeping_problem(const struct session *s, struct problem *ret_p);

/* Is it that one? What is read from the disk has it no more, whatever was so when it was written. */
bool keeping_is_problem(const struct problem *p);

/* Also of a removed one, of which it does nothing. */
void keeping_changed(struct session *s);
void keeping_saved(struct session *s);
void keeping_removed(struct session *s);

#endif
