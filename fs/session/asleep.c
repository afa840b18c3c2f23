/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that have what was saved of a sandbox instead of one. See asleep.h. */
#include "asleep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flaws.h"
#include "fs.h"
#include "job.h"
#include "session.h"
#include "touch.h"

/* What is in memory alone would not be there after a power cut. */
static void remember(struct session *s)
{
	if (!s->fs->keeping || !saved_id(s->asleep.saved))
		return;
	session_forget_sleep(s);
	s->asleep.before = saved_ref(s->asleep.saved);
	s->asleep.before_since = s->asleep.since;
}

void asleep_begin(struct session *s, struct saved *saved)
{
	struct asleep *a = &s->asleep;
	const bool copy = a->copy && !a->saved; /* what it waited for is there */

	touch_session(s);
	if (a->saved && saved && !saved_id(saved))
		remember(s);
	saved_unref(a->saved);
	problem_keep(&a->unfit, NULL);
	*a = (struct asleep){
		.saved = saved,
		.since = clock_now(),
		.since_ms = uv_now(s->fs->loop),
		.woken = a->woken,
		.kept = a->kept,
		.slept_ms = a->slept_ms,
		.took_ms = a->took_ms,
		.wake = a->wake,
		.copy = copy,
		.lost = a->lost,
		.before = a->before,
		.before_since = a->before_since,
	};
	s->epoch++;
	session_set_state(s, SESSION_ASLEEP);
	keeping_saved(s);
}

void asleep_return(struct session *s, struct saved *saved)
{
	asleep_begin(s, saved);
	s->line = s->epoch;
}

void asleep_end(struct session *s)
{
	touch_session(s);
	saved_unref(s->asleep.saved);
	problem_keep(&s->asleep.unfit, NULL);
	s->asleep = (struct asleep){.woken = s->asleep.woken,
				    .kept = s->asleep.kept,
				    .slept_ms = s->asleep.slept_ms,
				    .took_ms = s->asleep.took_ms,
				    .lost = s->asleep.lost,
				    .before = s->asleep.before,
				    .before_since = s->asleep.before_since};
	s->epoch++; /* what the host has seen of its files was read from what was saved */
}

/* @because: what was saved later is not there. */
static void tell_back(struct session *s, const char *because, const char *why)
{
	char when[32];
	struct tm tm;

	strftime(when, sizeof(when), "%F %T", localtime_r(&s->asleep.since.tv_sec, &tm));
	session_problemf(
		s, PROBLEM_NOT_KEPT, "Run again what is missing.",
		"%s: it is as it was when it fell asleep at %s, and what was made since then is "
		"lost%s%s%s",
		because, when, *why ? " (" : "", why, *why ? ")" : "");
}

static const char ended[] = "xsbxfs ended before the session was saved again";

void asleep_tell_back(struct session *s, const char *why)
{
	tell_back(s, ended, why);
}

static bool go_back(struct session *s, const char *because, const char *why)
{
	struct asleep *a = &s->asleep;
	const struct timespec since = a->before_since;
	struct saved *before = a->before;

	if (!before || saved_is_damaged(before))
		return false;
	a->before = NULL;
	asleep_return(s, before);
	file_events_anew(s);
	session_live_anew(s); /* it may have been another one */
	a->since = since;
	tell_back(s, because, why);
	return true;
}

bool asleep_back(struct session *s, const char *why)
{
	return go_back(s, ended, why);
}

void asleep_fini(struct session *s)
{
	asleep_end(s);
	session_forget_sleep(s);
	free(s->asleep.lost);
	s->asleep.lost = NULL;
}

struct saved *asleep_wake(struct session *s, int *ret_err)
{
	struct asleep *a = &s->asleep;
	struct saved *from;

	*ret_err = 0;
	if (!a->saved)
		return NULL;
	touch_session(s);
	a->asked_ms = uv_now(s->fs->loop);
	a->wake = false;
	from = a->files_only ? saved_files_only(a->saved) : saved_ref(a->saved);
	if (!from)
		*ret_err = -ENOMEM;
	return from;
}

/* "3 h", "240 ms". */
struct duration {
	char text[32];
};

static struct duration duration(uint64_t ms)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {{"d", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}};
	struct duration d;
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(units) && ms < units[i].ms * (i + 2 < ARRAY_SIZE(units) ? 2 : 10))
		i++;
	snprintf(d.text, sizeof(d.text), "%" PRIu64 " %s", ms / units[i].ms, units[i].unit);
	return d;
}

/* What it has not of what there was: for status.json. That a process has no memory of what it was is how it always is, and no
 * news; and a fresh interpreter may be what somebody wanted. */
static void tell_loss(struct session *s)
{
	struct asleep *a = &s->asleep;
	const struct flaws flaws = flaws_of_wake(a->kept ? NULL : a->saved);
	const char *why = a->kept	  ? ""
			  : a->anew	  ? "its interpreter was to be a fresh one"
			  : a->files_only ? problem_kept(&a->unfit)->cause
					  : s->info.lost;
	const bool expected =
		a->kept || a->anew || (!a->files_only && s->settings.spec.backend == VM_PROCESS);

	free(a->lost);
	a->lost = NULL;
	if ((*why || *flaws.text) &&
	    asprintf(&a->lost, "%s%s%s", why, *why && *flaws.text ? "; " : "", flaws.text) < 0)
		a->lost = NULL;
	if (!expected)
		session_problemf(s, PROBLEM_STATE_LOST, "Run again what made its variables.",
				 "its files are as they were saved, but the interpreter is a fresh "
				 "one%s%s%s%s",
				 *why ? ": " : "", why, *flaws.text ? "; " : "", flaws.text);
	else if (*flaws.text)
		session_problemf(s, PROBLEM_STATE_LOST, "Make them again.",
				 "its files are not all as they were saved: %s", flaws.text);
}

static void tell_wake(struct session *s)
{
	const struct asleep *a = &s->asleep;
	struct run *r = launch_waiting(s);
	char words[320];

	if (a->copy)
		snprintf(words, sizeof(words), "a copy of %s, awake in %s%s", s->settings.from,
			 duration(a->took_ms).text, a->kept ? "" : ", with a fresh interpreter");
	else
		snprintf(words, sizeof(words), "asleep %s, awake in %s%s",
			 duration(a->slept_ms).text, duration(a->took_ms).text,
			 a->kept ? "" : ", with a fresh interpreter");
	events_add(&s->fs->events, s, "wake", words);
	if (r)
		run_woke(r, words);
}

void asleep_woken(struct session *s)
{
	struct asleep *a = &s->asleep;

	touch_session(s);
	if (a->tried && problem_kept(&s->front.error)->code == PROBLEM_DAMAGED)
		session_problem(s, NULL); /* somebody has mended it */
	a->tried = false;
	a->kept = s->info.kept && !a->files_only;
	a->took_ms = uv_now(s->fs->loop) - a->asked_ms;
	a->slept_ms = a->asked_ms - a->since_ms;
	tell_wake(s);
	a->woken = true;
	s->fs->stats.wakes++;
	tell_loss(s);
	if (s->settings.fresh) {
		s->epoch++; /* as in asleep_end() */
	} else {
		remember(s);
		asleep_end(s);
	}
}

bool asleep_again(struct session *s, const struct problem *why)
{
	struct asleep *a = &s->asleep;

	if (why->code != PROBLEM_NOT_RESTORED || !a->saved || !saved_has_memory(a->saved) ||
	    a->files_only)
		return false;
	touch_session(s);
	a->files_only = true;
	problem_keep(&a->unfit, why);
	return true;
}

void asleep_close_damaged(struct session *s, struct saved *saved, struct timespec since,
			  const char *cause)
{
	struct asleep *a = &s->asleep;
	struct problem why;

	problem_set(&why, PROBLEM_DAMAGED,
		    "echo reset > ctl gives the session a new sandbox, and what was saved goes; "
		    "until then it stays, and echo wake > ctl tries it again. " KEEPING_MEND,
		    "what was saved of the session can't be read from state_dir%s%s",
		    *cause ? ": " : "", cause);
	if (checkpoint_any(s))
		checkpoint_advise(&why);
	asleep_end(s);
	s->line = s->epoch;
	session_set_origin(s, NULL);
	session_set_closed(s, &why);
	session_forget_sleep(s);
	a->before = saved;
	a->before_since = since;
	a->damaged = true;
}

bool asleep_lost(struct session *s)
{
	struct asleep *a = &s->asleep;
	struct timespec since = a->since;
	struct saved *saved;

	if (s->sandbox || !a->saved || !saved_is_damaged(a->saved))
		return false;
	if (go_back(s, "what the session was to go on with can't be read from state_dir", "")) {
		keeping_changed(s);
		return true;
	}
	/* The files alone of what is on the disk have no name there. */
	saved = saved_id(a->saved) || !a->before ? a->saved : a->before;
	if (saved == a->before)
		since = a->before_since;
	asleep_close_damaged(s, saved_ref(saved), since, "");
	file_events_anew(s);
	wait_wake(&s->front.wait);
	return true;
}

bool asleep_try(struct session *s)
{
	struct asleep *a = &s->asleep;
	const struct timespec since = a->before_since;
	struct saved *saved = a->before;

	if (s->state != SESSION_CLOSED || !a->damaged || !saved)
		return false;
	a->before = NULL;
	asleep_return(s, saved);
	session_live_anew(s);
	a->since = since;
	a->tried = true;
	return true;
}

void asleep_stays(const struct session *s, struct problem *why)
{
	if (s->asleep.saved)
		problem_advise(why, "What was saved is kept: the next run tries it again%s.",
			       saved_memory_bytes(s->asleep.saved)
				       ? ", and after `reset` with its files alone"
				       : "");
}

int asleep_reset(struct session *s)
{
	struct saved *files = saved_files_only(s->asleep.saved);

	if (!files)
		return -ENOMEM;
	touch_session(s);
	remember(s);
	saved_unref(s->asleep.saved);
	s->asleep.saved = files;
	s->asleep.gave_up = false;
	s->asleep.anew = true;
	return 0;
}
