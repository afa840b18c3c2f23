/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: who has done what, as JSON Lines in a file of the administrator's. */
#ifndef XSBX_FS_SESSION_AUDIT_H
#define XSBX_FS_SESSION_AUDIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "audit_rate.h"
#include "fs/request/who.h"
#include "vm/base/buf.h"
#include "vm/base/record.h"
#include "vm/base/rotated.h"

struct conf;
struct fs;
struct front;
struct job;
struct problem;
struct run;
struct sandbox_denied;
struct session;
struct settings;

/*
 * Theory of operation
 * -------------------
 * A line is in the file before anybody is told of what it says. Where nothing survives the daemon, it is written at once. Else lines
 * are kept until the turn's records are committed, these lines among them, and are written then, before anything is said (struct turn).
 * A daemon that is killed in between has left them to the next one, which looks at the number of the last line in the file and
 * writes those behind it. So a line that was acknowledged is there, once, and what was not done has none.
 *
 * Lines have numbers, one after the other, over rotations, deaths, and mounts that go on with the same file: where one is missing,
 * a line is missing. Those that could not be written are counted, and told of in the first that can be.
 *
 * All that is not ours in a line, names of programs and sessions, is made UTF-8 first: a line is one line, and JSON, whatever is in it.
 */

struct audit {
	struct rotated file;
	const char *mount;   /* its path; the configuration's */
	bool required, code; /* of the configuration */
	bool going;	     /* it is the daemon: lines are written */
	bool blind;	     /* it has not got hold of the file yet: what is pending may be there */
	bool failing;	     /* the last line could not be written */
	int stuck;	     /* 0; -errno: why it can't be rotated, which was told */
	uint64_t next;	     /* number of the next line, from 1 */
	uint64_t lost, lines;	/* since the mount: that could not be, and were written */
	uint64_t untold;	/* of those lost, that no line tells of */
	struct buf pending;	/* lines that are not in the file yet */
	uint64_t first;		/* number of the first of them */
	bool changed;		/* what audit_put() puts is another */
	struct audit_rate rate; /* of lines about what was refused, or tidied up */
};

enum audit_how {
	AUDIT_FIRST,	  /* nobody has the file: if another process has, it is refused */
	AUDIT_TAKES_OVER, /* the daemon before has it, and this may be refused: it goes on then */
	AUDIT_REVIVES, /* the daemon before is dead: without the file it goes on, keeps some lines, loses more, and tries again with each */
};

/**
 * audit_open() - Open the file that the configuration names
 * @fs: Mount, whose `audit` is set; stays NULL if none is named
 * @conf: Configuration
 * @how: See above
 * @ret_why: On failure, in words
 *
 * Before the daemon is confined. Return: 0, -errno.
 */
int audit_open(struct fs *fs, const struct conf *conf, enum audit_how how, char *ret_why,
	       size_t size);
/* What the administrator does about a file that can't be written, as far as it is where it does not belong; or "". */
const char *audit_misplaced(const struct conf *conf);
/* The directory that the daemon writes to, in @path, which has PATH_MAX bytes; or NULL: it needs none, or there is none. @a: or NULL */
char *audit_directory(const struct audit *a, char *path);
void audit_close(struct fs *fs);

/* This is the daemon now: goes on behind the last number, with what the one before has left. */
void audit_go(struct fs *fs);

/* What was kept is written. Behind each commit. */
void audit_flush(struct fs *fs);

/* May something be done that is to have a line? @more: bytes it has beyond what all have. Return: 0; -ENOSPC, with @ret_why: not while
 * there is no room for it. */
int audit_may(struct fs *fs, size_t more, struct problem *ret_why);
/* Likewise of what executes @text, code or words with a NUL behind each; NULL: it is not known yet. */
int audit_may_run(const struct session *s, const struct buf *text, struct problem *ret_why);
/* ... and of settings. */
int audit_may_set(const struct session *s, const struct settings *with, struct problem *ret_why);

/* Remembers who asks, for what comes of it later. */
struct who audit_asker(struct fs *fs);

/* ---- one from the other ---- */

/* Fields of a record; and there, before audit_go(). Return: 0, -EBADMSG, -ENOMEM. */
void audit_put(const struct audit *a, struct buf *out);
int audit_get(struct audit *a, struct record_reader fields);

/* ---- lines; all do nothing where there is no file ---- */

/* Text of any bytes as JSON: what is no UTF-8 is replaced. */
json_t *audit_text(const char *text, size_t len);

/* Takes over @more, an object or NULL. @s: or NULL */
void audit_add(struct fs *fs, const char *action, const struct session *s, json_t *more);

/* The mount, and its daemon: "mounted", "taken over", "ending", "ended". */
void audit_mount(struct fs *fs, const char *what);
/* A session is made, or removed. */
void audit_session(const struct session *s, const char *what);
/* A run or job was written; has ended. */
void audit_run(const struct session *s, const struct run *r);
void audit_run_ended(const struct session *s, const struct run *r);
/* A checkpoint of that name is asked for; what becomes of it `events` tells. */
void audit_checkpoint(const struct session *s, const char *name);
/* Settings were changed to @with. */
void audit_config(const struct session *s, const struct settings *with);
/* Words for a `ctl`. @f: NULL: the root's */
void audit_ctl(struct fs *fs, const struct front *f, const char *words, size_t len);
/* Something was refused to a user, or has failed. */
void audit_problem(const struct front *f, const struct problem *p);
/* ... in the root. */
void audit_complaint(struct fs *fs, const struct problem *p);
/* @unreported: how many before it have no line */
void audit_connected(const struct session *s, const char *name, uint16_t port, unsigned unreported);
void audit_denied(const struct session *s, const struct sandbox_denied *what, unsigned unreported);
/* So many have no line, and nobody is left whose next line could say so: the mount's does. */
void audit_unreported(struct fs *fs, uint64_t n);
/* A job or named run that was started is removed, of which `events` tells nothing. */
void audit_job_removed(const struct job *j);
/* What `events` tells of that is none of these. */
void audit_event(struct fs *fs, const struct session *s, const char *kind, const char *words);

#endif
