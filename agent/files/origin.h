/* SPDX-License-Identifier: Apache-2.0 */
/* Who wrote this: which runs and jobs can have changed a file last. */
#ifndef XSBX_AGENT_FILES_ORIGIN_H
#define XSBX_AGENT_FILES_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "inodes.h"
#include "agent/protocol.h"

/*
 * Theory of operation
 * -------------------
 * Nothing is noted when a file is written. The kernel sets a file's time of change (ctime) at each change of its content,
 * attributes or name, and nobody but root can set it otherwise. We know when each run and job could write, from before
 * its first process to when nothing of it is left, and when the host's own requests were carried out. So whoever asks is
 * told whose period the time lies in: one of them as a rule; all that it can be if several went on at once, since a
 * process that has ended cannot be asked. What user code does with the file, its times and its attributes can't take the
 * one who did it off that list.
 *
 * - Times are compared as the kernel writes them: the edges of a period are what it writes at that moment into a file of
 *   our own. Its clock for files has steps of milliseconds, before Linux 6.13; two who followed each other within
 *   one are both named.
 * - A run whose end leaves processes behind (run.c looks for them anyway, once it has ended) goes on until there are none but
 *   interpreters and what belongs to jobs; and until the interpreter has no file mapped any more, for it could write to
 *   pages of it without a time being noted. A thread, or a timer, of an interpreter counts for the run that is active; after
 *   that nobody is active, and the answer is `after run N`.
 * - When the host itself renames a file or changes its attributes, who wrote it stays known: it is noted, with the time.
 * - What is unpacked brings along who wrote it, as text; see pack_record.h. That holds until the file's next change.
 * - Periods are dropped where there are ORIGIN_PERIODS: files from that time are `earlier`.
 *
 * In a working directory that lies over one of the host's, files that nobody here has changed have times of the host's.
 */

#define ORIGIN_PERIODS 4096u
#define ORIGIN_NOTES   4096u /* of the host's own renames and the like; then they are begun anew */
#define ORIGIN_TEXTS   8192u
#define ORIGIN_CACHE   256u

enum origin_state {
	ORIGIN_PLANNED, /* it comes next */
	ORIGIN_ACTIVE,
	ORIGIN_ENDED, /* whether anything was left behind is not known yet */
	ORIGIN_LEFT,  /* something was */
	ORIGIN_CLOSED,
};

struct origin_period {
	int64_t begin, end; /* ns since the epoch; `end` of a closed one */
	uint32_t text, id;
	enum origin_state state;
};

/* Of a file that was not changed after `until`. */
struct origin_note {
	int64_t until; /* ORIGIN_UNPACKED: what is unpacked */
	uint32_t text;
};

#define ORIGIN_UNPACKED (-1)

struct origin {
	int fd;			       /* a file of our own, for the time; -1: none */
	bool fine;		       /* that time has no steps */
	bool over;		       /* the working directory lies over one of the host's */
	struct origin_period *periods; /* as they came */
	size_t n, cap, nleft;	       /* `nleft`: of which something is left */
	int64_t forgotten;	       /* periods that ended before this were dropped */
	bool client_last; /* since the host's last change no other period has begun or ended */
	char **texts;	  /* 0: nobody */
	size_t ntexts, texts_cap;
	uint32_t cache[ORIGIN_CACHE]; /* texts by their hash */
	uint32_t client;	      /* text */
	struct inodes noted;	      /* place in `notes`, from 1 */
	struct origin_note *notes;
	size_t nnotes, notes_cap, nown; /* `nown`: not unpacked ones */
	int64_t unpacked;		/* when that was over; 0: never */
};

/* What a file had before the host changed its name or attributes. */
struct origin_held {
	uint32_t text;
};

/** origin_init() - Prepare. @o: zeroed. @over: the working directory lies over one of the host's */
void origin_init(struct origin *o, bool over);

/** origin_fini() - Free all. */
void origin_fini(struct origin *o);

/** origin_author() - AUTHOR has come: what the run or job @id, which comes next, is called. */
void origin_author(struct origin *o, uint32_t id, struct proto_str name);

/** origin_begin() - From now on it can write; one without a name is nobody. */
void origin_begin(struct origin *o, uint32_t id);

/**
 * origin_end() - It has ended
 * @o: Origin
 * @id: Run or job; one that has not begun is ignored
 * @state: ORIGIN_ENDED, ORIGIN_LEFT or ORIGIN_CLOSED
 */
void origin_end(struct origin *o, uint32_t id, enum origin_state state);

/** origin_ended() - Has a run ended, and it was not looked yet what is left of it? */
bool origin_ended(const struct origin *o);

/**
 * origin_look() - It was looked what is left
 * @o: Origin
 * @added: Of what has just ended, something is
 * @any: Of what has ended at all, something is
 */
void origin_look(struct origin *o, bool added, bool any);

/** origin_request() - The host is about to change something. */
void origin_request(struct origin *o);

/** origin_requested() - It has. */
void origin_requested(struct origin *o);

/** origin_hold() - Before the host changes a name or attributes: who wrote it? */
struct origin_held origin_hold(struct origin *o, const struct stat *st);

/** origin_keep() - It has, and @st is what the file has now: it was written by who wrote it before. */
void origin_keep(struct origin *o, struct origin_held held, const struct stat *st);

/** origin_unpacking() - All files are replaced. */
void origin_unpacking(struct origin *o);

/** origin_inherit() - A file that was unpacked was written by these. Return: 0 or -ENOMEM. */
int origin_inherit(struct origin *o, ino_t ino, struct proto_str text);

/** origin_unpacked() - All are there. */
void origin_unpacked(struct origin *o);

/**
 * origin_of() - Who can have changed the file last?
 * @o: Origin
 * @st: Of it
 * @ret_text: PROTO_ORIGIN_MAX + 1 bytes; "": nobody that is known of
 *
 * Return: its length.
 */
size_t origin_of(const struct origin *o, const struct stat *st, char *ret_text);

#endif
