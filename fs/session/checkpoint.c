/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: states of a session that were saved under a name. See checkpoint.h. */
#include "checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "quota.h"
#include "session.h"
#include "touch.h"
#include "vm/base/problem.h"

static const char *const state_names[] = {
	[CHECKPOINT_SAVING] = "saving",
	[CHECKPOINT_WHOLE] = "whole",
	[CHECKPOINT_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(state_names) == CHECKPOINT_NSTATES, "a name for each state");

const char *checkpoint_state_str(enum checkpoint_state state)
{
	return state_names[state];
}

bool checkpoint_is_lost(const struct checkpoint *cp)
{
	return cp->state == CHECKPOINT_FAILED || cp->foreign ||
	       (cp->saved && saved_is_damaged(cp->saved));
}

enum checkpoint_state checkpoint_shown(const struct session *s, const struct checkpoint *cp)
{
	if (checkpoint_is_lost(cp))
		return CHECKPOINT_FAILED;
	return cp->unwritten && !s->on_disk.err ? CHECKPOINT_SAVING : cp->state;
}

static bool is_usable(const struct checkpoint *cp)
{
	return cp->state == CHECKPOINT_WHOLE && !checkpoint_is_lost(cp);
}

bool checkpoint_any(const struct session *s)
{
	const struct checkpoint *cp;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (is_usable(cp))
			return true;
	return false;
}

void checkpoint_advise(struct problem *p)
{
	problem_advise(p, "`restore` goes back to a checkpoint.");
}

bool checkpoint_problem(const struct session *s, const struct checkpoint *cp, struct problem *ret_p)
{
	if (!checkpoint_is_lost(cp))
		return cp->unwritten && keeping_problem(s, ret_p);
	if (cp->state == CHECKPOINT_FAILED || cp->foreign)
		*ret_p = *problem_kept(&cp->problem);
	else
		problem_set(ret_p, PROBLEM_DAMAGED, "rmdir removes it. " KEEPING_MEND,
			    "the checkpoint can't be read from state_dir");
	return true;
}

struct checkpoint *checkpoint_find(const struct session *s, const char *name)
{
	struct checkpoint *cp;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (strcmp(cp->name, name) == 0)
			return cp;
	return NULL;
}

struct checkpoint *checkpoint_by_number(const struct session *s, uint32_t number)
{
	struct checkpoint *cp;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (cp->number == number)
			return cp;
	return NULL;
}

/* ---- limits ---- */

uint64_t checkpoint_bytes(const struct checkpoint *cp)
{
	return cp->saved ? saved_bytes(cp->saved) : 0;
}

/* Several of one moment share what was saved. Return: whether @cp is the first of those that have @saved. */
static bool is_first_with(const struct session *s, const struct checkpoint *cp)
{
	const struct checkpoint *other;

	TAILQ_FOREACH(other, &s->checkpoints.list, link)
		if (other->saved == cp->saved)
			return other == cp;
	return true;
}

int checkpoint_room(const struct session *s, const struct saved *more, struct problem *why)
{
	const uint64_t limit = s->fs->conf->checkpoint_bytes;
	const struct checkpoint *cp;
	const uint64_t one = more ? saved_bytes(more) : 1;
	uint64_t n = one;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (cp->saved && cp->saved != more && is_first_with(s, cp))
			n += checkpoint_bytes(cp);
	if (n <= limit)
		return 0;
	problem_set(why, PROBLEM_TOO_MUCH_SAVED,
		    one <= limit
			    ? "Remove some: rmdir checkpoints/NAME."
			    : "One with less in memory and files/ fits; the administrator sets "
			      "checkpoint_limit.",
		    "the checkpoints of this session %s %" PRIu64 " MiB, and may take %" PRIu64,
		    more ? "would take" : "take", quota_mib(n), limit >> 20);
	return -EDQUOT;
}

/* May there be one more, which takes @saved, or as little as can be? */
static int check_room(const struct session *s, const struct saved *saved, struct problem *why)
{
	const int e = checkpoint_room(s, saved, why);

	return e < 0 ? e : quota_saved(s->fs, s, saved, why);
}

/* @failed: one of that name, which gives it away, or NULL. */
static int check_new(const struct session *s, const char *name, const struct checkpoint *failed,
		     const struct saved *saved, struct problem *why)
{
	const unsigned most = s->fs->conf->max_checkpoints;
	int e;

	if (!plain_name_ok(name)) {
		problem_set(why, PROBLEM_BAD_NAME, PLAIN_NAME_FIX,
			    "\"%s\" can't be the name of a checkpoint", problem_quote(name).text);
		return strlen(name) > 64 ? -ENAMETOOLONG : -EINVAL;
	}
	if (!failed && checkpoint_find(s, name)) {
		problem_set(why, PROBLEM_BAD_NAME,
			    "Take another name, or remove it: rmdir checkpoints/NAME.",
			    "there is a checkpoint \"%s\" already", name);
		return -EEXIST;
	}
	if (s->checkpoints.n - (failed != NULL) >= most) {
		problem_set(why, PROBLEM_TOO_MANY, "Remove some: rmdir checkpoints/NAME.",
			    "there are %u checkpoints already, which is the most", most);
		return -EDQUOT;
	}
	e = quota_checkpoint(s->fs, s, failed != NULL, why);
	return e < 0 ? e : check_room(s, saved, why);
}

/* ---- one of them ---- */

static bool is_taken(const struct session *s, unsigned place)
{
	const struct checkpoint *cp;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (cp->place == place)
			return true;
	return false;
}

static unsigned free_place(const struct session *s)
{
	unsigned place = 1;

	while (is_taken(s, place))
		place++;
	assert(place <= CHECKPOINT_PLACES);
	return place;
}

int checkpoint_new(struct session *s, const char *name, const struct saved *saved,
		   struct checkpoint **ret_cp, struct problem *why)
{
	struct checkpoint *cp = checkpoint_find(s, name), *failed;
	int e;

	failed = cp && checkpoint_is_lost(cp) && !cp->foreign ? cp : NULL;
	e = check_new(s, name, failed, saved, why);
	if (e < 0)
		return e;
	cp = calloc(1, sizeof(*cp));
	if (!cp || settings_copy(&cp->settings, &s->settings) < 0) {
		free(cp);
		return -ENOMEM;
	}
	if (failed)
		checkpoint_remove(s, failed);
	cp->number = ++s->checkpoints.last;
	cp->place = free_place(s);
	snprintf(cp->name, sizeof(cp->name), "%s", name);
	cp->time = s->checkpoints.mtime = clock_now();
	cp->run = s->last_ran;
	cp->behind = s->last_number;
	TAILQ_INSERT_TAIL(&s->checkpoints.list, cp, link);
	s->checkpoints.n++;
	touch_rest(s);
	*ret_cp = cp;
	return 0;
}

void checkpoint_remove(struct session *s, struct checkpoint *cp)
{
	TAILQ_REMOVE(&s->checkpoints.list, cp, link);
	s->checkpoints.n--;
	touch_rest(s);
	s->checkpoints.mtime = clock_now();
	saved_unref(cp->saved);
	settings_clear(&cp->settings);
	problem_keep(&cp->problem, NULL);
	free(cp->foreign);
	free(cp);
}

/* @why: or "". */
static void tell(struct session *s, const struct checkpoint *cp, const char *what, const char *why)
{
	char words[1200];

	snprintf(words, sizeof(words), "%s %s%s%s", cp->name, what, *why ? ": " : "", why);
	events_add(&s->fs->events, s, "checkpoint", words);
}

/* Those that checkpoint_runs has made are as many as it says: the oldest go. */
static void trim(struct session *s)
{
	struct checkpoint *cp, *next;
	unsigned n = 0;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		n += cp->automatic && is_usable(cp);
	for (cp = TAILQ_FIRST(&s->checkpoints.list); cp && n > s->settings.checkpoint_runs;
	     cp = next) {
		next = TAILQ_NEXT(cp, link);
		if (!cp->automatic || !is_usable(cp))
			continue;
		tell(s, cp, "removed", "");
		checkpoint_remove(s, cp);
		n--;
	}
}

void checkpoint_whole(struct session *s, struct checkpoint *cp, struct saved *saved)
{
	assert(cp->state == CHECKPOINT_SAVING);
	touch_rest(s);
	cp->state = CHECKPOINT_WHOLE;
	cp->saved = saved_ref(saved);
	cp->life = s->life;
	cp->time = s->checkpoints.mtime = clock_now();
	cp->run = s->last_ran;
	cp->ordinal = s->runs_before + s->last_ran;
	if (!s->active)
		s->base = (struct rerun_base){.checkpoint = cp->number};
	cp->unwritten = s->fs->keeping;
	if (!cp->unwritten)
		tell(s, cp, "whole", "");
	else if (s->on_disk.err)
		checkpoint_not_written(s, cp);
	keeping_saved(s);
	if (cp->automatic)
		trim(s);
}

void checkpoint_written(struct session *s, struct checkpoint *cp)
{
	if (!cp->unwritten)
		return;
	touch_rest(s);
	cp->unwritten = false;
	tell(s, cp, "whole", "");
}

void checkpoint_not_written(struct session *s, struct checkpoint *cp)
{
	tell(s, cp, "not kept", strerror(-s->on_disk.err));
}

void checkpoint_failed(struct session *s, struct checkpoint *cp, const struct problem *why)
{
	struct problem p = *why;

	assert(cp->state == CHECKPOINT_SAVING);
	touch_rest(s);
	cp->state = CHECKPOINT_FAILED;
	if (!cp->automatic)
		problem_advise(&p, "Again: echo checkpoint %s > ctl; or rmdir, then mkdir.",
			       cp->name);
	problem_keep(&cp->problem, &p);
	cp->time = s->checkpoints.mtime = clock_now();
	tell(s, cp, "failed", why->cause);
}

/* ---- after each run ---- */

/* Makes room for one more: also one that was never saved goes. */
static void drop_oldest(struct session *s)
{
	struct checkpoint *cp, *next, *oldest = NULL;
	unsigned n = 0;

	for (cp = TAILQ_FIRST(&s->checkpoints.list); cp; cp = next) {
		next = TAILQ_NEXT(cp, link);
		if (cp->automatic && checkpoint_is_lost(cp) && !cp->foreign)
			checkpoint_remove(s, cp);
	}
	TAILQ_FOREACH(cp, &s->checkpoints.list, link) {
		n += cp->automatic && !cp->foreign;
		oldest = !oldest && cp->automatic && is_usable(cp) ? cp : oldest;
	}
	if (!oldest ||
	    (n < s->settings.checkpoint_runs && s->checkpoints.n < s->fs->conf->max_checkpoints))
		return;
	tell(s, oldest, "removed", "");
	checkpoint_remove(s, oldest);
}

void checkpoint_after_run(struct session *s)
{
	struct problem why = {0};
	struct checkpoint *cp;
	char name[32];
	int e;

	if (!s->settings.checkpoint_runs || !s->sandbox || s->settings.fresh)
		return;
	snprintf(name, sizeof(name), "run-%u", s->last_ran);
	if (s->jobs_going) {
		session_problemf(s, PROBLEM_BUSY, "Wait for jobs before the next run.",
				 "checkpoints/%s was not made: jobs go on", name);
		return;
	}
	cp = checkpoint_find(s, name);
	if (cp && !checkpoint_is_lost(cp)) {
		session_problemf(s, PROBLEM_NOT_SAVED, "Give yours other names than run-NUMBER.",
				 "checkpoints/%s was not made: there is one of that name", name);
		return;
	}
	drop_oldest(s);
	e = checkpoint_new(s, name, NULL, &cp, &why);
	if (e < 0) {
		if (why.code)
			session_problemf(s, why.code, why.fix, "checkpoints/%s was not made: %s",
					 name, why.cause);
		return;
	}
	cp->automatic = true;
	cp->behind = s->last_ran; /* and before those that are queued */
}
