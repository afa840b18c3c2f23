/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a copy of a directory of the host: files.changes, `commit` and `discard`. */
#include "changes.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fs/mount.h"
#include "vm/base/log.h"
#include "fs/session/binding.h"
#include "fs/session/quota.h"
#include "fs/request/reply.h"
#include "fs/session/session.h"
#include "text.h"

/* Who waits for an answer; holds a reference. */
struct asker {
	struct session *s;
	uint64_t handle; /* of a list */
	unsigned epoch;
	bool is_reviewed; /* a commit: of this, and nothing else */
	struct buf reviewed;
	char changed[600]; /* what is not as it was */
};

static void asker_free(struct asker *a)
{
	session_unref(a->s);
	buf_clear(&a->reviewed);
	free(a);
}

void changes_drop(struct session *s)
{
	workdir_free(s->changes.work);
	s->changes.work = NULL;
	s->changes.epoch++;
	s->changes.is_reviewed = s->changes.is_asked = false;
	buf_clear(&s->changes.reviewed);
	buf_clear(&s->changes.asked);
}

void changes_begin(struct session *s)
{
	changes_drop(s);
	if (*s->settings.work)
		s->changes.work = workdir_of(s->sandbox);
}

static struct asker *asker_new(struct session *s)
{
	struct asker *a = calloc(1, sizeof(*a));

	if (a) {
		a->s = session_ref(s);
		a->epoch = s->changes.epoch;
	}
	return a;
}

/* ---- versions ---- */

/* The line at @at of @len bytes, without its end. Return: where the next one begins. */
static size_t line_at(const char *text, size_t len, size_t at, size_t *ret_len)
{
	const char *end = memchr(text + at, '\n', len - at);

	*ret_len = end ? (size_t)(end - text) - at : len - at;
	return at + *ret_len + (end != NULL);
}

static bool has_line(const char *text, size_t len, const char *line, size_t n)
{
	size_t have;

	for (size_t at = 0; at < len;) {
		const size_t next = line_at(text, len, at, &have);

		if (have == n && memcmp(text + at, line, n) == 0)
			return true;
		at = next;
	}
	return false;
}

#define NAMED_MAX 3u /* paths that are named, of each list */

/* Adds to @words the first lines of @a that @b has not, without their sums. */
static void name_missing(const char *a, size_t a_len, const char *b, size_t b_len, const char *how,
			 char *words, size_t size)
{
	size_t at = 0, n = 0, len;

	for (size_t looked = 0; at < a_len && n < NAMED_MAX && looked < 8; looked++) {
		const char *line = a + at;
		const size_t used = strlen(words);

		at = line_at(a, a_len, at, &len);
		if (len <= WORKDIR_SUM || has_line(b, b_len, line, len))
			continue;
		snprintf(words + used, size - used, "%s%s%.*s", used ? "; " : "", how,
			 (int)MIN(len - WORKDIR_SUM, 100u), line + WORKDIR_SUM);
		n++;
	}
}

/* Where the first line begins that is not the same in both. */
static size_t same_lines(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t at = 0, len;

	while (at < a_len && at < b_len) {
		const size_t next = line_at(a, a_len, at, &len);

		if (next > b_len || memcmp(a + at, b + at, next - at) != 0)
			break;
		at = next;
	}
	return at;
}

/* Is what could be made now what was read? */
static bool judge(void *data, const struct vm_changes *c)
{
	struct asker *a = data;
	const struct buf *r = &a->reviewed;
	size_t at;

	if (!a->is_reviewed ||
	    (r->len == c->len && (c->len == 0 || memcmp(r->data, c->text, c->len) == 0)))
		return true;
	at = same_lines(c->text, c->len, r->data, r->len);
	name_missing(c->text + at, c->len - at, r->data + at, r->len - at, "", a->changed,
		     sizeof(a->changed));
	if (!a->changed[0])
		name_missing(r->data + at, r->len - at, c->text + at, c->len - at, "no longer ",
			     a->changed, sizeof(a->changed));
	return false;
}

/* A list for the reader, without the sums. Return: 0 or -errno. */
static int show(struct buf *to, const struct vm_changes *c)
{
	size_t len;
	int e = 0;

	for (size_t at = 0; e == 0 && at < c->len;) {
		const char *line = c->text + at;

		at = line_at(c->text, c->len, at, &len);
		if (len > WORKDIR_SUM)
			e = buf_append(to, line + WORKDIR_SUM, len - WORKDIR_SUM);
		if (e == 0)
			e = buf_append(to, "\n", 1);
	}
	return e;
}

/* ---- the list ---- */

static void settle(struct handle *h, int err)
{
	h->bound = true;
	h->cursor = (uint64_t)-err;
}

/* What was read may be committed. */
static int remember(const struct asker *a, const struct vm_changes *c)
{
	struct changes *mine = &a->s->changes;

	if (a->epoch != mine->epoch)
		return 0;
	buf_clear(&mine->reviewed);
	mine->is_reviewed = true;
	return buf_append(&mine->reviewed, c->text, c->len);
}

static void on_list(void *data, int err, const struct vm_changes *c)
{
	struct asker *a = data;
	struct fs *fs = a->s->fs;
	struct handle *h = handle_get(fs, a->handle);

	if (h && !h->bound) {
		if (err == 0) /* it is shown, and remembered */
			err = quota_take(fs, a->s, 0, 2 * c->len);
		if (err == 0)
			err = show(&h->text, c);
		if (err == 0)
			err = remember(a, c);
		if (err < 0 && err != -EDQUOT)
			session_problemf(a->s, "no-list", "Read files.changes again.",
					 "the changes could not be listed: %s", c->why);
		settle(h, err);
	}
	wait_wake(fs, &a->s->wait);
	asker_free(a);
}

static int ask_list(struct session *s, uint64_t handle)
{
	struct asker *a = asker_new(s);
	int e = -ENOMEM;

	if (!a)
		return e;
	a->handle = handle;
	e = workdir_do(s->changes.work, WORKDIR_LIST, NULL, on_list, a);
	if (e < 0)
		asker_free(a);
	return e;
}

/* One list for each open, made when it is first read. */
static void begin(struct handle *h)
{
	struct session *s = h->s;
	int e;

	if (h->bound)
		return;
	if (s->dead) { /* also where a list is on its way: nobody waits on a session that is gone */
		settle(h, -ESTALE);
		return;
	}
	if (h->asked)
		return;
	if (s->changes.committing || s->pause.state == PAUSE_ASKED)
		return;
	if (!s->changes.work) {
		settle(h, 0);
		return;
	}
	e = ask_list(s, handle_id(h));
	if (e < 0)
		settle(h, e);
	h->asked = true;
}

static void changes_read(struct fs *fs, struct handle *h, struct req *req, size_t size,
			 uint64_t offset, bool nonblock)
{
	begin(h);
	if (!h->bound && nonblock)
		reply_err(req, -EAGAIN);
	else if (!h->bound)
		wait_park(fs, h, req, size, offset);
	else if (h->cursor)
		reply_err(req, -(int)h->cursor);
	else
		text_reply(req, &h->text, size, offset);
}

static unsigned changes_poll(struct fs *fs, struct handle *h)
{
	(void)fs;
	begin(h);
	return h->bound ? POLLIN | POLLRDNORM : 0;
}

static struct waitlist *changes_waits(struct fs *fs, struct handle *h)
{
	(void)fs;
	return &h->s->wait;
}

static int changes_open(struct fs *fs, struct handle *h, const struct node *n)
{
	(void)fs;
	(void)n;
	h->stream = true;
	return 0;
}

const struct handle_ops changes_ops = {
	.open = changes_open,
	.read = changes_read,
	.poll = changes_poll,
	.waits = changes_waits,
};

/* ---- verbs ---- */

/* Return: 0, or why these verbs can't be carried out now. */
static int check(struct session *s)
{
	if (!*s->settings.work) {
		session_problemf(s, "no-work", "Use a template that has work = DIRECTORY.",
				 "files/ of this session is no copy of a directory of the host");
		return -EINVAL;
	}
	if (s->active || s->nqueued || s->changes.committing) {
		session_problemf(s, "busy", "Wait until it has ended.",
				 s->changes.committing
					 ? "changes are being taken over already"
					 : "a run is active or queued: it may be in the middle of "
					   "its changes");
		return -EBUSY;
	}
	return 0;
}

/* What a commit has come to, in `error` if not all of it worked. */
static void conclude(struct asker *a, int err, const struct vm_changes *c)
{
	struct session *s = a->s;
	static const char fix[] = "files.changes lists what is left; mend it and commit again.";
	char words[80], reasons[600];
	size_t len;

	if (err == -ECANCELED) {
		session_problemf(
			s, "changed",
			"Nothing was committed. Read files.changes again, and commit again.",
			"the changes are not those that were read last: %s",
			a->changed[0] ? a->changed : "nothing was read since the last commit");
		events_add(&s->fs->events, s, "commit", "refused: not what was read last");
		return;
	}
	if (err < 0) {
		session_problemf(s, "commit", fix, "the changes could not be made: %s", c->why);
		return;
	}
	snprintf(words, sizeof(words), "%llu of %llu changes made",
		 (unsigned long long)(c->changes - MIN(c->changes, c->failures)),
		 (unsigned long long)c->changes);
	events_add(&s->fs->events, s, "commit", words);
	if (!c->failures) {
		session_problem(s, NULL); /* what went wrong with an earlier one is mended */
		return;
	}
	len = MIN(c->len, sizeof(reasons) - 1);
	if (len && c->text[len - 1] == '\n')
		len--; /* it ends a line, and parts none */
	for (size_t i = 0; i < len; i++)
		reasons[i] = c->text[i] == '\n' ? ';' : c->text[i];
	reasons[len] = '\0';
	session_problemf(s, "commit", fix, "%s, not these: %s", words, reasons);
}

/* Can nobody read in the session what has become of a commit? */
static bool is_unheard(const struct session *s)
{
	return s->dead || s->fs->stopping;
}

static void on_commit(void *data, int err, const struct vm_changes *c)
{
	struct asker *a = data;
	struct session *s = a->s;

	s->changes.committing = false;
	pause_commit_over(s);
	if (is_unheard(s) && err < 0) {
		log_warn("%s/%s: commit: nothing was made: %s", s->t->name, s->name,
			 err == -ECANCELED ? "the changes are not those that were read last, or "
					     "xsbxfs is ending"
					   : c->why);
	} else if (is_unheard(s) && c->failures) {
		log_warn("%s/%s: commit: %llu of %llu changes could not be made", s->t->name,
			 s->name, (unsigned long long)c->failures, (unsigned long long)c->changes);
	} else if (!is_unheard(s)) {
		conclude(a, err, c);
		session_touch(s);
		lease_pump(s);
		wait_wake(s->fs, &s->wait);
	}
	asker_free(a);
}

/* What was read until now is to be committed, whoever reads meanwhile. */
static void take_reviewed(struct changes *c)
{
	buf_clear(&c->asked);
	c->asked = c->reviewed;
	c->is_asked = c->is_reviewed;
	c->reviewed = (struct buf){0};
}

/* ... or can be asked for again, unless somebody has read since. */
static void give_back(struct changes *c)
{
	if (c->reviewed.len)
		return;
	buf_clear(&c->reviewed);
	c->reviewed = c->asked;
	c->asked = (struct buf){0};
}

/* Of what was read, if anything was. It has to be read again for the next one. */
static int ask_commit(struct session *s)
{
	struct changes *mine = &s->changes;
	struct asker *a = asker_new(s);
	int e = -ENOMEM;

	if (!a)
		return e;
	a->is_reviewed = mine->is_asked;
	a->reviewed = mine->asked;
	mine->asked = (struct buf){0};
	e = workdir_do(mine->work, WORKDIR_COMMIT, judge, on_commit, a);
	if (e < 0)
		asker_free(a);
	return e;
}

int changes_commit(struct session *s)
{
	int e = check(s);

	if (e < 0 || !s->changes.work)
		return e;
	take_reviewed(&s->changes);
	s->changes.committing = true;
	e = pause_for_commit(s);
	if (e < 0) {
		s->changes.committing = false;
		give_back(&s->changes);
		session_problemf(s, "busy", "Wait until the state is idle, and commit again.",
				 "what runs in the sandbox can't be stopped now: %s", strerror(-e));
	} else if (s->changes.committing) {
		session_problem(s, NULL); /* what comes of it is told when it is over */
	}
	return e;
}

void changes_still(struct session *s, int err)
{
	if (err == 0)
		err = s->changes.work ? ask_commit(s) : -ESTALE;
	if (err == 0)
		return;
	s->changes.committing = false;
	give_back(&s->changes);
	pause_commit_over(s);
	session_problemf(s, "commit", "Commit again.", "nothing was made: %s",
			 err == -EBUSY	     ? "not all that runs in the sandbox could be stopped"
			 : err == -ECANCELED ? "something in the sandbox ran although it was paused"
					     : strerror(-err));
	if (is_unheard(s))
		log_warn("%s/%s: commit: nothing was made: %s", s->t->name, s->name,
			 strerror(-err));
}

int changes_discard(struct session *s)
{
	static const struct problem discarded = {
		.code = "discarded",
		.cause = "the changes were discarded, and the sandbox with them",
	};
	int e = check(s);

	if (e < 0)
		return e;
	lease_cut(s, &discarded);
	changes_drop(s);
	lease_set_state(s, SESSION_NEW);
	session_problem(s, NULL);
	wait_wake(s->fs, &s->wait);
	return 0;
}
