/* SPDX-License-Identifier: Apache-2.0 */
/* The `files.changes` node: changes of a session in its copy of a host directory. */
#include "nodes.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"

/* More than the list can be: its size while it is open, see stream.c. */
#define CHANGES_UNKNOWN (32u << 20)

/* A list under way; holds a reference to its session. */
struct asker {
	struct session *s;
	uint64_t handle;
	unsigned epoch;
};

static void asker_free(struct asker *a)
{
	session_unref(a->s);
	free(a);
}

/* A list for the reader, without the sums. Return: 0 or -errno. */
static int show(struct buf *to, const struct vm_changes *c)
{
	size_t len;
	int e = 0;

	for (size_t at = 0; e == 0 && at < c->len;) {
		const char *line = c->text + at;

		at = changes_line(c->text, c->len, at, &len);
		if (len > WORKDIR_SUM)
			e = buf_append(to, line + WORKDIR_SUM, len - WORKDIR_SUM);
		if (e == 0)
			e = buf_append(to, "\n", 1);
	}
	return e;
}

static void settle(struct handle *h, int err)
{
	h->bound = true;
	h->cursor = (uint64_t)-err;
	handle_touch(h);
}

static void on_list(void *data, int err, const struct vm_changes *c)
{
	struct asker *a = data;
	struct fs *fs = a->s->fs;
	struct handle *h = handle_get(&fs->handles, a->handle);

	if (h && !h->bound) {
		if (err == 0) /* twice: it is shown, and remembered */
			err = quota_take(a->s, 0, 2 * c->len);
		if (err == 0)
			err = show(&h->text, c);
		if (err == 0)
			err = changes_remember(a->s, a->epoch, c);
		if (err < 0 && err != -EDQUOT)
			session_problemf(a->s, PROBLEM_NO_LIST, "Read files.changes again.",
					 "the changes could not be listed: %s", c->why);
		settle(h, err);
	}
	wait_wake(&a->s->front.wait);
	asker_free(a);
}

static int ask_list(struct session *s, uint64_t handle)
{
	struct asker *a = malloc(sizeof(*a));
	int e;

	if (!a)
		return -ENOMEM;
	*a = (struct asker){session_ref(s), handle, s->changes.epoch};
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
	if (s->dead) { /* even if a list is under way: nobody waits on a removed session */
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

static void changes_read(struct handle *h, struct req *req, size_t size, uint64_t offset,
			 bool nonblock)
{
	begin(h);
	if (!h->bound && nonblock)
		reply_err(req, -EAGAIN);
	else if (!h->bound)
		wait_park(h, req, size, offset);
	else if (h->cursor)
		reply_err(req, -(int)h->cursor);
	else
		text_reply(req, &h->text, size, offset);
}

static unsigned changes_poll(struct handle *h)
{
	begin(h);
	return h->bound ? POLLIN | POLLRDNORM : 0;
}

static int changes_open(struct handle *h)
{
	h->waitlist = &h->s->front.wait;
	h->stream = true;
	return 0;
}

const struct handle_ops changes_ops = {
	.open = changes_open,
	.read = changes_read,
	.poll = changes_poll,
};

/* The size is not known before it is read. */
uint64_t changes_size(const struct node *n)
{
	return handles_stream(&n->s->fs->handles, n->ino) ? CHANGES_UNKNOWN : 0;
}
