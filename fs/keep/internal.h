/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of fs/keep/ share: pairs of put and get, one for each noun. */
#ifndef XSBX_FS_KEEP_INTERNAL_H
#define XSBX_FS_KEEP_INTERNAL_H

#include "fs/session/job.h"
#include "fs/session/session.h"
#include "keep.h"
#include "vm/base/problem.h"

/*
 * Who puts appends fields to `out`, and looks at `out.failed` at the end. Who gets is called once for each field, by
 * keep_fields(), and returns 0, also for tags that it does not know, or -EBADMSG, -ENOMEM.
 *
 * Tags are numbers in enums. Never give one to something else.
 */

/* A session's record that is being written. */
struct keep_out {
	struct buf *out;
	const struct session *s;
	const struct keep_io *io;
	/* At rest, those that are in it, oldest first: runs are referred to by their place here, from 1. */
	struct run **run;
	size_t nruns;
};

/* What is not there: the first of it, and of how many. */
struct keep_missing {
	struct problem first;
	unsigned n;
};

/* One that is being read. */
struct keep_in {
	struct fs *fs;
	struct session *s;
	const struct keep_io *io;
	struct run **run; /* at rest, as above; each with a reference until the end */
	size_t nruns, cap;
	struct problem not_allowed; /* what was wrong with its settings, or a checkpoint's */
	bool back;		    /* it is asleep as it was before it was awake; */
	uint32_t back_err;	    /* ... for what came later could not be written: an errno */
	struct problem unsaved;	    /* what it was to be asleep with can't be had: why not */
	struct saved *unreadable;   /* ... and is there: what stands for it, a reference; or NULL */
	bool unkept;		    /* some output of the run that is read was not written */
	struct keep_missing missing; /* runs of which something is not there */
	struct problem *why;
};

/* Slots, until keep_join(). */
#define KEEP_NOBODY  UINT32_MAX
#define KEEP_BY_NAME (UINT32_MAX - 1) /* it is found by its name */

typedef int (*keep_field_fn)(struct keep_in *in, void *to, const struct record_field *f);

/* Return: 0, or what @fn returned, or -EBADMSG. */
int keep_fields(struct keep_in *in, struct record_reader fields, keep_field_fn fn, void *to);
/* Likewise of fields within a field. */
int keep_inside(struct keep_in *in, const struct record_field *f, keep_field_fn fn, void *to);

/* ---- value.c ---- */

/* One more of them, @why. */
void keep_miss(struct keep_missing *m, const struct problem *why);

/* Nothing, where there is none. */
void keep_put_problem(struct buf *out, unsigned tag, const struct problem *p);
int keep_get_problem(const struct record_field *f, struct problem *ret_p);
/* Likewise. Without memory to remember it there is none. */
void keep_put_kept(struct buf *out, unsigned tag, const struct problem_kept *k);
int keep_get_kept(const struct record_field *f, struct problem_kept *k);
/* Nothing, if it is empty. */
void keep_put_buf(struct buf *out, unsigned tag, const struct buf *b);
/* At most @most bytes. */
int keep_get_buf(const struct record_field *f, struct buf *dest, size_t most);
/* What a run began with, or what a session is, but for the checkpoint. */
struct rerun_base;
uint64_t keep_base_flags(const struct rerun_base *base);
int keep_get_base_flags(const struct record_field *f, struct rerun_base *base);
/* Text of the heap, or NULL for "". */
int keep_get_text(const struct record_field *f, char **dest, size_t most);
/* Is each NAME=VALUE, with a NUL behind it? */
bool keep_env_is_sound(const struct buf *env);
/* Nothing if it is 0. */
void keep_put_u64(struct buf *out, unsigned tag, uint64_t v);
/* Whole settings, as text. */
int keep_put_settings(struct buf *out, unsigned tag, const struct settings *s);
/* Replaces @dest. Where what the text says is not allowed any more (live it is), or can't be, it stays, and @why says so. Return: 1
 * then, 0, -EBADMSG, -ENOMEM. */
int keep_get_settings(struct keep_in *in, const struct record_field *f, struct settings *dest,
		      struct problem *why);
/* With others it would be another session, and be written as that: another mount may allow them. Return: -EACCES. */
int keep_not_allowed(struct keep_in *in, const char *whose, const struct problem *why);
/* Bytes that grow, live: here or elsewhere. Nothing, if there are none at the beginning of their positions. */
void keep_put_text(struct keep_out *o, unsigned tag, struct trail *t, uint64_t at,
		   const char *bytes, size_t len);
/* At most @most bytes; @ret_at: or NULL. */
int keep_get_text_of(struct keep_in *in, const struct record_field *f, struct trail *t,
		     struct buf *dest, size_t most, uint64_t *ret_at);
/* Who is told of names of what was saved. */
struct keep_naming {
	int (*fn)(void *data, const char *name);
	void *data;
};

/* Tells one. Return: 0, -EBADMSG, or as `fn`. */
int keep_name(const struct keep_naming *to, const struct record_field *f);
/* What is saved, by name. Return: whether it could be named. */
bool keep_put_saved(struct keep_out *o, unsigned tag, const struct saved *saved);
/* Return: 0; 1 with @why: it is not there, or damaged, and then *@dest may be what stands for it; -EBADMSG, -ENOMEM. */
int keep_get_saved(struct keep_in *in, const struct record_field *f, struct saved **dest,
		   struct problem *why);

/* ---- run.c ---- */

void keep_put_run(struct keep_out *o, unsigned tag, struct run *r);
/* Adds one to `in`, and to the session's lists. */
int keep_get_run(struct keep_in *in, const struct record_field *f);
/* At rest, how a run is referred to; 0: it is not in the record. */
uint64_t keep_run_place(const struct keep_out *o, const struct run *r);
/* Return: -EBADMSG if there is none. */
int keep_run_at(const struct keep_in *in, const struct record_field *f, struct run **ret_r);
/* Live: a record of it was read. */
int keep_get_live_run(struct keep_in *in, const struct record *record);
/* keep_run_of() does not find it any more. */
void keep_forget_run(const struct run *r);

/* ---- code.c ---- */

/* Return: whether it was put; if not, all of it is to be in the record. */
bool keep_put_code(struct keep_out *o, unsigned tag, struct run *r);
/* @ret_away: how many bytes are elsewhere; 0 before. */
int keep_get_code(struct keep_in *in, const struct record_field *f, struct run *r,
		  uint64_t *ret_away);
/* At rest: brings them, once it is known whose they are. */
int keep_code_back(struct keep_in *in, struct run *r, uint64_t away);
/* Bytes of it that are in the record. */
size_t keep_code_here(const struct run *r);

/* ---- output.c ---- */

void keep_put_outputs(struct keep_out *o, unsigned tag, struct run *r);
/* One of them. */
int keep_get_output(struct keep_in *in, const struct record_field *f, struct run *r);
/* A part of them was not written: that is said of the run, and of its session. */
void keep_tell_unkept(struct keep_in *in, struct run *r);
/* Those that are elsewhere, once it is known whose they are. */
int keep_outputs_back(struct keep_in *in, struct run *r);

/* ---- front.c ---- */

void keep_put_front(struct keep_out *o, unsigned tag, struct front *front);
int keep_get_front(struct keep_in *in, const struct record_field *f, struct front *front);
/* Live: the run that it awaits is there. Return: 0, -EBADMSG, -ENOMEM. */
int keep_join_front(const struct fs *fs, struct front *front);

/* ---- job.c ---- */

void keep_put_job(struct keep_out *o, unsigned tag, struct job *j);
int keep_get_job(struct keep_in *in, const struct record_field *f);
int keep_get_live_job(struct keep_in *in, const struct record *record);

/* ---- lasting.c: what was saved of it, and whose copy it is ---- */

/* What it is at rest. */
enum session_state keep_state(const struct keep_out *o);
/* ... and if it is closed then, why. */
void keep_closed(const struct keep_out *o, struct problem *ret_why);
void keep_put_asleep(struct keep_out *o, unsigned tag);
int keep_get_asleep(struct keep_in *in, const struct record_field *f);
/* Their names, see keep_get_names(): of keep_fields(), @to is a struct keep_naming. */
int keep_name_asleep(struct keep_in *in, void *to, const struct record_field *f);
int keep_name_checkpoint(struct keep_in *in, void *to, const struct record_field *f);
void keep_put_origin(struct keep_out *o, unsigned tag);
int keep_get_origin(struct keep_in *in, const struct record_field *f);
void keep_put_saving(struct keep_out *o, unsigned tag);
int keep_get_saving(struct keep_in *in, const struct record_field *f);
void keep_put_checkpoint(struct keep_out *o, unsigned tag, const struct checkpoint *cp);
int keep_get_checkpoint(struct keep_in *in, const struct record_field *f);

/* ---- replay.c ---- */

/* At rest there is none: a session that is one is removed then, and an empty field says what it was. */
void keep_put_replay(struct keep_out *o, unsigned tag);
int keep_get_replay(struct keep_in *in, const struct record_field *f);

/* ---- session.c ---- */

/* What is known of it before there is one. */
struct keep_whose {
	struct keep_name name;
	bool dead;
};

int keep_get_whose(const struct record *record, struct keep_whose *ret);
/* Of keep_fields(), @to is in->s. */
int keep_session_field(struct keep_in *in, void *to, const struct record_field *f);

/* ---- revive.c ---- */

/* Makes the session that a record begins with, at its place; NULL: a new one. @at: `dead` is what it says. Return: 0, or -errno
 * with in->why. */
int keep_revive(struct keep_in *in, const struct record *record, struct session_place *at);
/* What a record says of it. Return: likewise. */
int keep_fill(struct keep_in *in, const struct record *record);
/* Nothing of it is told to anybody. Its runs are held by nobody else. */
void keep_discard(struct session *s);
int keep_damaged(struct problem *why, const char *what);

/* ---- live.c ---- */

/* What was read of it is held by nobody but those that were read with it: it goes. */
void keep_drop(struct session *s);

/* ---- sound.c ---- */

/* Is there a sandbox in its state? */
bool keep_is_up(const struct session *s);
/* Do its parts fit together, and is it what a session can be? */
bool keep_is_sound(const struct session *s, bool live);

/* ---- join.c ---- */

/* Scratch files without a name that nobody has open. */
void keep_drop_unlinked(struct session *s);

/* ---- aside.c: what stands beside its runs ---- */

void keep_put_connlog(struct keep_out *o, unsigned tag);
int keep_get_connlog(struct keep_in *in, const struct record_field *f);
void keep_put_lessons(struct keep_out *o, unsigned tag);
int keep_get_lessons(struct keep_in *in, const struct record_field *f);
void keep_put_questions(struct keep_out *o, unsigned tag);
int keep_get_questions(struct keep_in *in, const struct record_field *f);
void keep_put_net_used(struct keep_out *o, unsigned tag);
int keep_get_net_used(struct keep_in *in, const struct record_field *f);
void keep_put_netlog(struct keep_out *o, unsigned tag);
int keep_get_netlog(struct keep_in *in, const struct record_field *f);
void keep_put_learned(struct keep_out *o, unsigned tag);
int keep_get_learned(struct keep_in *in, const struct record_field *f);
void keep_put_file_events(struct keep_out *o, unsigned tag);
int keep_get_file_events(struct keep_in *in, const struct record_field *f);
void keep_put_changes(struct keep_out *o, unsigned tag);
int keep_get_changes(struct keep_in *in, const struct record_field *f);
void keep_put_pause(struct keep_out *o, unsigned tag);
int keep_get_pause(struct keep_in *in, const struct record_field *f);
void keep_put_scratch(struct keep_out *o, unsigned tag, const struct scratch_file *file);
int keep_get_scratch(struct keep_in *in, const struct record_field *f);
int keep_get_live_scratch(struct keep_in *in, const struct record *record);
void keep_put_info(struct keep_out *o, unsigned tag);
int keep_get_info(struct keep_in *in, const struct record_field *f);

#endif
