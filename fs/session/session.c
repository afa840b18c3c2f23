/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: their table, their queue of runs, their history, the verbs of `ctl`. */
#include "session.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fs/mount.h"
#include "binding.h"
#include "vm/base/problem.h"

static const char *const session_state_names[] = {
	[SESSION_NEW] = "new",	       [SESSION_STARTING] = "starting", [SESSION_IDLE] = "idle",
	[SESSION_RUNNING] = "running", [SESSION_PAUSED] = "paused",	[SESSION_CLOSED] = "closed",
	[SESSION_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(session_state_names) == SESSION_NSTATES, "a name for each state");

const char *session_state_str(enum session_state state)
{
	return session_state_names[state];
}

/* ---- table ---- */

struct session *session_by_slot(struct fs *fs, unsigned slot, unsigned generation)
{
	struct session *s = slot < fs->nslots ? fs->slot[slot] : NULL;

	return s && s->generation == generation ? s : NULL;
}

struct session *session_find(struct fs *fs, unsigned template_index, const char *name)
{
	for (unsigned i = 0; i < fs->nslots; i++) {
		struct session *s = fs->slot[i];

		if (s && s->template_index == template_index && !strcmp(s->name, name))
			return s;
	}
	return NULL;
}

/* Those there are, or those that were removed and of which something is open still. */
static unsigned sessions_of(const struct fs *fs, uid_t uid, bool dead)
{
	const struct session *s;
	unsigned n = 0;

	LIST_FOREACH(s, &fs->sessions, kept)
		n += s->uid == uid && s->dead == dead;
	return n;
}

#define SLOTS_FRESH 256u /* slots are used once each before any is used again */

/* The free slot that was used least often: generations wrap, and only then could an inode number of a
 * session long gone name another one. */
static int free_slot(const struct fs *fs)
{
	int best = -1;

	if (fs->nslots < SLOTS_FRESH)
		return (int)fs->nslots;
	for (unsigned i = 0; i < fs->nslots; i++)
		if (!fs->slot[i] && (best < 0 || fs->slot_gen[i] < fs->slot_gen[best]))
			best = (int)i;
	if (best < 0 && fs->nslots < FS_SESSIONS_MAX)
		best = (int)fs->nslots;
	return best;
}

int session_create(struct fs *fs, unsigned template_index, const char *name, uid_t uid, gid_t gid,
		   struct session **ret_s)
{
	const struct conf_template *t = &fs->conf->template[template_index];
	struct session *s;
	int slot;

	if (fs->stopping)
		return -EIO;
	if (!plain_name_ok(name))
		return strlen(name) > 64 ? -ENAMETOOLONG : -EINVAL;
	if (session_find(fs, template_index, name))
		return -EEXIST;
	if (fs->conf->max_sessions && (sessions_of(fs, uid, false) >= fs->conf->max_sessions ||
				       sessions_of(fs, uid, true) >= fs->conf->max_sessions))
		return -EDQUOT;
	slot = free_slot(fs);
	if (slot < 0)
		return -ENOSPC;

	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	if (settings_copy(&s->settings, &t->settings) < 0) {
		free(s);
		return -ENOMEM;
	}
	*s = (struct session){
		.fs = fs,
		.slot = (unsigned)slot,
		.generation = fs->slot_gen[slot],
		.refs = 1,
		.t = t,
		.template_index = template_index,
		.uid = uid,
		.gid = gid,
		.settings = s->settings,
		.state = SESSION_NEW,
		.created = fs_now(),
		.idle_since = uv_now(fs->loop),
		.console = {.limit = 2 * SESSION_CONSOLE_MAX},
	};
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->path, sizeof(s->path), "%s/%s", t->name, name);
	s->changed = s->net_changed = s->ports_mtime = s->state_mtime = s->config_mtime =
		s->files_mtime = s->runs_mtime = s->in_mtime = s->stdin_mtime = s->error_mtime =
			s->console_mtime = s->created;
	LIST_INIT(&s->kept_runs);
	LIST_INSERT_HEAD(&fs->sessions, s, kept);
	TAILQ_INIT(&s->runs);
	TAILQ_INIT(&s->queue);
	TAILQ_INIT(&s->inputs);
	waitlist_init(&s->wait);
	scratch_init(&s->scratch);
	files_init(&s->files, s);
	fs->slot[slot] = s;
	fs->nslots = MAX(fs->nslots, (unsigned)slot + 1);
	fs->template_mtime[template_index] = s->created;
	fs->stats.sessions_created++;
	events_add(&fs->events, s, "session", "new");
	*ret_s = s;
	return 0;
}

struct session *session_ref(struct session *s)
{
	s->refs++;
	return s;
}

/* What nobody can get at any more by its name. What is open of it, its handles keep. */
static void let_go(struct session *s)
{
	struct run *r;

	while ((r = TAILQ_FIRST(&s->runs))) {
		TAILQ_REMOVE(&s->runs, r, link);
		run_unref(r);
	}
	s->nruns = 0;
	if (s->latest)
		run_unref(s->latest);
	s->latest = NULL;
	changes_drop(s);
	scratch_unlink_all(s);
	settings_clear(&s->settings);
	netlog_fini(&s->netlog);
	buf_clear(&s->next_stdin);
	buf_clear(&s->last_code);
	buf_clear(&s->console);
}

static void session_free(struct session *s)
{
	assert(s->dead && !s->lease && !s->active && TAILQ_EMPTY(&s->inputs));
	assert(LIST_EMPTY(&s->kept_runs) && TAILQ_EMPTY(&s->scratch.files));
	LIST_REMOVE(s, kept);
	files_fini(&s->files);
	free(s);
}

void session_unref(struct session *s)
{
	assert(s->refs > 0);
	if (--s->refs == 0)
		session_free(s);
}

void session_destroy(struct session *s)
{
	static const struct problem gone = {
		.code = "removed",
		.cause = "the session was removed before this run began",
	};
	struct fs *fs = s->fs;

	assert(!s->dead);
	s->dead = true;
	lease_cut(s, &gone);
	s->state = SESSION_CLOSED;
	wait_wake(fs, &s->wait); /* every run has ended: all of them find something to answer */
	wait_flush(&s->wait, -ESTALE);
	let_go(s);
	events_add(&fs->events, s, "session", "removed");
	fs->template_mtime[s->template_index] = fs_now();
	fs->slot[s->slot] = NULL;
	fs->slot_gen[s->slot] = (fs->slot_gen[s->slot] + 1) & 0xfff;
	session_unref(s);
}

/* ---- problems ---- */

void session_problem(struct session *s, const struct problem *problem)
{
	if (problem)
		s->error = *problem;
	else
		s->error = s->standing;
	s->config_error = false;
	s->error_mtime = fs_now();
}

void session_problemf(struct session *s, const char *code, const char *fix, const char *cause, ...)
{
	struct problem p;
	va_list ap;

	va_start(ap, cause);
	problem_setv(&p, code, fix, cause, ap);
	va_end(ap);
	session_problem(s, &p);
}

/* ---- runs ---- */

bool session_input_pending(const struct session *s)
{
	struct handle *h;

	if (s->dead)
		return false; /* nothing will become a run any more */
	TAILQ_FOREACH(h, &s->inputs, input_link)
		if (h->dirty && h->text.len && !h->killed && !h->failed)
			return true;
	return false;
}

/* @why: filled in unless the session is dead. */
static int may_submit(const struct session *s, struct problem *why)
{
	if (s->dead)
		return -ESTALE;
	if (s->state == SESSION_CLOSED) {
		*why = s->closed;
		return -ESTALE;
	}
	if (s->nqueued >= SESSION_QUEUE_MAX) {
		problem_set(why, "queue-full", "Wait for a run to end, or use another session.",
			    "%u runs of this session are queued already", s->nqueued);
		return -EBUSY;
	}
	return 0;
}

int session_can_submit(struct session *s)
{
	struct problem why = {0};
	int e = may_submit(s, &why);

	if (why.code[0])
		session_problem(s, &why);
	return e;
}

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
		if (!run_ended(r) || r == s->latest)
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
	s->nruns--;
	s->removed_runs++;
	s->runs_mtime = fs_now();
	snprintf(words, sizeof(words), "run %u removed from the history", number);
	events_add(&s->fs->events, s, "history", words);
	run_unref(r);
	return 0;
}

/* A new run, the newest of the history and last of the queue, or NULL for want of memory. */
static struct run *add_run(struct session *s, struct buf *code, struct buf *input,
			   const struct timespec *mtime)
{
	struct buf copy = {0}; /* what `in` reads as */
	struct run *r;

	if (buf_append(&copy, code->data, code->len) < 0)
		return NULL;
	r = run_new(&s->fs->depot, s->last_number + 1, code, input);
	if (!r) {
		buf_clear(&copy);
		return NULL;
	}
	LIST_INSERT_HEAD(&s->kept_runs, r, kept);
	s->last_number++;
	buf_clear(&s->last_code);
	s->last_code = copy;
	s->in_mtime = *mtime;
	s->in_absent = false;

	TAILQ_INSERT_TAIL(&s->runs, r, link);
	s->nruns++;
	run_ref(r); /* not within the macro, which names its argument more than once */
	TAILQ_INSERT_TAIL(&s->queue, r, queue);
	s->nqueued++;
	if (s->latest)
		run_unref(s->latest);
	s->latest = run_ref(r);
	s->runs_mtime = r->submitted;
	r->began = log_now();
	log_trace(run_label(s, r), "fs", "received, %zu bytes of code; %u runs are queued",
		  r->code.len, s->nqueued);
	session_problem(s, NULL);
	trim_history(s);
	events_add_run(&s->fs->events, s, r);
	return r;
}

int session_submit(struct session *s, struct buf *code, const struct timespec *mtime)
{
	int e = session_can_submit(s);

	if (e < 0)
		return e;
	if (!add_run(s, code, &s->next_stdin, mtime))
		return -ENOMEM;
	s->stdin_taken++;
	lease_pump(s);
	wait_wake(s->fs, &s->wait);
	return 0;
}

int session_submit_late(struct session *s, struct buf *code, const struct timespec *mtime)
{
	struct problem why = {0};
	int e = may_submit(s, &why);
	struct buf none = {0};
	struct run *r;

	if (e == 0)
		return session_submit(s, code, mtime);
	assert(!s->dead && why.code[0]);
	r = add_run(s, code, &none, mtime);
	if (!r)
		return -ENOMEM;
	lease_refuse(s, r, &why);
	wait_wake(s->fs, &s->wait);
	return 0;
}

int session_start(struct session *s)
{
	if (s->dead || s->state == SESSION_CLOSED)
		return -ESTALE;
	return s->sandbox ? 0 : lease_start(s);
}

/* ---- ctl ---- */

int session_interrupt(struct session *s)
{
	if (!s->active) {
		session_problemf(s, "not-running", "", "there is no run to interrupt");
		return -ESRCH;
	}
	return sandbox_signal(s->sandbox, s->active->number, SANDBOX_INTERRUPT);
}

int session_kill(struct session *s)
{
	static const struct problem killed = {
		.code = "killed",
		.cause = "killed by ctl before it began",
	};
	struct run *r = TAILQ_FIRST(&s->queue);

	if (s->active)
		return sandbox_signal(s->sandbox, s->active->number, SANDBOX_KILL);
	if (!r) {
		session_problemf(s, "not-running", "", "there is no run to kill");
		return -ESRCH;
	}
	lease_refuse(s, r, &killed);
	wait_wake(s->fs, &s->wait);
	return 0;
}

int session_reset(struct session *s)
{
	static const struct problem reset = {
		.code = "reset",
		.cause = "the session was reset before this run began",
	};
	int e;

	if (s->changes.committing) { /* what was stopped for it would go on */
		session_problemf(s, "busy", "Wait until it has ended.",
				 "changes are being taken over");
		return -EBUSY;
	}
	if (s->active) {
		s->reset_asked = true;
		e = session_kill(s);
		return e == -ESRCH ? 0 : e; /* it has just ended */
	}
	if (s->state == SESSION_IDLE || s->state == SESSION_PAUSED) {
		pause_void(s);
		e = sandbox_reset(s->sandbox);
		if (e == -EBUSY) /* not READY yet, maybe from another reset */
			s->reset_asked = true;
		else if (e < 0)
			return e;
		session_touch(s);
		events_add(&s->fs->events, s, "session", "interpreter reset");
		return 0;
	}
	if (s->state == SESSION_STARTING)
		return 0; /* it will be as fresh as can be */
	lease_cut(s, &reset);
	changes_drop(s);
	lease_set_state(s, SESSION_NEW);
	session_problem(s, NULL);
	return 0;
}

int session_close(struct session *s)
{
	static const struct problem closed = {
		.code = "closed",
		.cause = "the session was closed by ctl",
		.fix = "echo reset > ctl gives the session a new sandbox.",
	};

	lease_cut(s, &closed);
	lease_close(s, &closed);
	wait_wake(s->fs, &s->wait);
	return 0;
}

/* ---- time ---- */

void session_touch(struct session *s)
{
	s->idle_since = uv_now(s->fs->loop);
	if (s->settings.idle_timeout_s)
		fs_alarm(s->fs, s->idle_since + s->settings.idle_timeout_s * 1000ull);
}

/* Lets go of a sandbox that nobody has used for idle_timeout_s. */
static uint64_t check_idle(struct session *s, uint64_t now)
{
	struct problem idle = {
		.code = "idle-timeout",
		.fix = "echo reset > ctl gives the session a new sandbox; idle_timeout_s = 0 keeps "
		       "it "
		       "for ever.",
	};
	uint64_t due;

	if ((s->state != SESSION_IDLE && s->state != SESSION_PAUSED) || s->nqueued ||
	    s->changes.committing || !s->settings.idle_timeout_s)
		return UINT64_MAX;
	due = s->idle_since + s->settings.idle_timeout_s * 1000ull;
	if (now < due)
		return due;
	snprintf(idle.cause, sizeof(idle.cause), "the session was closed after %u s without use",
		 s->settings.idle_timeout_s);
	lease_cut(s, &idle);
	lease_close(s, &idle);
	wait_wake(s->fs, &s->wait);
	return UINT64_MAX;
}

uint64_t session_tick(struct session *s, uint64_t now)
{
	uint64_t next = check_idle(s, now);
	bool expired = false;
	struct waiter *w;

	/* Reads that wait for a run to begin, see stream.c. */
	TAILQ_FOREACH(w, &s->wait.waiters, link) {
		if (!w->h->deadline)
			continue;
		if (now < w->h->deadline)
			next = MIN(next, w->h->deadline);
		else
			expired = true;
	}
	if (expired)
		wait_wake(s->fs, &s->wait);
	return next;
}
