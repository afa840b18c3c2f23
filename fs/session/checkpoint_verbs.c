/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of a session that lasts: to sleep, to wake, to be saved under a name, to go back. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "binding.h"
#include "fs.h"
#include "session.h"
#include "touch.h"

static int refuse(struct session *s, int e, const struct problem *why)
{
	if (e < 0 && why->code)
		session_problem(s, why);
	return e;
}

int session_sleep(struct session *s)
{
	struct problem why = {0};
	int e;

	if (s->state == SESSION_ASLEEP)
		return 0;
	e = saving_may(s, s->settings.when == SAVE_IDLE, &why);
	if (e < 0)
		return refuse(s, e, &why);
	touch_session(s);
	s->saving.sleep = true;
	s->saving.by_idle = false;
	binding_pump(s);
	return 0;
}

int session_wake(struct session *s)
{
	if (s->sandbox && !s->fs->ending) { /* it stays awake, should it be falling asleep */
		touch_session(s);
		s->saving.sleep = s->saving.by_idle = false;
		session_used(s);
	}
	if (s->sandbox)
		return 0;
	if (s->state != SESSION_ASLEEP && !asleep_try(s)) {
		session_problemf(s, PROBLEM_BUSY, session_idle_fix(s),
				 "there is nothing to wake: the session is %s",
				 session_state_str(s->state));
		return -EBUSY;
	}
	return session_start(s);
}

int session_checkpoint(struct session *s, const char *name, bool when_idle,
		       struct checkpoint **ret_cp)
{
	struct problem why = {0};
	struct saved *saved = s->sandbox ? NULL : s->asleep.saved; /* that is what it is */
	struct checkpoint *cp = NULL;
	int e;

	e = audit_may(s->fs, 0, &why);
	if (e == 0 && (!saved || s->on_disk.damaged))
		e = saving_may(s, when_idle, &why);
	if (e == 0)
		e = checkpoint_new(s, name, saved, &cp, &why);
	if (e < 0)
		return refuse(s, e, &why);
	assert(cp);
	audit_checkpoint(s, cp->name);
	if (saved)
		checkpoint_whole(s, cp, saved);
	*ret_cp = cp;
	binding_pump(s);
	return 0;
}

void session_remove_checkpoint(struct session *s, struct checkpoint *cp)
{
	char words[PLAIN_NAME_MAX + sizeof(" removed")];

	snprintf(words, sizeof(words), "%s removed", cp->name);
	checkpoint_remove(s, cp);
	events_add(&s->fs->events, s, "checkpoint", words);
	wait_wake(&s->front.wait);
}

/* ---- going back ---- */

static int check_restore(const struct session *s, const struct checkpoint *cp, const char *name,
			 struct problem *why)
{
	if (!cp || checkpoint_is_lost(cp)) {
		problem_set(why, PROBLEM_NO_SUCH_CHECKPOINT,
			    cp ? "cat checkpoints/NAME/error says why."
			       : "ls checkpoints says which there are.",
			    cp ? "there is nothing of the checkpoint \"%s\""
			       : "there is no checkpoint \"%s\"",
			    problem_quote(name).text);
		return -ENOENT;
	}
	if (cp->state == CHECKPOINT_SAVING) {
		problem_set(why, PROBLEM_BUSY, "cat checkpoints/NAME/wait waits until it is there.",
			    "the checkpoint \"%s\" is being saved", name);
		return -EBUSY;
	}
	if (s->active || s->nqueued || s->jobs_going) {
		problem_set(why, PROBLEM_BUSY, "Wait until all have ended, or end them first.",
			    "runs or jobs of the session go on or wait");
		return -EBUSY;
	}
	return s->saving.going ? saving_refuse(s, why) : 0;
}

/* Does it go on with the settings that there are by now? Its memory fits no other machine than it was in, nor one with ports if that
 * had no card for them. */
static bool suits(const struct session *s, const struct checkpoint *cp)
{
	struct settings_key frozen;

	if (settings_frozen_change(&s->settings, &cp->settings, &frozen))
		return false;
	return !saved_has_memory(cp->saved) || !settings_lack_card(&cp->settings) ||
	       settings_lack_card(&s->settings);
}

/* Return: 0 or -ENOMEM. */
static int take_settings(struct session *s, const struct checkpoint *cp)
{
	int e;

	if (suits(s, cp))
		return 0;
	e = settings_take_frozen(&s->settings, &cp->settings);
	if (e < 0)
		return e;
	touch_rest(s);
	s->config_mtime = clock_now();
	return 0;
}

int session_restore(struct session *s, const char *name)
{
	static const struct problem back = {.code = PROBLEM_RESET,
					    .cause = "the session went back to a checkpoint"};
	struct checkpoint *cp = checkpoint_find(s, name);
	struct problem why = {0};
	const bool awake = s->ready; /* else nobody watches files/ who could say it */
	char words[128];
	int e = check_restore(s, cp, name, &why);

	if (e == 0)
		e = take_settings(s, cp);
	if (e < 0)
		return refuse(s, e, &why);
	if (s->saving.of) { /* it was to be a copy, of which nothing is in it now */
		session_set_origin(s, NULL);
		s->asleep.copy = false;
	}
	binding_cut(s, &back);
	s->runs_before = cp->ordinal - s->last_number;
	s->base = (struct rerun_base){.checkpoint = cp->number};
	asleep_return(s, saved_ref(cp->saved));
	if (!awake)
		file_events_anew(s);
	if (cp->life !=
	    s->life) { /* nothing is known again but what is found in this one from now on */
		session_live_anew(s);
		touch_rest(s);
		cp->life = s->life;
	}
	session_problem(s, NULL);
	snprintf(words, sizeof(words), "%s restored", cp->name);
	events_add(&s->fs->events, s, "checkpoint", words);
	s->fs->watch->settled(s);
	wait_wake(&s->front.wait);
	return 0;
}
