/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a sandbox. See save.h. */
#include "save.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "internal.h"
#include "vm/base/buf.h"

/*
 * Theory of operation
 * -------------------
 *	[PREPARE ->] FREEZE -> PACK [-> POINT [-> DESCRIBE]] [-> CHECK] -> `saved`
 *
 * All user code stands still from FREEZE on, also what runs in the background, so that files and memory are of one moment,
 * and goes on, unless its user has paused it before, as soon as both are there: in the midst of POINT, when the machine
 * runs again. What can be done before that moment, or behind it, is. A program can have itself woken by a timer: before all
 * goes on, the agent looks whether anything has run, and where it has, nothing is kept of that round.
 *
 * Nothing begins before all changes of files that the host has asked for are answered: PACK overtakes those that are still
 * queued, and what was saved would lack what was answered a moment later. While a session is being saved, fs/ asks for no
 * more of them, so that this is soon; reads go on.
 *
 * What is saved with its memory goes on as a clone of it does: no interpreter starts, and its files are in its memory. What has
 * files alone starts as any other sandbox, which may come from the pool, and is READY when its files are in it.
 *
 * On a busy host the agent may still be at the end of a run when it is asked, or what it stops gets no processor to stop on, or
 * QEMU none to answer. That passes: it is tried again for a while, before it is said that it could not be done, and why. The agent
 * knows who could not be stopped, if it is not for lack of a processor. One that waits in the kernel may be out of there the next
 * time. One that is woken whenever it is stopped, or that nobody can see, is in the way as long as it is there: a few tries of two
 * seconds each show that it is always the same, and there are no more.
 *
 * What was paused before is to be so behind it. If anything has run since, the agent lets all of it go on: it is stopped anew, at
 * once. If it can't be, it is paused no more, which its owner is told, and saved as any other.
 *
 * Where memory may go to a disk, it is described as long as it is known what it is of; for that the image's files have to have
 * been read once, which takes a second or two for the first machine.
 */

static const char still[] = "what runs in the sandbox could not be stopped";
static const char unwritten[] = "changes of its files were not carried out";
static const char not_copied[] = "its memory could not be copied";

#define AGAIN_MS 500u	/* between two tries */
#define SOON_MS	 20u	/* ... the first of which could not even begin */
#define BUSY_MS	 30000u /* a try that began earlier than that is followed by another */
#define ROUNDS	 5u	/* most tries in which something may run */
#define MEETINGS 3u	/* most in which the same one is in the way, for good */

/* Its code may stand still from now on. Return: 0 or -errno. */
static int freeze(struct sandbox *s, struct save *save)
{
	const int r = guest_freeze(s->guest);

	save->step = SAVE_FREEZE;
	save->stopped = r == 0 && !save->paused;
	save->asked_at = uv_hrtime();
	return r;
}

static void goes_on(struct sandbox *s)
{
	s->save.stopped = false;
	log_trace(&s->label, "sandbox", "its code stood still for about %" PRIu64 " us",
		  (uv_hrtime() - s->save.asked_at) / 1000);
}

static void thaw(struct sandbox *s)
{
	if (!s->save.stopped)
		return;
	guest_thaw(s->guest);
	goes_on(s);
}

/* Files, and memory, are read: it goes on. */
static void check(struct sandbox *s)
{
	s->save.ran = guest_check_frozen(s->guest, s->save.stopped);
	s->save.checking = s->save.ran == 0;
	if (s->save.checking && s->save.stopped)
		goes_on(s);
}

/* Return: 0, -EBUSY if it can't begin yet, or -errno. */
static int begin(struct sandbox *s, struct save *save)
{
	if (guest_changes_files(s->guest))
		return -EBUSY;
	if (!save->memory)
		return freeze(s, save);
	save->step = SAVE_PREPARE;
	return guest_point_begin(s->guest);
}

static void tell(struct sandbox *s, struct saved *saved, const struct problem *why)
{
	thaw(s);
	s->save = (struct save){.step = SAVE_NONE};
	if (s->events->saved)
		s->events->saved(s->data, saved, why);
	else
		saved_unref(saved);
}

/* What its user can do about a save that has failed. */
static const char *fix_of(int err)
{
	switch (-err) {
	case EFBIG: return "Remove some of its files, or raise files_mb or files_inodes.";
	case ENAMETOOLONG: return "Remove what is more than 1023 directories deep.";
	default: return "Try it again.";
	}
}

/* Does that pass? */
static bool is_load(int err)
{
	return err == -EBUSY || err == -ETIMEDOUT;
}

static void explain_ran(struct problem *p)
{
	problem_set(p, PROBLEM_NOT_SAVED,
		    "End that program, or have it wait until the checkpoint is made.",
		    "something in the sandbox ran although it was stopped, %u times: a timer sends "
		    "SIGCONT to "
		    "it, or it was continued from outside",
		    ROUNDS);
}

/* The agent says who is in the way. */
static void meet(struct save *save, const struct guest_unstopped *who)
{
	const struct guest_unstopped *was = &save->unstopped;
	const bool same = who->why == was->why && who->pid == was->pid;

	save->met = same ? save->met + 1 : 1;
	save->unstopped = *who;
}

/* Is it one that will be in the way the next time, too? */
static bool is_hopeless(const struct save *save)
{
	const enum proto_unstopped why = save->unstopped.why;

	return (why == PROTO_UNSTOPPED_HIDDEN || why == PROTO_UNSTOPPED_WOKEN) &&
	       save->met >= MEETINGS;
}

static const char *const unstopped_why[] = {
	[PROTO_UNSTOPPED_UNKNOWN] = "",
	[PROTO_UNSTOPPED_WAITS] =
		"it waits in the kernel, where no signal reaches it: for a disk, or for a child by "
		"vfork(2) that has become no other program",
	[PROTO_UNSTOPPED_HIDDEN] = "its first thread has ended, it can't be looked at "
				   "(PR_SET_DUMPABLE), and so nobody can tell whether it runs",
	[PROTO_UNSTOPPED_WOKEN] =
		"it goes on whenever it is stopped: a timer sends it SIGCONT, or somebody outside",
	[PROTO_UNSTOPPED_NEW] = "whenever all processes were stopped, there was a new one",
};
static_assert(ARRAY_SIZE(unstopped_why) == PROTO_UNSTOPPED_N, "words for each reason");

static void explain_unstopped(const struct sandbox *s, struct problem *p)
{
	const struct guest_unstopped *u = &s->save.unstopped;
	const uint64_t ms = uv_now(s->vm->ctx.loop) - s->save.began;
	char who[96] = "what runs in the sandbox";

	if (u->pid)
		snprintf(who, sizeof(who), "process %u%s%s%s of the sandbox", u->pid,
			 *u->name ? " (" : "", problem_quote(u->name).text, *u->name ? ")" : "");
	problem_set(p, PROBLEM_NOT_SAVED,
		    u->pid ? "End that program, or try it again when it does something else."
			   : "Try it again when fewer programs are started.",
		    "%s could not be stopped within %u s: %s", who, (unsigned)(ms / 1000),
		    unstopped_why[u->why]);
}

/* What it waited for in vain. Who knows better than the kernel how busy it is. */
static void explain_load(const struct sandbox *s, const char *what, struct problem *p)
{
	const uint64_t ms = uv_now(s->vm->ctx.loop) - s->save.began;
	struct sysinfo host;

	problem_set(
		p, PROBLEM_NOT_SAVED, "Try it again when this host is less busy.",
		"%s within %u s: what runs there waits for a disk, has itself woken by a timer, or "
		"gets too little of the processors",
		what, (unsigned)(ms / 1000));
	if (sysinfo(&host) == 0)
		problem_add(p, ", of which this host has %u, with a load of %lu.%lu",
			    MAX(host_cpus(&s->vm->host) / 100, 1u), host.loads[0] >> SI_LOAD_SHIFT,
			    ((host.loads[0] & ((1ul << SI_LOAD_SHIFT) - 1)) * 10) >> SI_LOAD_SHIFT);
}

static void on_again(uv_timer_t *timer);

/* User code may go on until then. */
static void again(struct sandbox *s, unsigned ms)
{
	log_trace(&s->label, "sandbox", "is not saved yet: it is busy");
	thaw(s);
	guest_point_cancel(s->guest);
	s->save.pack = pack_unref(s->save.pack);
	s->save.point = point_unref(s->save.point);
	s->save.step = SAVE_AGAIN;
	uv_timer_start(&s->deadline, on_again, ms, 0);
}

static void give_up(struct sandbox *s, const struct problem *why)
{
	guest_point_cancel(s->guest);
	s->save.pack = pack_unref(s->save.pack);
	s->save.point = point_unref(s->save.point);
	tell(s, NULL, why);
}

static bool may_try(const struct sandbox *s)
{
	return uv_now(s->vm->ctx.loop) - s->save.began < BUSY_MS;
}

/* @path: of a file in the sandbox, or "". */
static void failed(struct sandbox *s, const char *what, int err, const char *path)
{
	const bool known = what == still && s->save.unstopped.why != PROTO_UNSTOPPED_UNKNOWN;
	struct problem p;

	if (is_load(err) && !(known && is_hopeless(&s->save)) && may_try(s)) {
		again(s, AGAIN_MS);
		return;
	}
	if (is_load(err) && known)
		explain_unstopped(s, &p);
	else if (is_load(err))
		explain_load(s, what, &p);
	else
		problem_set(&p, PROBLEM_NOT_SAVED, fix_of(err), "%s: %s%s%s", what, path,
			    *path ? ": " : "", strerror(-err));
	give_up(s, &p);
}

/* What could not even begin. */
static const char *what_waits(const struct sandbox *s)
{
	if (guest_changes_files(s->guest))
		return unwritten;
	return s->save.memory ? not_copied : still;
}

static void on_again(uv_timer_t *timer)
{
	struct sandbox *s = timer->data;
	int r = -EBUSY;

	if (s->save.step != SAVE_AGAIN)
		return; /* it is not wanted any more */
	sandbox_touch(s);
	if (s->state == SANDBOX_READY)
		r = begin(s, &s->save);
	if (r == -EBUSY && may_try(s))
		again(s, SOON_MS);
	else if (r < 0)
		failed(s, what_waits(s), r, "");
}

/* All of it is read. Was it of one moment? */
static void settle(struct sandbox *s)
{
	struct saved *saved;
	struct problem p;

	if (s->save.checking) {
		s->save.step = SAVE_CHECK;
		return;
	}
	if (s->save.ran == -ECANCELED && ++s->save.rounds < ROUNDS) {
		again(s, AGAIN_MS);
		return;
	}
	if (s->save.ran < 0 && s->save.ran != -ECANCELED) {
		failed(s, still, s->save.ran, "");
		return;
	}
	if (s->save.ran < 0) {
		explain_ran(&p);
		give_up(s, &p);
		return;
	}
	saved = saved_new(s->save.pack, steal_ptr(s->save.point));
	s->save.pack = NULL;
	if (saved)
		tell(s, saved, NULL);
	else
		failed(s, "the sandbox was not saved", -ENOMEM, "");
}

/* What can't be described is another machine's, when it comes from the disk. Return: whether that is not known yet. */
static bool describe(struct sandbox *s)
{
	struct point *p = s->save.point;
	struct buf text = {.limit = POINT_MACHINE_MAX};
	int r = restore_describe(s, p->layer, p->disk, &text);

	if (r == 0)
		p->machine = steal_ptr(text.data);
	buf_clear(&text);
	return r == -EAGAIN;
}

void save_on_digests(struct sandbox *s)
{
	if (s->save.step != SAVE_DESCRIBE)
		return;
	/* One that can't be read is tried again in a minute, for which nobody waits here. */
	if (!describe(s) || !s->vm->backends.digests.current)
		settle(s);
}

int sandbox_save(struct sandbox *s, bool memory)
{
	struct save save = {.memory = memory && s->ops->point,
			    .paused = s->still,
			    .began = uv_now(s->vm->ctx.loop)};
	int r;

	/* Each has three descriptors. */
	if (save.memory && saved_in_memory().points >= s->vm->max_points)
		return -EDQUOT;
	if (s->state != SANDBOX_READY || s->save.step != SAVE_NONE)
		return -EBUSY;
	r = begin(s, &save);
	if (r < 0 && r != -EBUSY)
		return r;
	s->save = save;
	/* A greeting or a change is not answered yet, or a save that has failed just now is not over. */
	if (r < 0)
		again(s, SOON_MS);
	return 0;
}

void save_on_point_ready(struct sandbox *s)
{
	const int r = s->save.step == SAVE_PREPARE ? freeze(s, &s->save) : 0;

	if (r < 0)
		failed(s, still, r, "");
}

/* Something has run in what was paused, so that all of it goes on, or it can't be stopped. Return: 0: it is being stopped anew;
 * -errno: it is paused no more. */
static int hold_still(struct sandbox *s, int err)
{
	if (err == -ECANCELED)
		err = guest_freeze(s->guest);
	if (err == 0)
		return 0;
	save_unpause(&s->save);
	s->still = false;
	tell_owner(s, frozen, err);
	return err;
}

static void on_checked(struct sandbox *s, int err)
{
	s->save.checking = false;
	s->save.ran = err;
	if (err < 0) { /* and it goes on */
		if (s->save.paused)
			(void)hold_still(s, err);
		s->save.stopped = false;
	}
	if (s->save.step == SAVE_CHECK)
		settle(s);
}

bool save_on_frozen(struct sandbox *s, int err)
{
	if (s->save.checking) {
		on_checked(s, err);
		return true;
	}
	if (s->save.paused && err < 0) {
		err = hold_still(s, err);
		if (err == 0 || s->save.step != SAVE_FREEZE)
			return true;
	}
	if (s->save.step != SAVE_FREEZE)
		return false;
	meet(&s->save, guest_unstopped(s->guest));
	if (err < 0) {
		s->save.stopped = false;
		failed(s, still, err, "");
		return true;
	}
	s->save.step = SAVE_PACK;
	err = guest_pack(s->guest);
	if (err < 0)
		failed(s, "its files could not be read", err, "");
	return true;
}

void save_on_packed(struct sandbox *s, int err, struct pack *pack, const char *path)
{
	if (s->save.step != SAVE_PACK) {
		pack_unref(pack);
		return;
	}
	if (err < 0) {
		failed(s, "its files could not be read", err, path);
		return;
	}
	s->save.pack = pack;
	if (!s->save.memory) {
		check(s);
		settle(s);
		return;
	}
	s->save.step = SAVE_POINT;
	err = guest_point(s->guest);
	if (err < 0)
		failed(s, not_copied, err, "");
}

void save_on_runs(struct sandbox *s)
{
	if (s->save.step == SAVE_POINT)
		check(s);
}

/* Comes with an error at any time. */
void save_on_pointed(struct sandbox *s, int err, struct point *point)
{
	if (err == 0 ? s->save.step != SAVE_POINT
		     : s->save.step < SAVE_PREPARE || s->save.step > SAVE_POINT) {
		point_unref(point);
	} else if (err < 0) {
		failed(s, not_copied, err, "");
	} else {
		s->save.point = point;
		s->save.step = SAVE_DESCRIBE;
		if (!s->vm->vault || point->machine || !describe(s) ||
		    !s->vm->backends.digests.current)
			settle(s);
	}
}
