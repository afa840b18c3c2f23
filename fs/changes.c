/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a copy of a directory of the host: files.changes, `commit` and `discard`. */
#include "changes.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "lease.h"
#include "reply.h"
#include "session.h"
#include "text.h"

/* Who waits for an answer; holds a reference. */
struct asker {
	struct session *s;
	uint64_t handle; /* of a list */
};

void changes_drop(struct session *s)
{
	vm_work_free(s->changes.work);
	s->changes.work = NULL;
}

void changes_begin(struct session *s)
{
	changes_drop(s);
	if (*s->settings.work)
		s->changes.work = vm_work_of(s->sandbox);
}

static int ask(struct session *s, uint64_t handle, enum vm_work_op op, vm_work_fn fn)
{
	struct asker *a = malloc(sizeof(*a));
	int e;

	if (!a)
		return -ENOMEM;
	*a = (struct asker){session_ref(s), handle};
	e = vm_work_do(s->changes.work, op, fn, a);
	if (e < 0) {
		session_unref(s);
		free(a);
	}
	return e;
}

/* ---- the list ---- */

static void settle(struct handle *h, int err)
{
	h->bound = true;
	h->cursor = (uint64_t)-err;
}

static void on_list(void *data, int err, const struct vm_changes *c)
{
	struct asker *a = data;
	struct fs *fs = a->s->fs;
	struct handle *h = handle_get(fs, a->handle);

	if (h) {
		if (err == 0)
			err = buf_append(&h->text, c->text, c->len);
		if (err < 0)
			session_problemf(a->s, "no-list", "Read files.changes again.",
					 "the changes could not be listed: %s", c->why);
		settle(h, err);
	}
	wait_wake(fs, &a->s->wait);
	session_unref(a->s);
	free(a);
}

/* One list for each open, made when it is first read. */
static void begin(struct handle *h)
{
	struct session *s = h->s;
	int e;

	if (h->bound || h->asked || s->changes.committing)
		return;
	if (!s->changes.work) {
		settle(h, s->dead ? -ESTALE : 0);
		return;
	}
	e = ask(s, handle_id(h), VM_WORK_LIST, on_list);
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
static void conclude(struct session *s, int err, const struct vm_changes *c)
{
	static const char fix[] = "files.changes lists what is left; mend it and commit again.";
	char words[80], reasons[600];
	size_t len;

	if (err < 0) {
		session_problemf(s, "commit", fix, "the changes could not be made: %s", c->why);
		return;
	}
	snprintf(words, sizeof(words), "%llu of %llu changes made",
		 (unsigned long long)(c->changes - MIN(c->changes, c->failures)),
		 (unsigned long long)c->changes);
	events_add(&s->fs->events, s, "commit", words);
	if (!c->failures)
		return;
	len = MIN(c->len, sizeof(reasons) - 1);
	for (size_t i = 0; i < len; i++)
		reasons[i] = c->text[i] == '\n' ? ';' : c->text[i];
	reasons[len] = '\0';
	session_problemf(s, "commit", fix, "%s, not these: %s", words, reasons);
}

static void on_commit(void *data, int err, const struct vm_changes *c)
{
	struct asker *a = data;
	struct session *s = a->s;

	s->changes.committing = false;
	if (!s->dead) {
		conclude(s, err, c);
		lease_pump(s);
		wait_wake(s->fs, &s->wait);
	}
	session_unref(s);
	free(a);
}

int changes_commit(struct session *s)
{
	int e = check(s);

	if (e < 0 || !s->changes.work)
		return e;
	e = ask(s, 0, VM_WORK_COMMIT, on_commit);
	if (e < 0)
		session_problemf(s, "commit", "", "the changes could not be made: %s",
				 strerror(-e));
	else
		s->changes.committing = true;
	return e;
}

int changes_discard(struct session *s)
{
	static const struct vm_problem discarded = {
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
