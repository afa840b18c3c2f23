/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: their table, their state and problems, their history of runs. */
#include "session.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fs.h"
#include "job.h"
#include "quota.h"
#include "touch.h"
#include "vm/base/problem.h"

static const char *const session_state_names[] = {
	[SESSION_NEW] = "new",	       [SESSION_STARTING] = "starting", [SESSION_IDLE] = "idle",
	[SESSION_RUNNING] = "running", [SESSION_PAUSED] = "paused",	[SESSION_CLOSED] = "closed",
	[SESSION_FAILED] = "failed",   [SESSION_ASLEEP] = "asleep",
};
static_assert(ARRAY_SIZE(session_state_names) == SESSION_NSTATES, "a name for each state");

const char *session_state_str(enum session_state state)
{
	return session_state_names[state];
}

/* Waiting helps only where there is a sandbox, or will be. */
const char *session_idle_fix(const struct session *s)
{
	switch (s->state) {
	case SESSION_NEW: return "It has no sandbox yet: run something first.";
	case SESSION_FAILED:
		return "It has no sandbox: run again, which tries to start one; `console` says how "
		       "the last try ended.";
	case SESSION_CLOSED:
		return "It has no sandbox: echo reset > ctl gives it a new one with its next run.";
	case SESSION_ASLEEP: return "It is asleep: echo wake > ctl wakes it.";
	case SESSION_STARTING:
	case SESSION_IDLE:
	case SESSION_RUNNING:
	case SESSION_PAUSED: break;
	case SESSION_NSTATES: assert(0);
	}
	return "Wait until the state is idle.";
}

/* ---- table ---- */

struct session *session_by_slot(struct fs *fs, unsigned slot, unsigned generation)
{
	struct session *s = roster_at(&fs->roster, slot);

	return s && s->generation == generation ? s : NULL;
}

unsigned session_template(const struct session *s)
{
	return (unsigned)(s->t - s->fs->conf->template);
}

struct session *session_find(struct fs *fs, unsigned template_index, const char *name)
{
	return roster_find(&fs->roster, &fs->conf->template[template_index], name);
}

/* Return: a session that is in no table yet, or NULL if out of memory. */
static struct session *session_new(struct fs *fs, unsigned template_index, unsigned slot,
				   const char *name)
{
	const struct conf_template *t = &fs->conf->template[template_index];
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (settings_copy(&s->settings, &t->settings) < 0) {
		free(s);
		return NULL;
	}
	*s = (struct session){
		.fs = fs,
		.slot = slot,
		.generation = roster_generation(&fs->roster, slot),
		.refs = 1,
		.t = t,
		.settings = s->settings,
		.state = SESSION_NEW,
		.created = clock_now(),
		.first_event = fs->events.next,
		.idle_since = uv_now(fs->loop),
		.console = {.limit = 2 * SESSION_CONSOLE_MAX},
	};
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->path, sizeof(s->path), "%s/%s", t->name, name);
	front_init(&s->front, s, NULL);
	s->changed = s->net_changed = s->ports_mtime = s->state_mtime = s->config_mtime =
		s->files_mtime = s->runs_mtime = s->jobs_mtime = s->checkpoints.mtime =
			s->console_mtime = s->created;
	if (fs->watch->made(s) < 0) {
		settings_clear(&s->settings);
		free(s);
		return NULL;
	}
	TAILQ_INIT(&s->file_events.readers);
	waitlist_init(&s->file_events.wait);
	waitlist_init(&s->events_wait);
	LIST_INIT(&s->kept_runs);
	TAILQ_INIT(&s->runs);
	TAILQ_INIT(&s->queue);
	TAILQ_INIT(&s->jobs);
	LIST_INIT(&s->kept_jobs);
	TAILQ_INIT(&s->scratch.files);
	TAILQ_INIT(&s->checkpoints.list);
	LIST_INIT(&s->restoring);
	TAILQ_INIT(&s->questions.list);
	LIST_INIT(&s->saving.copies);
	TAILQ_INIT(&s->children);
	return s;
}

/* Makes one in a free slot, or one that is in none. Return: 0 or -ENOMEM. */
static int place(struct fs *fs, unsigned template_index, const char *name,
		 const struct session_place *at, uid_t uid, struct session **ret_s)
{
	struct session *s = session_new(fs, template_index, at->slot, name);

	if (!s)
		return -ENOMEM;
	s->uid = uid;
	s->dead = at->dead;
	LIST_INSERT_HEAD(&fs->sessions, s, kept);
	if (at->dead)
		s->generation = at->generation;
	else
		roster_put(&fs->roster, s);
	*ret_s = s;
	return 0;
}

int session_create(struct fs *fs, unsigned template_index, const char *name, uid_t uid, gid_t gid,
		   struct session **ret_s)
{
	struct session *s;
	struct problem why;
	int slot, e;

	if (fs->stopping)
		return -EIO;
	if (!plain_name_ok(name))
		return strlen(name) > 64 ? -ENAMETOOLONG : -EINVAL;
	if (session_find(fs, template_index, name))
		return -EEXIST;
	if (fs->conf->template[template_index].gone)
		return -ENOENT;
	e = quota_session(fs, uid, &why);
	if (e == 0)
		e = audit_may(fs, 0, &why);
	if (e < 0)
		return e;
	slot = roster_reserve(&fs->roster, uid);
	if (slot < 0)
		return slot;
	e = place(fs, template_index, name, &(struct session_place){.slot = (unsigned)slot}, uid,
		  &s);
	if (e < 0)
		return e;
	s->gid = gid;
	fs->template_mtime[template_index] = s->created;
	fs->record.mount = true;
	touch_rest(s);
	fs->stats.sessions_created++;
	events_add(&fs->events, s, "session", "new");
	audit_session(s, "made");
	*ret_s = s;
	return 0;
}

int session_revive(struct fs *fs, unsigned template_index, const char *name, uid_t uid,
		   const struct session_place *at, struct session **ret_s)
{
	struct session_place free = {0};
	int slot;

	if (!plain_name_ok(name))
		return -EINVAL;
	if (at && at->dead)
		return at->slot < ROSTER_MAX && at->generation <= INO_GENERATIONS &&
				       roster_remember(&fs->roster, uid)
			       ? place(fs, template_index, name, at, uid, ret_s)
			       : -EINVAL;
	if (session_find(fs, template_index, name))
		return -EEXIST;
	slot = at ? roster_reserve_at(&fs->roster, at->slot, at->generation, uid)
		  : roster_reserve(&fs->roster, uid);
	if (slot < 0)
		return slot;
	free.slot = (unsigned)slot;
	return place(fs, template_index, name, &free, uid, ret_s);
}

struct session *session_ref(struct session *s)
{
	s->refs++;
	return s;
}

static void session_free(struct session *s)
{
	assert(s->dead && !s->binding && !s->active && TAILQ_EMPTY(&s->front.inputs) &&
	       TAILQ_EMPTY(&s->front.feeders) && TAILQ_EMPTY(&s->jobs));
	assert(LIST_EMPTY(&s->kept_runs) && TAILQ_EMPTY(&s->scratch.files));
	assert(!s->asleep.saved && !s->saving.of && LIST_EMPTY(&s->saving.copies));
	touch_session_gone(s);
	LIST_REMOVE(s, kept);
	roster_forget(&s->fs->roster, s);
	s->fs->watch->freed(s);
	problem_keep(&s->standing, NULL);
	problem_keep(&s->closed, NULL);
	problem_keep(&s->saving.unsaved, NULL);
	front_fini(&s->front);
	learned_clear(&s->learned);
	free(s->rerun);
	free(s);
}

void session_unref(struct session *s)
{
	assert(s->refs > 0);
	if (--s->refs == 0)
		session_free(s);
}

/* ---- problems ---- */

void session_problem(struct session *s, const struct problem *problem)
{
	struct problem p;

	if (!problem)
		problem = problem_kept(&s->standing);
	if (problem->code == PROBLEM_NONE && keeping_problem(s, &p))
		problem = &p;
	front_problem(&s->front, problem);
}

void session_problemf(struct session *s, enum problem_code code, const char *fix, const char *cause,
		      ...)
{
	struct problem p;
	va_list ap;

	va_start(ap, cause);
	problem_setv(&p, code, fix, cause, ap);
	va_end(ap);
	session_problem(s, &p);
}

/* ---- what may begin ---- */

int session_check_damaged(struct session *s)
{
	if (!s->on_disk.damaged)
		return 0;
	session_problem(s, problem_kept(&s->closed));
	return -ESTALE;
}

int session_may_begin(const struct session *s, const struct buf *text, struct problem *why)
{
	int e;

	if (s->dead)
		return -ESTALE;
	if (s->on_disk.damaged || s->state == SESSION_CLOSED) {
		*why = *problem_kept(&s->closed);
		return -ESTALE;
	}
	if (s->fs->ending) {
		problem_set(why, PROBLEM_UNMOUNTED, "", "xsbxfs is ending");
		return -ESTALE;
	}
	e = quota_begin(s->fs, s->uid, why);
	return e < 0 ? e : audit_may_run(s, text, why);
}

int session_may_submit(const struct session *s, const struct buf *code, struct problem *why)
{
	const int e = session_may_begin(s, code, why);

	if (e < 0 || s->nqueued < SESSION_QUEUE_MAX)
		return e;
	problem_set(why, PROBLEM_QUEUE_FULL, "Wait for a run to end, or use another session.",
		    "%u runs of this session are queued already", s->nqueued);
	return -EBUSY;
}

/* ---- time ---- */

void session_used(struct session *s)
{
	s->idle_since = uv_now(s->fs->loop);
	touch_head(s);
	if (s->settings.idle_timeout_s)
		alarm_set(&s->fs->alarm, s->idle_since + s->settings.idle_timeout_s * 1000ull);
}

bool session_in_use(const struct session *s)
{
	const struct opener *o = handle_opener(&s->fs->handles, s->uid);
	const struct handle *h;
	const struct job *j;

	if (o)
		LIST_FOREACH(h, &o->handles, opened)
			if (h->s == s && !h->ops && !h->packed && h->remote && h->epoch == s->epoch)
				return true;
	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->front.wait.nwaiters)
			return true;
	return s->front.wait.nwaiters;
}

void session_forget_sleep(struct session *s)
{
	touch_session(s);
	saved_unref(s->asleep.before);
	s->asleep.before = NULL;
	s->asleep.damaged = false;
}

void session_set_state(struct session *s, enum session_state state)
{
	if (s->state == state)
		return;
	if (state == SESSION_NEW || state == SESSION_CLOSED || state == SESSION_FAILED)
		session_forget_sleep(s);
	s->state = state;
	s->state_mtime = clock_now();
	touch_head(s);
	if (state == SESSION_CLOSED)
		s->fs->stats.sessions_closed++;
	if (state == SESSION_IDLE)
		session_used(s);
	if (!s->dead)
		events_add(&s->fs->events, s, "session", session_state_str(state));
}

void session_live_anew(struct session *s)
{
	touch_session(s);
	s->life = ++s->lives;
	s->born = s->epoch;
}

static void leave_parent(struct session *s)
{
	if (s->parent)
		TAILQ_REMOVE(&s->parent->children, s, sibling);
	s->parent = NULL;
}

void session_set_origin(struct session *s, const struct origin *origin)
{
	leave_parent(s);
	touch_rest(s);
	s->origin = origin ? *origin : (struct origin){0};
	if (origin)
		s->parent = session_by_slot(s->fs, origin->slot, origin->generation);
	else
		*s->settings.from = '\0';
	if (s->parent)
		TAILQ_INSERT_TAIL(&s->parent->children, s, sibling);
}

void session_leave_kin(struct session *s)
{
	struct session *copy;

	leave_parent(s);
	while ((copy = TAILQ_FIRST(&s->children)))
		leave_parent(copy);
}

void session_set_closed(struct session *s, const struct problem *why)
{
	problem_keep(&s->closed, why);
	touch_rest(s);
	session_problem(s, why);
	session_set_state(s, SESSION_CLOSED);
}

/* ---- runs ---- */

/* The history's limits: the oldest ended runs go first, the newest one never. */
static void trim_history(struct session *s)
{
	const struct conf *c = s->fs->conf;
	struct run *r, *next;
	uint64_t bytes = 0;

	TAILQ_FOREACH(r, &s->runs, link)
		bytes += run_bytes(r);
	for (r = TAILQ_FIRST(&s->runs); r; r = next) {
		uint64_t n = run_bytes(r);

		next = TAILQ_NEXT(r, link);
		if (s->nruns <= MAX(c->history_runs, 1u) && bytes <= c->history_bytes)
			break;
		if (!run_ended(r) || r == s->front.latest)
			continue;
		bytes -= n;
		(void)session_remove_run(s, r->number);
	}
}

struct run *session_run(struct session *s, uint32_t number)
{
	struct run *r;

	TAILQ_FOREACH_REVERSE(r, &s->runs, run_list, link)
		if (r->number == number)
			return r;
	return NULL;
}

int session_remove_run(struct session *s, uint32_t number)
{
	struct run *r = session_run(s, number);
	char words[64];

	if (!r)
		return -ENOENT;
	TAILQ_REMOVE(&s->runs, r, link);
	touch_run(r);
	touch_head(s);
	s->nruns--;
	s->removed_runs++;
	s->runs_mtime = clock_now();
	snprintf(words, sizeof(words), "run %u removed from the history", number);
	events_add(&s->fs->events, s, "history", words);
	run_unref(r);
	return 0;
}

struct run *session_add_run(struct session *s, struct buf *code, const struct timespec *mtime)
{
	struct buf copy = {0}; /* what `in` reads as */
	struct run *r;

	if (buf_append(&copy, code->data, code->len) < 0)
		return NULL;
	r = run_new(&s->fs->depot, s->last_number + 1, code);
	if (!r) {
		buf_clear(&copy);
		return NULL;
	}
	run_keep(s, r);
	s->last_number++;
	front_show(&s->front, r, &copy, mtime);

	TAILQ_INSERT_TAIL(&s->runs, r, link);
	s->nruns++;
	run_ref(r); /* not within the macro, which names its argument more than once */
	TAILQ_INSERT_TAIL(&s->queue, r, queue);
	s->nqueued++;
	s->runs_mtime = r->submitted;
	r->began = log_now();
	log_trace(run_label(s, r), "fs", "received, %zu bytes of code; %u %s queued", r->code.len,
		  s->nqueued, s->nqueued == 1 ? "run is" : "runs are");
	session_problem(s, NULL);
	trim_history(s);
	audit_run(s, r);
	events_add_run(&s->fs->events, s, r);
	return r;
}
