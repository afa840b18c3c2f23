/* SPDX-License-Identifier: Apache-2.0 */
/* Replays of runs: begun, watched, compared. See rerun.h. */
#include "rerun_verbs.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "fork.h"
#include "fs.h"
#include "fs/config/network.h"
#include "rerun_compare.h"
#include "fs/request/clock.h"
#include "session.h"
#include "touch.h"
#include "vm/base/problem.h"

static const char *const verdicts[] = {
	[COMPARE_SAME] = "same",
	[COMPARE_NO_FILES] = "same, but for files, which were not compared",
	[COMPARE_DIFFERS] = "differs",
	[COMPARE_FAILED] = "failed",
};

/* The replay itself. */
static struct run *replay_of(const struct session *copy)
{
	return session_run((struct session *)copy, copy->rerun->number);
}

/* ---- results ---- */

/* What it has not in common with the run, whatever came of it. */
static void put_notes(const struct session *copy, const struct run *r, struct buf *out)
{
	const struct sandbox_spec *spec = &copy->settings.spec;

	if (r->base.stirred)
		(void)buf_printf(out,
				 "note: between what was saved and the run, files were changed "
				 "from outside, or jobs ran: the replay has nothing of that\n");
	if (copy->rerun->files_only)
		(void)buf_printf(out,
				 "note: of what the run began with only files were saved, as ever "
				 "of processes: the replay began with a fresh interpreter, and "
				 "directories whose names are in another order\n");
	if (spec->network)
		(void)buf_printf(out,
				 "note: what the run does over the network, the replay has done "
				 "once more\n");
}

static void put_causes(const struct session *copy, struct buf *out)
{
	const struct sandbox_spec *spec = &copy->settings.spec;

	(void)buf_printf(out, "usual causes: ");
	if (!*spec->seed)
		(void)buf_printf(out, "random numbers, which a session with a seed has the same; ");
	if (!*spec->clock)
		(void)buf_printf(out, "the time%s; ",
				 spec->backend == VM_MICROVM ? ", which clock = TIME fixed sets"
							     : "");
	if (spec->network)
		(void)buf_printf(out, "what came over the network; ");
	(void)buf_printf(out,
			 "threads and processes that race; how long something took; addresses\n");
}

static void on_compared(void *data, enum compare_verdict verdict, const struct buf *text)
{
	struct session *copy = data, *s;
	struct run *r;
	struct buf out = {.limit = RERUN_TEXT_MAX};

	r = copy->dead ? NULL : rerun_wanted(copy);
	if (r) {
		s = rerun_source(copy);
		(void)buf_append(&out, text->data, text->len);
		put_notes(copy, r, &out);
		if (verdict == COMPARE_DIFFERS)
			put_causes(copy, &out);
		rerun_finish(s, r, verdicts[verdict], out.data, out.len);
	}
	if (!copy->dead) /* also if nobody wants it any more */
		session_destroy(copy);
	buf_clear(&out);
	session_unref(copy);
}

/* ---- on its way ---- */

static void on_loaded(struct wait *w, const struct problem *why)
{
	struct rerun *rr = container_of(w, struct rerun, load);

	rr->loading = false;
	rr->unreadable = why != NULL;
}

/* The files behind a run, as its session has saved them; or NULL. */
static struct checkpoint *saved_behind(struct session *s, uint32_t number)
{
	struct checkpoint *cp;

	TAILQ_FOREACH(cp, &s->checkpoints.list, link)
		if (cp->automatic && cp->run == number && cp->saved && !checkpoint_is_lost(cp))
			return cp;
	return NULL;
}

/* Is there one that is still being saved? */
static bool is_saving(const struct session *copy)
{
	const struct checkpoint *cp;

	TAILQ_FOREACH(cp, &copy->checkpoints.list, link)
		if (cp->state == CHECKPOINT_SAVING)
			return copy->sandbox != NULL;
	return false;
}

/* Return: whether it has to be read first. */
static bool load(struct rerun *rr, struct checkpoint *cp, uid_t uid)
{
	if (!cp || saved_pack(cp->saved) || rr->unreadable)
		return false;
	rr->load = (struct wait){.done = on_loaded, .owner = uid};
	rr->loading = true;
	saved_load_files(cp->saved, &rr->load);
	return true;
}

static struct pack *files_of(const struct checkpoint *cp)
{
	struct pack *p = cp ? saved_pack(cp->saved) : NULL;

	return p ? pack_ref(p) : NULL;
}

/* Both have ended. */
static void compare(struct session *copy, struct run *r)
{
	struct session *s = rerun_source(copy);
	struct checkpoint *one = saved_behind(s, r->number), *other = saved_behind(copy, r->number);
	struct pack *files[2];
	int e;

	if (load(copy->rerun, one, s->uid) || load(copy->rerun, other, s->uid))
		return;
	files[0] = files_of(one);
	files[1] = files_of(other);
	copy->rerun->begun = true;
	session_ref(copy);
	e = compare_new(copy->fs, r, replay_of(copy), files,
			!one ? "there is no checkpoint behind the run (checkpoint_runs keeps them)"
			: copy->rerun->unreadable ? "what was saved behind the run can't be read"
						  : "the replay was not saved",
			on_compared, copy);
	if (e == 0)
		return;
	rerun_fail(s, r, strerror(-e));
	session_unref(copy);
}

/* Why there is nothing to be compared. */
static const char *what_happened(const struct session *copy, const struct run *replay)
{
	const struct problem *p = replay ? problem_kept(&replay->problem) : NULL;

	if (!p || !p->code)
		p = problem_kept(&copy->front.error);
	return p->code ? p->cause : "its sandbox is gone";
}

uint64_t rerun_tick(struct session *copy, uint64_t now)
{
	struct rerun *rr = copy->rerun;
	struct run *r = rerun_wanted(copy), *replay;
	char text[1200];

	if (copy->dead || rr->begun)
		return UINT64_MAX;
	if (!r) {
		session_destroy(copy);
		return UINT64_MAX;
	}
	replay = replay_of(copy);
	if (rr->loading || (replay && !run_ended(replay)) || is_saving(copy))
		return now + RERUN_TICK_MS;
	touch_session(copy);
	touch_run(r);
	if (replay && run_has_status(replay)) {
		compare(copy, r);
	} else {
		snprintf(text, sizeof(text), "%s", what_happened(copy, replay));
		rerun_fail(rerun_source(copy), r, text);
		session_destroy(copy);
		return UINT64_MAX;
	}
	return now + RERUN_TICK_MS;
}

void rerun_end_all(struct fs *fs)
{
	for (unsigned i = 0; i < fs->roster.n; i++) {
		struct session *s = roster_at(&fs->roster, i);

		if (s)
			rerun_cancel(s, "xsbxfs was ended before it was done");
	}
	for (unsigned i = 0; i < fs->roster.n; i++) {
		struct session *s = roster_at(&fs->roster, i);

		if (s && s->rerun)
			session_destroy(s);
	}
}

/* ---- the beginning ---- */

static bool writes_host(const struct settings *st)
{
	for (size_t i = 0; i < st->spec.npaths; i++)
		if (st->spec.paths[i].write)
			return true;
	return false;
}

/* Can this run be had again? Return: 0, -errno with @why. */
static int check_run(const struct session *s, const struct run *r, uint32_t number,
		     struct problem *why)
{
	if (!r)
		problem_set(why, PROBLEM_INVALID, "ls runs says which there are.",
			    "replay: there is no run %u", number);
	else if (!run_ended(r) || r->rerun.going)
		problem_set(why, PROBLEM_BUSY, "cat runs/N/wait, or runs/N/replay, waits for that.",
			    "replay: %s of run %u goes on",
			    run_ended(r) ? "a replay" : "the first time", number);
	else if (!run_has_status(r))
		problem_set(why, PROBLEM_INVALID, "",
			    "replay: of run %u it is not known what came of it", number);
	else if (s->settings.spec.work || writes_host(&s->settings))
		problem_set(why, PROBLEM_UNSUPPORTED, "",
			    "replay: the session changes directories of this machine, and would "
			    "once more");
	else if (r->code_lost || r->input_lost)
		problem_set(why, PROBLEM_UNSUPPORTED, "", "replay: the %s of run %u %s",
			    r->code_lost ? "code" : "standard input", number,
			    r->code_lost ? "can't be read"
					 : "is longer than the 64 KiB that are kept");
	else
		return 0;
	return why->code == PROBLEM_BUSY	  ? -EBUSY
	       : why->code == PROBLEM_UNSUPPORTED ? -EOPNOTSUPP
						  : -EINVAL;
}

/* What it began with. Return: 0 with *@ret_cp NULL: a new sandbox; -ENOENT with @why. */
static int find_base(struct session *s, const struct run *r, struct checkpoint **ret_cp,
		     struct problem *why)
{
	struct checkpoint *cp =
		r->base.checkpoint ? checkpoint_by_number(s, r->base.checkpoint) : NULL;

	*ret_cp = cp;
	if (r->base.anew || (cp && cp->saved && !checkpoint_is_lost(cp)))
		return 0;
	return problem_set(
		       why, PROBLEM_NO_SUCH_CHECKPOINT,
		       "checkpoint_runs = 10 in config keeps the states that the next runs begin "
		       "with; so does mkdir checkpoints/NAME.",
		       "replay: the state that run %u began with %s", r->number,
		       r->base.checkpoint ? "is not there any more" : "was not saved"),
	       -ENOENT;
}

/* Ports of this machine are others'; the state behind the run is to be looked at. */
static int make_settings(struct session *s, const struct run *r, struct checkpoint *cp,
			 struct settings *ret_settings)
{
	const struct fork f = {.source = s, .cp = cp};
	char from[160] = "";
	struct settings st;
	int e;

	if (cp)
		snprintf(from, sizeof(from), "%s@%s", s->name, cp->name);
	e = fork_settings(&f, from, &st);
	if (e < 0)
		return e;
	st.checkpoint_runs = 1;
	st.fresh = false;
	st.when = SAVE_NOW;
	st.timeout_s = r->timeout_s;
	*ret_settings = st;
	return 0;
}

/* A session beside it, by a name of which there is none. */
static int make_session(struct session *s, uint32_t number, struct session **ret_copy,
			struct problem *why)
{
	char name[80];
	int e = -EEXIST;

	for (unsigned i = 0; e == -EEXIST && i < 10; i++) {
		const int tail =
			snprintf(name, sizeof(name), "-replay-%u%s", number, i ? "-0" : "");

		snprintf(name, sizeof(name), "%.*s-replay-%u", MAX(0, 64 - tail), s->name, number);
		if (i)
			snprintf(name + strlen(name), sizeof(name) - strlen(name), "-%u", i);
		e = session_create(s->fs, session_template(s), name, s->uid, s->gid, ret_copy);
	}
	if (e == -EDQUOT)
		problem_set(why, PROBLEM_TOO_MANY_SESSIONS, "rmdir one of the sessions.",
			    "replay: there are as many sessions as you may have");
	else if (e < 0)
		problem_set(why, PROBLEM_NO_SANDBOX, "",
			    "replay: no session could be made for it: %s", strerror(-e));
	return e;
}

/* Return: the run's double, or NULL if out of memory. */
static struct run *double_run(struct session *copy, const struct run *r)
{
	const struct timespec now = clock_now();
	struct buf code = {0}, input = {0};
	struct run *twin;

	if (buf_append(&code, r->code.data, r->code.len) < 0 ||
	    buf_append(&input, r->input.data, r->input.len) < 0) {
		buf_clear(&code);
		return NULL;
	}
	twin = session_add_run(copy, &code, &now);
	if (!twin) {
		buf_clear(&code);
		buf_clear(&input);
		return NULL;
	}
	if (r->named) {
		twin->named = true;
		twin->timeout_s = r->timeout_s;
		twin->cwd = r->cwd ? strdup(r->cwd) : NULL;
		(void)buf_append(&twin->env, r->env.data, r->env.len);
	}
	feed_begin(&twin->feed, &input);
	feed_end(&twin->feed);
	return twin;
}

/* @copy becomes the replay. Return: 0 or -ENOMEM. */
static int set_up(struct session *copy, struct session *s, struct run *r, struct checkpoint *cp,
		  struct settings *st)
{
	const struct fork f = {.source = s, .cp = cp};

	copy->rerun = calloc(1, sizeof(*copy->rerun));
	if (!copy->rerun)
		return -ENOMEM;
	*copy->rerun =
		(struct rerun){.slot = s->slot, .generation = s->generation, .number = r->number};
	snprintf(copy->rerun->name, sizeof(copy->rerun->name), "%s", s->name);
	settings_clear(&copy->settings);
	copy->settings = *st;
	*st = (struct settings){0};
	copy->rerun->files_only = cp && !saved_has_memory(cp->saved);
	if (cp)
		fork_begin(copy, &f);
	copy->last_number = copy->last_ran = r->number - 1;
	copy->runs_before = r->runs_before;
	return double_run(copy, r) ? 0 : -ENOMEM;
}

int rerun_begin(struct session *s, uint32_t number)
{
	struct run *r = session_run(s, number);
	struct checkpoint *cp = NULL;
	struct session *copy = NULL;
	struct settings st = {0};
	struct problem why = {0};
	int e = check_run(s, r, number, &why);

	if (e == 0)
		e = find_base(s, r, &cp, &why);
	if (e == 0)
		e = make_settings(s, r, cp, &st);
	if (e == 0)
		e = make_session(s, number, &copy, &why);
	if (e < 0) {
		settings_clear(&st);
		if (why.code)
			session_problem(s, &why);
		return e;
	}
	e = set_up(copy, s, r, cp, &st);
	settings_clear(&st);
	if (e < 0) {
		session_destroy(copy);
		return e;
	}
	buf_clear(&r->rerun.text);
	r->rerun.going = true;
	touch_run(r);
	touch_rest(copy);
	session_problem(s, NULL);
	alarm_set(&s->fs->alarm, uv_now(s->fs->loop) + RERUN_TICK_MS);
	binding_pump(copy);
	wait_wake(&s->front.wait);
	return 0;
}
