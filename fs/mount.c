/* SPDX-License-Identifier: Apache-2.0 */
/* The mount as a whole: start and end. */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "vm/base/path.h"
#include "fs/files/files.h"
#include "fs/request/nodelock.h"
#include "fs/session/binding.h"
#include "fs/session/intake.h"
#include "fs/session/quota.h"
#include "fs/session/rerun_verbs.h"
#include "fs/session/session.h"
#include "fs/tree/nodes.h"
#include "fs/tree/report.h"

static uint64_t on_alarm(void *data, uint64_t now)
{
	struct fs *fs = data;
	const uint64_t enforced = quota_enforce(fs);
	uint64_t next = wait_tick(&fs->events.wait, now);

	next = MIN(next, enforced);
	for (unsigned i = 0; i < fs->roster.n; i++) {
		struct session *s = roster_at(&fs->roster, i);
		uint64_t due;

		if (!s)
			continue;
		session_ref(s);
		due = session_tick(s, now);
		next = MIN(next, due);
		due = files_tick(s->files, now);
		next = MIN(next, due);
		due = s->rerun ? rerun_tick(s, now) : UINT64_MAX;
		next = MIN(next, due);
		session_unref(s);
	}
	return next;
}

/*
 * A kernel with a request timeout aborts the whole mount when a read has waited longer. So where there
 * is one, waiting reads are interrupted in time; programs retry after EINTR. Waits for locks, and for an agent that
 * doesn't answer or is not there yet, end with EAGAIN.
 */
static void on_renew(uv_timer_t *timer)
{
	struct fs *fs = timer->data;
	struct session *s;
	struct run *r;

	wait_flush(&fs->events.wait, -EINTR);
	wait_flush(&fs->fetch.wait, -EINTR);
	nodelock_give_up(&fs->locks, -EAGAIN);
	LIST_FOREACH(s, &fs->sessions, kept) {
		session_flush(s, -EINTR);
		LIST_FOREACH(r, &s->kept_runs, kept)
			feed_interrupt(&r->feed);
		if (s->dead) /* its requests below files/ were answered when it went */
			continue;
		/* At the next time it would be three times as old. */
		files_renew(s->files, uv_now(fs->loop) - fs->renew_ms / 2);
	}
}

/* Makes the directory and those above it if need be: on a new machine there is no cache yet. */
static int open_spool(const char *dir)
{
	int fd, r = path_make(dir, 0700);

	if (r < 0)
		return r;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int mount_init(struct fs *fs, uv_loop_t *loop, struct conf *conf)
{
	const int spool = open_spool(conf->spool_dir);

	fs->loop = loop;
	fs->conf = conf;
	fs->uid = getuid();
	fs->gid = getgid();
	fs->started = clock_now();
	fs->started_ms = uv_now(loop);
	for (unsigned i = 0; i < CONF_TEMPLATES_MAX; i++)
		fs->template_mtime[i] = fs->started;
	if (spool < 0)
		return spool;
	touched_init(&fs->touched, NULL);
	handles_init(&fs->handles);
	fs->handles.touched = &fs->touched;
	nodelock_init(&fs->locks);
	events_init(&fs->events);
	depot_init(&fs->depot, loop, spool);
	fs->depot.touched = &fs->touched;
	fs->depot.relieved = intake_relieved;
	fs->depot.data = fs;
	fetch_init(&fs->fetch, &fs->depot);
	fs->watch = &files_watch;
	fs->alarm.ring = on_alarm;
	fs->alarm.data = fs;
	alarm_init(&fs->alarm, loop);
	alarm_set(&fs->alarm, uv_now(loop)); /* what begins with a day waits for nothing else */
	uv_timer_init(loop, &fs->renew);
	fs->renew.data = fs;
	fs->renew_ms = report_request_timeout() * 500ull;
	if (fs->renew_ms)
		uv_timer_start(&fs->renew, on_renew, fs->renew_ms, fs->renew_ms);
	return 0;
}

void mount_go_on(struct fs *fs)
{
	if (fs->renew_ms)
		uv_timer_start(&fs->renew, on_renew, fs->renew_ms / 4, fs->renew_ms);
}

void mount_stop(struct fs *fs)
{
	static const struct problem ending = {.code = PROBLEM_UNMOUNTED,
					      .cause = "xsbxfs was ended"};

	if (fs->stopping)
		return;
	fs->stopping = fs->handles.closed = true;
	for (unsigned i = 0; i < fs->roster.n; i++) {
		struct session *s = roster_at(&fs->roster, i);

		if (!s)
			continue;
		binding_cut(s, &ending);
		session_set_closed(s, &ending);
		wait_wake(&s->front.wait);
		session_flush(s, -ENOTCONN);
	}
	wait_flush(&fs->events.wait, -ENOTCONN);
	wait_flush(&fs->fetch.wait, -ENOTCONN);
	depot_close(&fs->depot);
	nodelock_give_up(&fs->locks, -ENOTCONN);
	alarm_close(&fs->alarm);
	uv_close((uv_handle_t *)&fs->renew, NULL);
}

bool mount_fini(struct fs *fs)
{
	struct handle *h;
	bool idle;

	/* The kernel has not released what was open when the mount went. */
	TAILQ_FOREACH(h, &fs->handles.open, link)
		if (h->ops == &input_ops)
			h->killed = true;
	while ((h = TAILQ_FIRST(&fs->handles.open))) {
		if (h->ops && h->ops->release)
			h->ops->release(h);
		nodelock_release(&fs->locks, h);
		handle_free(h);
	}
	for (unsigned i = 0; i < fs->roster.n; i++)
		if (roster_at(&fs->roster, i))
			session_destroy(roster_at(&fs->roster, i));
	roster_fini(&fs->roster);
	account_fini(&fs->accounts);
	handles_fini(&fs->handles);
	audit_mount(fs, "ended");
	audit_close(fs);
	events_fini(&fs->events);
	netenv_fini(&fs->netenv);
	touched_fini(&fs->touched);
	buf_clear(&fs->record.fields);
	idle = fetch_fini(&fs->fetch) && !fs->comparing;
	idle = depot_fini(&fs->depot) && idle;
	if (idle)
		close(fs->depot.dir);
	return idle;
}
