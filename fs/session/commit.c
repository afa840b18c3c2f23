/* SPDX-License-Identifier: Apache-2.0 */
/* `commit` and `discard`: the changes of a session are applied to the host, or discarded. */
#include "changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/log.h"
#include "binding.h"
#include "fs.h"
#include "pause.h"
#include "session.h"
#include "touch.h"

/*
 * Theory of operation
 * -------------------
 *	commit_begin()	what may be made is set aside (`asked`), and all in the sandbox is stopped
 *	on_still()	a process lists the changes
 *	judge()		they are those: the process makes them
 *	on_commit()
 *
 * Another daemon that comes up to judge() begins with the second step again: nothing was made. Behind it, it has the process,
 * which makes them once.
 */

/* A commit under way; holds a reference to its session. */
struct commit {
	struct session *s;
	bool is_reviewed; /* only these changes may be made */
	struct buf reviewed;
	char changed[600]; /* paths that have changed since, for `error` */
};

static void commit_free(struct commit *a)
{
	if (a->s->changes.commit == a)
		a->s->changes.commit = NULL;
	session_unref(a->s);
	buf_clear(&a->reviewed);
	free(a);
}

/* Its records have to be written. */
static void touch_changes(struct session *s)
{
	touch_session(s);
	touch_rest(s);
}

/* ---- versions ---- */

static bool has_line(const char *text, size_t len, const char *line, size_t n)
{
	size_t have;

	for (size_t at = 0; at < len;) {
		const size_t next = changes_line(text, len, at, &have);

		if (have == n && memcmp(text + at, line, n) == 0)
			return true;
		at = next;
	}
	return false;
}

#define NAMED_MAX 3u /* paths that are named, of each list */

/* Adds to @words the first lines of @a that are not in @b, without their sums. */
static void name_missing(const char *a, size_t a_len, const char *b, size_t b_len, const char *how,
			 char *words, size_t size)
{
	size_t at = 0, n = 0, len;

	for (size_t looked = 0; at < a_len && n < NAMED_MAX && looked < 8; looked++) {
		const char *line = a + at;
		const size_t used = strlen(words);

		at = changes_line(a, a_len, at, &len);
		if (len <= WORKDIR_SUM || has_line(b, b_len, line, len))
			continue;
		snprintf(words + used, size - used, "%s%s%.*s", used ? "; " : "", how,
			 (int)MIN(len - WORKDIR_SUM, 100u), line + WORKDIR_SUM);
		n++;
	}
}

/* Return: offset of the first line that differs. */
static size_t same_lines(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t at = 0, len;

	while (at < a_len && at < b_len) {
		const size_t next = changes_line(a, a_len, at, &len);

		if (next > b_len || memcmp(a + at, b + at, next - at) != 0)
			break;
		at = next;
	}
	return at;
}

/* Are the changes still those that were read? */
static bool judge(void *data, const struct vm_changes *c)
{
	struct commit *a = data;
	const struct buf *r = &a->reviewed;
	size_t at;

	if (!a->is_reviewed ||
	    (r->len == c->len && (c->len == 0 || memcmp(r->data, c->text, c->len) == 0))) {
		touch_session(a->s);
		return true;
	}
	at = same_lines(c->text, c->len, r->data, r->len);
	name_missing(c->text + at, c->len - at, r->data + at, r->len - at, "", a->changed,
		     sizeof(a->changed));
	if (!a->changed[0])
		name_missing(r->data + at, r->len - at, c->text + at, c->len - at, "no longer ",
			     a->changed, sizeof(a->changed));
	return false;
}

/* ---- verbs ---- */

/* Return: 0, or why these verbs can't be carried out now. */
static int check(struct session *s)
{
	if (!s->settings.spec.work) {
		session_problemf(s, PROBLEM_NO_WORK, "Use a template that has work = DIRECTORY.",
				 "files/ of this session is no copy of a directory of the host");
		return -EINVAL;
	}
	if (s->active || s->nqueued || s->changes.committing) {
		session_problemf(s, PROBLEM_BUSY, "Wait until it has ended.",
				 s->changes.committing
					 ? "changes are being taken over already"
					 : "a run is active or queued: it may be in the middle of "
					   "its changes");
		return -EBUSY;
	}
	return 0;
}

/* Reports the result of a commit, in `error` if not all of it worked. */
static void conclude(struct commit *a, int err, const struct vm_changes *c)
{
	struct session *s = a->s;
	static const char fix[] = "files.changes lists what is left; mend it and commit again.";
	char words[80], reasons[600];
	size_t len;

	if (err == -ECANCELED) {
		session_problemf(
			s, PROBLEM_CHANGED,
			"Nothing was committed. Read files.changes again, and commit again.",
			"the changes are not those that were read last: %s",
			a->changed[0] ? a->changed : "nothing was read since the last commit");
		events_add(&s->fs->events, s, "commit", "refused: not what was read last");
		return;
	}
	if (err == -ESTALE) {
		session_problemf(s, PROBLEM_COMMIT, fix,
				 "the changes were made; but whether all of them could be is not "
				 "known, for another daemon has taken the mount over meanwhile");
		return;
	}
	if (err < 0) {
		session_problemf(s, PROBLEM_COMMIT, fix, "the changes could not be made: %s",
				 c->why);
		return;
	}
	snprintf(words, sizeof(words), "%llu of %llu changes made",
		 (unsigned long long)(c->changes - MIN(c->changes, c->failures)),
		 (unsigned long long)c->changes);
	events_add(&s->fs->events, s, "commit", words);
	if (!c->failures) {
		session_problem(s, NULL); /* problems of an earlier commit are over */
		return;
	}
	len = MIN(c->len, sizeof(reasons) - 1);
	if (len && c->text[len - 1] == '\n')
		len--; /* the last newline separates nothing */
	for (size_t i = 0; i < len; i++)
		reasons[i] = c->text[i] == '\n' ? ';' : c->text[i];
	reasons[len] = '\0';
	session_problemf(s, PROBLEM_COMMIT, fix, "%s, not these: %s", words, reasons);
}

/* Is the session gone, so that a result can only be logged? */
static bool is_unheard(const struct session *s)
{
	return s->dead || s->fs->stopping;
}

static void on_commit(void *data, int err, const struct vm_changes *c)
{
	struct commit *a = data;
	struct session *s = a->s;

	s->changes.committing = false;
	touch_changes(s);
	pause_still_over(s);
	if (is_unheard(s) && err < 0 && err != -ESTALE) {
		log_about(LOG_LEVEL_WARN, session_label(s), "commit",
			  "%s: commit: nothing was made: %s", s->path,
			  err == -ECANCELED ? "the changes are not those that were read last, or "
					      "xsbxfs is ending"
					    : c->why);
	} else if (is_unheard(s) && c->failures) {
		log_about(LOG_LEVEL_WARN, session_label(s), "commit",
			  "%s: commit: %llu of %llu changes could not be made", s->path,
			  (unsigned long long)c->failures, (unsigned long long)c->changes);
	} else if (!is_unheard(s)) {
		conclude(a, err, c);
		session_used(s);
		binding_pump(s);
		wait_wake(&s->front.wait);
	}
	commit_free(a);
}

/* Sets aside the changes that were read: those are committed, even if somebody reads them again meanwhile. */
static void take_reviewed(struct changes *c)
{
	buf_clear(&c->asked);
	c->asked = c->reviewed;
	c->is_asked = c->is_reviewed;
	c->reviewed = (struct buf){0};
}

/* Undoes take_reviewed() if nothing was committed, unless somebody has read them again since. */
static void give_back(struct changes *c)
{
	if (c->reviewed.len)
		return;
	buf_clear(&c->reviewed);
	c->reviewed = c->asked;
	c->asked = (struct buf){0};
}

/* Asks for a commit of the changes that were read. They have to be read again before the next commit. */
static int ask_commit(struct session *s)
{
	struct changes *mine = &s->changes;
	struct commit *a = calloc(1, sizeof(*a));
	int e;

	if (!a)
		return -ENOMEM;
	a->s = session_ref(s);
	a->is_reviewed = mine->is_asked;
	a->reviewed = mine->asked;
	mine->asked = (struct buf){0};
	mine->commit = a;
	touch_changes(s);
	e = workdir_do(mine->work, WORKDIR_COMMIT, judge, on_commit, a);
	if (e < 0)
		commit_free(a);
	return e;
}

/* Everything in the sandbox is stopped, or could not be: -errno. */
static void on_still(struct session *s, int err)
{
	if (err == 0)
		err = s->changes.work ? ask_commit(s) : -ESTALE;
	if (err == 0)
		return;
	s->changes.committing = false;
	give_back(&s->changes);
	touch_changes(s);
	pause_still_over(s);
	session_problemf(s, PROBLEM_COMMIT, "Commit again.", "nothing was made: %s",
			 err == -EBUSY	     ? "not all that runs in the sandbox could be stopped"
			 : err == -ECANCELED ? "something in the sandbox ran although it was paused"
					     : strerror(-err));
	if (is_unheard(s))
		log_about(LOG_LEVEL_WARN, session_label(s), "commit",
			  "%s: commit: nothing was made: %s", s->path, strerror(-err));
}

int commit_begin(struct session *s)
{
	int e = check(s);

	if (e < 0 || !s->changes.work)
		return e;
	take_reviewed(&s->changes);
	s->changes.committing = true;
	touch_changes(s);
	e = pause_until_still(s, on_still);
	if (e < 0) {
		s->changes.committing = false;
		give_back(&s->changes);
		session_problemf(s, PROBLEM_BUSY, "Wait until the state is idle, and commit again.",
				 "what runs in the sandbox can't be stopped now: %s", strerror(-e));
	} else if (s->changes.committing) {
		session_problem(s, NULL); /* the result is reported later */
	}
	return e;
}

int commit_discard(struct session *s)
{
	static const struct problem discarded = {
		.code = PROBLEM_DISCARDED,
		.cause = "the changes were discarded, and the sandbox with them"};
	int e = check(s);

	if (e < 0)
		return e;
	binding_cut(s, &discarded);
	changes_drop(s);
	session_set_state(s, SESSION_NEW);
	session_problem(s, NULL);
	wait_wake(&s->front.wait);
	return 0;
}

/* ---- from one daemon to the next ---- */

const struct buf *commit_asked(const struct session *s, bool *ret_is_asked)
{
	const struct changes *c = &s->changes;

	*ret_is_asked = c->commit ? c->commit->is_reviewed : c->is_asked;
	return c->commit ? &c->commit->reviewed : &c->asked;
}

bool commit_put(const struct session *s, struct buf *out, struct fdbag *fds)
{
	const struct commit *a = s->changes.commit;

	return a && workdir_put_commit(s->fs->vm, a, out, fds);
}

int commit_take(struct session *s, const struct record_reader *fields, struct fdbag *fds)
{
	struct commit *a =
		s->changes.committing && !s->changes.commit ? calloc(1, sizeof(*a)) : NULL;
	int r;

	if (!a)
		return s->changes.committing && !s->changes.commit ? -ENOMEM : -EBADMSG;
	a->s = session_ref(s);
	r = workdir_take_commit(s->fs->vm, fields, fds, on_commit, a);
	if (r < 0)
		commit_free(a);
	else
		s->changes.commit = a;
	return r;
}

void commit_resume(struct session *s)
{
	struct pause *p = &s->pause;
	int e = 0;

	if (!s->changes.committing)
		return;
	p->still = on_still;
	if (!s->changes.commit && p->state != PAUSE_ASKED)
		e = pause_until_still(s, on_still);
	if (e < 0)
		on_still(s, e);
}
