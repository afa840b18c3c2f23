/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of a session of which something can't be read. See keep.h. */
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/session/ino.h"
#include "internal.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Parts of a session rely on each other, and which of them a damaged record was about can't be known. So nothing is mended in place:
 * a session is made as mkdir makes one, with the next generation of the slot, and gets from the old one what stands for
 * itself, and was checked by itself. All that may be under way (its sandbox, runs, jobs, handles, nodes below files/) is not.
 *
 * Where sessions are kept, what the disk has of it may be whole. So nothing is written there any more (kept.damaged), and what its
 * record there names is held: see keeper_held.c.
 */

/* What the new one gets. Owned by nobody else. */
struct rest {
	char name[65];
	unsigned template;
	uid_t uid;
	gid_t gid;
	struct session_place at;
	struct settings settings;
	struct timespec created, changed, config_mtime, runs_mtime, in_mtime;
	uint64_t first_event;
	struct run_list
		runs; /* by `link`, with the reference of the history and that of kept_runs */
	uint32_t last_number, last_ran, removed_runs, latest;
	struct checkpoint_list checkpoints;
	uint32_t last_checkpoint;
	struct asleep asleep; /* `saved` and `before`, and since when */
	struct buf console;
	struct trail console_trail;
	uint64_t console_cut;
};

/* ---- taken from the old one ---- */

static void take_runs(struct rest *rest, struct session *s)
{
	struct run *r, *next;

	TAILQ_INIT(&rest->runs);
	rest->latest = s->front.latest ? s->front.latest->number : 0;
	LIST_FOREACH(r, &s->kept_runs, kept)
		rest->last_number = MAX(rest->last_number, r->number);
	rest->last_number = MAX(rest->last_number, s->last_number);
	rest->last_ran = MIN(s->last_ran, rest->last_number);
	rest->removed_runs = s->removed_runs;
	for (r = TAILQ_FIRST(&s->runs); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (!run_ended(r))
			continue;
		TAILQ_REMOVE(&s->runs, r, link);
		s->nruns--;
		LIST_REMOVE(r, kept);
		keep_forget_run(r);
		TAILQ_INSERT_TAIL(&rest->runs, r, link);
	}
}

static void take_checkpoints(struct rest *rest, struct session *s)
{
	static const struct problem lost = {.code = PROBLEM_NOT_SAVED,
					    .cause = "the session was lost before it was saved",
					    .fix = "Remove it: rmdir checkpoints/NAME."};
	struct checkpoint *cp;

	TAILQ_INIT(&rest->checkpoints);
	rest->last_checkpoint = s->checkpoints.last;
	while ((cp = TAILQ_FIRST(&s->checkpoints.list))) {
		TAILQ_REMOVE(&s->checkpoints.list, cp, link);
		s->checkpoints.n--;
		if (cp->state == CHECKPOINT_SAVING) {
			cp->state = CHECKPOINT_FAILED;
			problem_keep(&cp->problem, &lost);
		}
		rest->last_checkpoint = MAX(rest->last_checkpoint, cp->number);
		TAILQ_INSERT_TAIL(&rest->checkpoints, cp, link);
	}
}

/* What it slept with can be looked at; the disk may name this, or what it woke from. */
static void take_saved(struct rest *rest, struct asleep *a)
{
	rest->asleep.saved = steal_ptr(a->saved);
	rest->asleep.files_only = a->files_only;
	rest->asleep.since = a->since;
	rest->asleep.before = steal_ptr(a->before);
	rest->asleep.before_since = a->before_since;
}

static void take(struct rest *rest, struct session *s)
{
	*rest = (struct rest){
		.template = session_template(s),
		.uid = s->uid,
		.gid = s->gid,
		.at = {.slot = s->slot, .generation = (s->generation + 1) & INO_GENERATIONS},
		.settings = s->settings,
		.created = s->created,
		.changed = s->changed,
		.config_mtime = s->config_mtime,
		.runs_mtime = s->runs_mtime,
		.in_mtime = s->front.in_mtime,
		.first_event = s->first_event,
		.console = s->console,
		.console_trail = s->console_trail,
		.console_cut = s->console_cut,
	};
	memcpy(rest->name, s->name, sizeof(rest->name));
	s->settings = (struct settings){0};
	s->console = (struct buf){0};
	s->console_trail = (struct trail){0};
	take_runs(rest, s);
	take_checkpoints(rest, s);
	take_saved(rest, &s->asleep);
}

/* ---- given to the new one ---- */

/* The newest is what its own nodes show. Without memory for its code `in` is empty. */
static void show(struct session *s, struct run *r, const struct timespec *mtime)
{
	struct buf code = {0};

	if (buf_append(&code, r->code.data, r->code.len) < 0)
		buf_clear(&code);
	front_show(&s->front, r, &code, mtime);
}

static void give_runs(struct session *s, struct rest *rest)
{
	struct run *r, *latest = TAILQ_LAST(&rest->runs, run_list);

	while ((r = TAILQ_FIRST(&rest->runs))) {
		TAILQ_REMOVE(&rest->runs, r, link);
		run_keep(s, r);
		TAILQ_INSERT_TAIL(&s->runs, r, link);
		s->nruns++;
		latest = r->number == rest->latest ? r : latest;
	}
	if (latest)
		show(s, latest, &rest->in_mtime);
	s->last_number = rest->last_number;
	s->last_ran = rest->last_ran;
	s->removed_runs = rest->removed_runs;
}

static void give(struct session *s, struct rest *rest)
{
	struct checkpoint *cp;

	s->gid = rest->gid;
	settings_clear(&s->settings);
	s->settings = rest->settings;
	s->created = rest->created;
	s->changed = rest->changed;
	s->config_mtime = rest->config_mtime;
	s->runs_mtime = rest->runs_mtime;
	s->first_event = rest->first_event;
	s->saving.of_slot = KEEP_NOBODY;
	s->asleep = rest->asleep;
	s->console = rest->console;
	s->console_trail = rest->console_trail;
	s->console_cut = rest->console_cut;
	s->checkpoints.last = rest->last_checkpoint;
	while ((cp = TAILQ_FIRST(&rest->checkpoints))) {
		TAILQ_REMOVE(&rest->checkpoints, cp, link);
		TAILQ_INSERT_TAIL(&s->checkpoints.list, cp, link);
		s->checkpoints.n++;
	}
	give_runs(s, rest);
}

/* There is nobody to get it. */
static void lose(struct rest *rest)
{
	struct checkpoint *cp;
	struct run *r;

	while ((r = TAILQ_FIRST(&rest->runs))) {
		TAILQ_REMOVE(&rest->runs, r, link);
		r->kept.le_prev = NULL; /* it is on no list */
		run_unref(r);
		run_unref(r);
	}
	while ((cp = TAILQ_FIRST(&rest->checkpoints))) {
		TAILQ_REMOVE(&rest->checkpoints, cp, link);
		saved_unref(cp->saved);
		settings_clear(&cp->settings);
		problem_keep(&cp->problem, NULL);
		free(cp->foreign);
		free(cp);
	}
	saved_unref(rest->asleep.saved);
	saved_unref(rest->asleep.before);
	settings_clear(&rest->settings);
	buf_clear(&rest->console);
}

struct session *keep_salvage(struct session *s, const struct problem *why)
{
	struct fs *fs = s->fs;
	struct session *left;
	struct rest rest;

	if (s->dead) {
		keep_drop(s);
		return NULL;
	}
	take(&rest, s);
	keep_drop(s);
	if (session_revive(fs, rest.template, rest.name, rest.uid, &rest.at, &left) < 0) {
		lose(&rest);
		return NULL;
	}
	give(left, &rest);
	left->state = SESSION_FAILED;
	left->on_disk.damaged = true;
	problem_keep(&left->closed, why);
	session_problem(left, why);
	return left;
}
