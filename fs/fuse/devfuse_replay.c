/* SPDX-License-Identifier: Apache-2.0 */
/* What another daemon has not answered, handled once more. See devfuse.h. */
#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/session/fs.h"
#include "vm/base/log.h"
#include "devfuse_internal.h"

/* Does the kernel wait for its answer still? Where its caller was interrupted, the kernel says so
 * once more. The answer to an interrupt that was not one for us asks for that; it has an odd
 * number. */
static bool is_alive(const struct devfuse *d, uint64_t unique)
{
	const struct fuse_out_header probe = {
		.len = sizeof(probe), .error = -EAGAIN, .unique = unique | 1};

	return write(fuse_session_fd(d->se), &probe, sizeof(probe)) >= 0 || errno != ENOENT;
}

static void again(struct devfuse *d, struct unanswered_request *r)
{
	unanswered_requeue(&d->unanswered, r);
	if (devfuse_handle(d, r->data, r->len))
		unanswered_settle(&d->unanswered, r);
	else
		devfuse_drop(d, r->unique);
}

/* Those that are not answered now either go to the end of the list, behind the last. */
static void replay_unanswered(struct devfuse *d)
{
	struct unanswered_request *r, *last = TAILQ_LAST(&d->unanswered.list, unanswered_list);
	bool more = last != NULL;

	while (more && (r = TAILQ_FIRST(&d->unanswered.list))) {
		more = r != last;
		if (is_alive(d, r->unique))
			again(d, r);
		else
			devfuse_drop(d, r->unique);
		turn_pause(d->turn);
	}
}

/* Those of the last turn, which was not committed. Interrupts come again, if is_alive() has found
 * what they are about. */
static int replay_inbox(struct devfuse *d)
{
	const struct fuse_in_header *in;
	size_t len;
	char *mem;
	int err = 0;

	while (err == 0 && (mem = inbox_next(&d->inbox, &len))) {
		if (d->survives)
			devfuse_news(d);
		else /* any more; the memory is there still */
			mem = memcpy(d->request.mem, mem, len);
		in = (const void *)mem;
		if (in->opcode != FUSE_INTERRUPT &&
		    (!devfuse_has_answer(in->opcode) || is_alive(d, in->unique)))
			err = devfuse_take(d, mem, len);
		turn_pause(d->turn);
	}
	return err;
}

void devfuse_own(struct devfuse *d)
{
	d->mounted = true;
	d->fs->kernel = (struct kernel *)d->se;
}

/* What they wait for may have happened when nobody was there to say so. They ask again. */
static void wake_pollers(struct devfuse *d)
{
	struct fuse_notify_poll_wakeup_out wakeup;
	struct fuse_out_header out = {.len = sizeof(out) + sizeof(wakeup),
				      .error = FUSE_NOTIFY_POLL};
	struct iovec iov[] = {{&out, sizeof(out)}, {&wakeup, sizeof(wakeup)}};
	const struct handle *h;

	TAILQ_FOREACH(h, &d->fs->handles.open, link) {
		wakeup.kh = h->kh;
		if (!h->kh || devfuse_queue(d, iov, 2, out.len))
			continue;
		if (writev(fuse_session_fd(d->se), iov, 2) < 0)
			log_debug("a poller is not told: %s", strerror(errno));
	}
}

void devfuse_replay(struct devfuse *d)
{
	int err;

	devfuse_own(d);
	/* What is known to be answered is not asked about. */
	devfuse_say(d);
	turn_pause(d->turn);
	replay_unanswered(d);
	err = replay_inbox(d);
	wake_pollers(d);
	if (err < 0) /* there is no memory for a request any more */
		d->ended(d->data, err, "out of memory");
}
