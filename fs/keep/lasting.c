/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what was saved of a session: its sleep, its checkpoints, whose copy it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/config/from.h"
#include "fs/session/fs.h"
#include "internal.h"

/* Never reuse a number. */
enum {
	ASLEEP_SAVED = 1,
	ASLEEP_FILES_ONLY,
	ASLEEP_UNFIT,
	ASLEEP_WAKE,
	ASLEEP_SINCE,
	ASLEEP_SINCE_MS,
	ASLEEP_ASKED_MS,
	ASLEEP_WOKEN,
	ASLEEP_KEPT,
	ASLEEP_SLEPT_MS,
	ASLEEP_TOOK_MS,
	ASLEEP_COPY,
	ASLEEP_ANEW,
	ASLEEP_LOST,
	ASLEEP_BEFORE,
	ASLEEP_BEFORE_SINCE,
	ASLEEP_BACK, /* at rest: what was saved is from before it was awake; 0, also live: it was closed, for that can't be read */
	ASLEEP_DAMAGED,	 /* live */
	ASLEEP_BACK_ERR, /* at rest: why nothing newer could be written, an errno */
};

enum { ORIGIN_SESSION = 1, ORIGIN_CHECKPOINT, ORIGIN_PLACE, ORIGIN_TIME, ORIGIN_THERE };

enum { SAVING_SLEEP = 1, SAVING_BY_IDLE, SAVING_OF, SAVING_BEHIND };

enum {
	CP_NAME = 1,
	CP_NUMBER,
	CP_PLACE,
	CP_STATE,
	CP_AUTOMATIC,
	CP_LEAVING,
	CP_TIME,
	CP_RUN,
	CP_SAVED,
	CP_SETTINGS, /* missing: those of the session */
	CP_PROBLEM,
	CP_UNWRITTEN, /* live */
	CP_BEHIND,    /* live */
	CP_FOREIGN,   /* live: settings that are not allowed; at rest they are its settings */
	CP_LIFE,
	CP_ORDINAL, /* missing: CP_RUN */
};

/* ---- at rest ---- */

static bool is_named(const struct keep_out *o, const struct saved *saved)
{
	return saved && o->io->name(o->io->data, saved);
}

/* It was not saved since it woke up: then it is what it was before that. One whose sleep can't be read is asleep with it: who
 * reads the record tries that again. */
static bool goes_back(const struct keep_out *o)
{
	const struct session *s = o->s;
	const bool over = s->state == SESSION_CLOSED || s->state == SESSION_FAILED;

	return !o->io->live && (!over || s->asleep.damaged) && !is_named(o, s->asleep.saved) &&
	       is_named(o, s->asleep.before);
}

enum session_state keep_state(const struct keep_out *o)
{
	const struct session *s = o->s;

	if (o->io->live)
		return s->state;
	if (goes_back(o))
		return SESSION_ASLEEP;
	if (s->state == SESSION_CLOSED || s->state == SESSION_FAILED)
		return s->state;
	if (is_named(o, s->asleep.saved))
		return SESSION_ASLEEP;
	/* There is nothing in it yet, or never will be more. */
	if (s->state == SESSION_NEW || (s->state == SESSION_STARTING && !s->asleep.saved) ||
	    s->settings.fresh)
		return SESSION_NEW;
	return SESSION_CLOSED;
}

void keep_lost(const struct session *s, bool back, struct problem *ret_why)
{
	if (s->settings.spec.work) {
		problem_set(
			ret_why, PROBLEM_NOT_KEPT, "echo reset > ctl gives the session a new one.",
			"xsbxfs ended, and with it the copy of a directory of the host that the "
			"session worked on");
		return;
	}
	problem_set(ret_why, PROBLEM_NOT_KEPT, "echo reset > ctl gives the session a new sandbox.",
		    "xsbxfs ended before the session was saved: its files and variables are lost");
	if (back)
		checkpoint_advise(ret_why);
}

/* Is there a checkpoint that the record says to be whole? */
static bool any_checkpoint(const struct keep_out *o)
{
	const struct checkpoint *cp;

	TAILQ_FOREACH(cp, &o->s->checkpoints.list, link)
		if (cp->state == CHECKPOINT_WHOLE && !checkpoint_is_lost(cp) &&
		    is_named(o, cp->saved))
			return true;
	return false;
}

void keep_closed(const struct keep_out *o, struct problem *ret_why)
{
	if (o->s->state == SESSION_CLOSED)
		*ret_why = *problem_kept(&o->s->closed);
	else
		keep_lost(o->s, any_checkpoint(o), ret_why);
	if (o->s->state != SESSION_CLOSED && o->s->on_disk.err)
		problem_add(ret_why, " (%s)", strerror(-o->s->on_disk.err));
}

/* The heir would not have what was saved, and the session be lost for it: there is no record then. */
static void out_of_names(struct keep_out *o)
{
	if (!o->out->failed)
		o->out->failed = -ENOMEM;
}

/* ---- its sleep ---- */

void keep_put_asleep(struct keep_out *o, unsigned tag)
{
	const struct asleep *a = &o->s->asleep;
	const bool live = o->io->live, asleep = live || keep_state(o) == SESSION_ASLEEP;
	bool named;
	const size_t at = record_open(o->out, tag);

	if (goes_back(o)) {
		(void)keep_put_saved(o, ASLEEP_SAVED, a->before);
		record_time(o->out, ASLEEP_SINCE, &a->before_since);
		record_u64(o->out, ASLEEP_BACK, !a->damaged);
		keep_put_u64(o->out, ASLEEP_BACK_ERR, (uint64_t)-o->s->on_disk.err);
	} else if (asleep) {
		named = keep_put_saved(o, ASLEEP_SAVED, a->saved);
		if (live && a->saved && !named)
			out_of_names(o);
		keep_put_u64(o->out, ASLEEP_FILES_ONLY, a->files_only);
		keep_put_kept(o->out, ASLEEP_UNFIT, &a->unfit);
		record_time(o->out, ASLEEP_SINCE, &a->since);
		if (a->tried)
			record_u64(o->out, ASLEEP_BACK, false);
		keep_put_u64(o->out, ASLEEP_COPY, a->copy);
		keep_put_u64(o->out, ASLEEP_ANEW, a->anew);
	}
	if (live) {
		if (a->before && !keep_put_saved(o, ASLEEP_BEFORE, a->before))
			out_of_names(o);
		record_time(o->out, ASLEEP_BEFORE_SINCE, &a->before_since);
		keep_put_u64(o->out, ASLEEP_DAMAGED, a->damaged);
		keep_put_u64(o->out, ASLEEP_WAKE, a->wake);
		record_u64(o->out, ASLEEP_SINCE_MS, a->since_ms);
		record_u64(o->out, ASLEEP_ASKED_MS, a->asked_ms);
	}
	keep_put_u64(o->out, ASLEEP_WOKEN, a->woken);
	keep_put_u64(o->out, ASLEEP_KEPT, a->kept);
	keep_put_u64(o->out, ASLEEP_SLEPT_MS, a->slept_ms);
	keep_put_u64(o->out, ASLEEP_TOOK_MS, a->took_ms);
	record_str(o->out, ASLEEP_LOST, a->lost);
	record_close(o->out, at);
}

/* What it was saved as is not there, or damaged: it comes back without that, and keeps what there is. */
static int get_saved(struct keep_in *in, const struct record_field *f)
{
	struct asleep *a = &in->s->asleep;
	struct problem why = {0};
	const int e = keep_get_saved(in, f, &a->saved, &why);

	if (e <= 0)
		return e;
	saved_unref(in->unreadable);
	in->unreadable = steal_ptr(a->saved);
	problem_set(&in->unsaved, PROBLEM_DAMAGED, "", "%s", why.cause);
	return 0;
}

/* One that is not there is not missed before there is nothing else. */
static int get_before(struct keep_in *in, const struct record_field *f)
{
	struct problem why = {0};

	return only_errno(keep_get_saved(in, f, &in->s->asleep.before, &why));
}

static int get_back(struct keep_in *in, const struct record_field *f)
{
	const int e = record_get_bool(f, &in->back);

	in->s->asleep.tried = e == 0 && !in->back;
	return e;
}

static int asleep_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct asleep *a = to;

	switch (f->tag) {
	case ASLEEP_SAVED: return get_saved(in, f);
	case ASLEEP_BEFORE: return get_before(in, f);
	case ASLEEP_BEFORE_SINCE: return record_get_time(f, &a->before_since);
	case ASLEEP_BACK: return get_back(in, f);
	case ASLEEP_BACK_ERR: return record_get_u32(f, 4095, &in->back_err);
	case ASLEEP_DAMAGED: return record_get_bool(f, &a->damaged);
	case ASLEEP_FILES_ONLY: return record_get_bool(f, &a->files_only);
	case ASLEEP_UNFIT: return keep_get_kept(f, &a->unfit);
	case ASLEEP_WAKE: return record_get_bool(f, &a->wake);
	case ASLEEP_SINCE: return record_get_time(f, &a->since);
	case ASLEEP_SINCE_MS: return record_get(f, 0, UINT64_MAX, &a->since_ms);
	case ASLEEP_ASKED_MS: return record_get(f, 0, UINT64_MAX, &a->asked_ms);
	case ASLEEP_WOKEN: return record_get_bool(f, &a->woken);
	case ASLEEP_KEPT: return record_get_bool(f, &a->kept);
	case ASLEEP_SLEPT_MS: return record_get(f, 0, UINT64_MAX, &a->slept_ms);
	case ASLEEP_COPY: return record_get_bool(f, &a->copy);
	case ASLEEP_ANEW: return record_get_bool(f, &a->anew);
	case ASLEEP_LOST: return keep_get_text(f, &a->lost, 4096);
	case ASLEEP_TOOK_MS: return record_get(f, 0, UINT64_MAX, &a->took_ms);
	default: return 0;
	}
}

/* How long ago, by the wall clock; 0 if that has been set back. */
static uint64_t ms_since(const struct timespec *t)
{
	const struct timespec now = clock_now();
	const uint64_t s = (uint64_t)now.tv_sec - (uint64_t)t->tv_sec;
	const int64_t ms =
		(int64_t)MIN(s, (uint64_t)UINT32_MAX) * 1000 + (now.tv_nsec - t->tv_nsec) / 1000000;

	return now.tv_sec >= t->tv_sec && ms > 0 ? (uint64_t)ms : 0;
}

int keep_get_asleep(struct keep_in *in, const struct record_field *f)
{
	struct asleep *a = &in->s->asleep;
	const int e = keep_inside(in, f, asleep_field, a);

	/* The clock of uv_now() may have begun later, so this may be below zero: it is only ever taken from another. */
	if (e == 0 && !in->io->live)
		a->since_ms = uv_now(in->fs->loop) - ms_since(&a->since);
	return e;
}

int keep_name_asleep(struct keep_in *in, void *to, const struct record_field *f)
{
	(void)in;
	return f->tag == ASLEEP_SAVED || f->tag == ASLEEP_BEFORE ? keep_name(to, f) : 0;
}

/* ---- whose copy ---- */

void keep_put_origin(struct keep_out *o, unsigned tag)
{
	const struct origin *origin = &o->s->origin;
	size_t at;

	if (!*origin->session)
		return;
	at = record_open(o->out, tag);
	record_str(o->out, ORIGIN_SESSION, origin->session);
	if (*origin->checkpoint)
		record_str(o->out, ORIGIN_CHECKPOINT, origin->checkpoint);
	if (o->io->live)
		record_u64(o->out, ORIGIN_PLACE, (uint64_t)origin->slot << 32 | origin->generation);
	else
		keep_put_u64(o->out, ORIGIN_THERE,
			     session_by_slot(o->s->fs, origin->slot, origin->generation) != NULL);
	record_time(o->out, ORIGIN_TIME, &origin->time);
	record_close(o->out, at);
}

static int get_place(const struct record_field *f, unsigned *ret_slot, unsigned *ret_generation)
{
	uint64_t v;
	const int e = record_get(f, 0, UINT64_MAX, &v);

	if (e < 0)
		return e;
	*ret_slot = (unsigned)(v >> 32);
	*ret_generation = (unsigned)v;
	return 0;
}

static int origin_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct origin *o = to;
	bool there;

	(void)in;
	switch (f->tag) {
	case ORIGIN_SESSION: return record_get_str(f, o->session, sizeof(o->session));
	case ORIGIN_CHECKPOINT: return record_get_str(f, o->checkpoint, sizeof(o->checkpoint));
	case ORIGIN_PLACE: return get_place(f, &o->slot, &o->generation);
	case ORIGIN_TIME: return record_get_time(f, &o->time);
	case ORIGIN_THERE:
		if (record_get_bool(f, &there) < 0)
			return -EBADMSG;
		if (there)
			o->slot = KEEP_BY_NAME;
		return 0;
	default: return 0;
	}
}

int keep_get_origin(struct keep_in *in, const struct record_field *f)
{
	struct origin *o = &in->s->origin;
	struct from from;
	struct problem why;
	int e;

	o->slot = KEEP_NOBODY;
	e = keep_inside(in, f, origin_field, o);
	if (e == 0 && (from_parse(o->session, &from, &why) < 0 || !*from.template ||
		       *from.checkpoint || (*o->checkpoint && !plain_name_ok(o->checkpoint))))
		e = -EBADMSG;
	return e;
}

/* ---- being saved ---- */

void keep_put_saving(struct keep_out *o, unsigned tag)
{
	const struct saving *sv = &o->s->saving;
	size_t at;

	if (!o->io->live)
		return;
	at = record_open(o->out, tag);
	keep_put_u64(o->out, SAVING_SLEEP, sv->sleep);
	keep_put_u64(o->out, SAVING_BY_IDLE, sv->by_idle);
	if (sv->of)
		record_u64(o->out, SAVING_OF, (uint64_t)sv->of->slot << 32 | sv->of->generation);
	keep_put_u64(o->out, SAVING_BEHIND, sv->behind);
	record_close(o->out, at);
}

static int saving_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct saving *sv = to;

	(void)in;
	switch (f->tag) {
	case SAVING_SLEEP: return record_get_bool(f, &sv->sleep);
	case SAVING_BY_IDLE: return record_get_bool(f, &sv->by_idle);
	case SAVING_OF: return get_place(f, &sv->of_slot, &sv->of_generation);
	case SAVING_BEHIND: return record_get_u32(f, UINT32_MAX, &sv->behind);
	default: return 0;
	}
}

int keep_get_saving(struct keep_in *in, const struct record_field *f)
{
	return in->io->live ? keep_inside(in, f, saving_field, &in->s->saving) : -EBADMSG;
}

/* ---- checkpoints ---- */

static void put_checkpoint_settings(struct keep_out *o, const struct settings *s)
{
	struct buf mine = {0}, its = {0};

	if (settings_render(&o->s->settings, &mine) < 0 || settings_render(s, &its) < 0 ||
	    mine.len != its.len || memcmp(mine.data, its.data, its.len) != 0)
		(void)keep_put_settings(o->out, CP_SETTINGS, s);
	buf_clear(&mine);
	buf_clear(&its);
}

void keep_put_checkpoint(struct keep_out *o, unsigned tag, const struct checkpoint *cp)
{
	const bool whole = cp->state == CHECKPOINT_WHOLE && is_named(o, cp->saved);
	const bool ends = !o->io->live && !whole && cp->state != CHECKPOINT_FAILED;
	struct problem why = *problem_kept(&cp->problem);
	const size_t at = record_open(o->out, tag);

	if (o->io->live && cp->state == CHECKPOINT_WHOLE && !whole)
		out_of_names(o);
	if (ends)
		problem_set(&why, PROBLEM_NOT_KEPT, "Remove it: rmdir checkpoints/NAME.",
			    "xsbxfs ended before the checkpoint was on the disk");
	record_str(o->out, CP_NAME, cp->name);
	record_u64(o->out, CP_NUMBER, cp->number);
	record_u64(o->out, CP_PLACE, cp->place);
	record_str(o->out, CP_STATE, checkpoint_state_str(ends ? CHECKPOINT_FAILED : cp->state));
	keep_put_u64(o->out, CP_AUTOMATIC, cp->automatic);
	keep_put_u64(o->out, CP_LEAVING, cp->leaving);
	record_time(o->out, CP_TIME, &cp->time);
	keep_put_u64(o->out, CP_RUN, cp->run);
	record_u64(o->out, CP_ORDINAL, cp->ordinal);
	keep_put_u64(o->out, CP_LIFE, cp->life);
	if (whole)
		(void)keep_put_saved(o, CP_SAVED, cp->saved);
	if (cp->foreign)
		record_str(o->out, o->io->live ? CP_FOREIGN : CP_SETTINGS, cp->foreign);
	else
		put_checkpoint_settings(o, &cp->settings);
	if (!cp->foreign || o->io->live) /* it may be allowed in the next mount */
		keep_put_problem(o->out, CP_PROBLEM, &why);
	if (o->io->live) {
		keep_put_u64(o->out, CP_UNWRITTEN, cp->unwritten);
		keep_put_u64(o->out, CP_BEHIND, cp->state == CHECKPOINT_SAVING ? cp->behind : 0);
	}
	record_close(o->out, at);
}

static int get_checkpoint_state(const struct record_field *f, struct checkpoint *cp)
{
	char name[16];
	int e = record_get_str(f, name, sizeof(name));

	for (unsigned i = 0; e == 0 && i < CHECKPOINT_NSTATES; i++) {
		if (strcmp(name, checkpoint_state_str((enum checkpoint_state)i)) != 0)
			continue;
		cp->state = (enum checkpoint_state)i;
		return 0;
	}
	return -EBADMSG;
}

static int keep_text(const struct record_field *f, struct checkpoint *cp)
{
	if (!f->is_bytes || f->len > SETTINGS_TEXT_MAX || memchr(f->data, '\0', f->len))
		return -EBADMSG;
	free(cp->foreign);
	cp->foreign = strndup(f->data, f->len);
	return cp->foreign ? 0 : -ENOMEM;
}

/* Its settings are not allowed: it alone is of no use here, and stays as it is. One that is not there has nothing to stay. */
static int get_foreign(struct keep_in *in, const struct record_field *f, struct checkpoint *cp,
		       const struct problem *why)
{
	int e = keep_not_allowed(in, "a checkpoint's", why);

	if (in->io->live)
		return e;
	if (problem_kept(&cp->problem)->code == PROBLEM_DAMAGED)
		return 0;
	e = keep_text(f, cp);
	problem_keep(&cp->problem, &in->not_allowed);
	return e;
}

/* That it is not there matters more than what was the matter with it before. */
static int get_checkpoint_problem(const struct record_field *f, struct checkpoint *cp)
{
	if (problem_kept(&cp->problem)->code == PROBLEM_DAMAGED)
		return 0;
	return keep_get_kept(f, &cp->problem);
}

static int checkpoint_field(struct keep_in *in, void *to, const struct record_field *f)
{
	struct checkpoint *cp = to;
	struct problem why = {0}, damaged;
	int e;

	switch (f->tag) {
	case CP_NAME: return record_get_str(f, cp->name, sizeof(cp->name));
	case CP_NUMBER: return record_get_u32(f, UINT32_MAX, &cp->number);
	case CP_PLACE: return record_get_u32(f, CHECKPOINT_PLACES, &cp->place);
	case CP_STATE: return get_checkpoint_state(f, cp);
	case CP_AUTOMATIC: return record_get_bool(f, &cp->automatic);
	case CP_LEAVING: return record_get_bool(f, &cp->leaving);
	case CP_TIME: return record_get_time(f, &cp->time);
	case CP_RUN:
		e = record_get_u32(f, UINT32_MAX, &cp->run);
		cp->ordinal = cp->run;
		return e;
	case CP_ORDINAL: return record_get_u32(f, UINT32_MAX, &cp->ordinal);
	case CP_LIFE: return record_get_u32(f, UINT32_MAX, &cp->life);
	case CP_SAVED:
		e = keep_get_saved(in, f, &cp->saved, &why);
		if (e > 0 && !cp->saved) {
			problem_set(&damaged, PROBLEM_DAMAGED, "Remove it: rmdir checkpoints/NAME.",
				    "what was saved for the checkpoint can't be had: %s",
				    why.cause);
			problem_keep(&cp->problem, &damaged);
		}
		return MIN(e, 0);
	case CP_SETTINGS:
		e = keep_get_settings(in, f, &cp->settings, &why);
		return e <= 0 ? e : get_foreign(in, f, cp, &why);
	case CP_FOREIGN: return in->io->live ? keep_text(f, cp) : -EBADMSG;
	case CP_PROBLEM: return get_checkpoint_problem(f, cp);
	case CP_UNWRITTEN: return record_get_bool(f, &cp->unwritten);
	case CP_BEHIND: return record_get_u32(f, UINT32_MAX, &cp->behind);
	default: return 0;
	}
}

int keep_name_checkpoint(struct keep_in *in, void *to, const struct record_field *f)
{
	(void)in;
	return f->tag == CP_SAVED ? keep_name(to, f) : 0;
}

static bool is_free(const struct session *s, const struct checkpoint *cp)
{
	const struct checkpoint *other;

	TAILQ_FOREACH(other, &s->checkpoints.list, link)
		if (other->number == cp->number || other->place == cp->place ||
		    strcmp(other->name, cp->name) == 0)
			return false;
	return true;
}

/* What goes with one that is there is nothing to one that is not: it costs that checkpoint, and not the session. */
static void forget_whole(struct checkpoint *cp)
{
	cp->unwritten = false;
	free(cp->foreign);
	cp->foreign = NULL;
}

static int check_checkpoint(struct keep_in *in, struct checkpoint *cp)
{
	if (!plain_name_ok(cp->name) || !cp->number || !cp->place ||
	    in->s->checkpoints.n >= CHECKPOINTS_MAX || !is_free(in->s, cp))
		return -EBADMSG;
	if (cp->state == CHECKPOINT_WHOLE && problem_kept(&cp->problem)->code == PROBLEM_DAMAGED)
		cp->state = CHECKPOINT_FAILED;
	if (cp->state == CHECKPOINT_FAILED)
		forget_whole(cp);
	if ((cp->state == CHECKPOINT_WHOLE) != (cp->saved != NULL))
		return -EBADMSG;
	if (cp->foreign && (cp->state != CHECKPOINT_WHOLE || !problem_kept(&cp->problem)->code))
		return -EBADMSG;
	if (cp->unwritten && (cp->state != CHECKPOINT_WHOLE || !in->io->live))
		return -EBADMSG;
	cp->unwritten = cp->unwritten && in->fs->keeping; /* nobody writes it any more */
	return cp->state == CHECKPOINT_SAVING && !in->io->live ? -EBADMSG : 0;
}

int keep_get_checkpoint(struct keep_in *in, const struct record_field *f)
{
	struct checkpoint *cp = calloc(1, sizeof(*cp));
	int e = cp ? settings_copy(&cp->settings, &in->s->settings) : -ENOMEM;

	if (e == 0)
		e = keep_inside(in, f, checkpoint_field, cp);
	if (e == 0)
		e = check_checkpoint(in, cp);
	if (e < 0) {
		if (cp) {
			saved_unref(cp->saved);
			settings_clear(&cp->settings);
			problem_keep(&cp->problem, NULL);
			free(cp->foreign);
		}
		free(cp);
		return e;
	}
	TAILQ_INSERT_TAIL(&in->s->checkpoints.list, cp, link);
	in->s->checkpoints.n++;
	return 0;
}
