/* SPDX-License-Identifier: Apache-2.0 */
/* The working directory, watched. See watch.h. */
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "agent/core/conn.h"
#include "agent/core/util.h"

#define EVENTS                                                                            \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | \
	 IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK)
#define BATCH	  (16u << 10)
#define LOOKS	  32u	 /* directories at a time */
#define ALONE_US  20000u /* between the two halves of a rename at most */
#define REST_US	  5000u
#define READ_SIZE (32u << 10)

/* ---- what is told ---- */

static void flush(struct watch *w)
{
	if (w->batch)
		conn_send(w->conn, frame_trim(w->batch));
	w->batch = NULL;
}

/* Is it what was just told? A program that writes a file in pieces is told once for all that wait. */
static bool is_repeated(const struct watch *w, const uint8_t *entry, size_t len)
{
	const struct proto_out *out = &w->batch->out;

	return out->len - w->last == len && !memcmp(out->data + w->last, entry, len);
}

static void tell(struct watch *w, enum proto_change kind, bool dir, const char *path,
		 const char *from)
{
	uint8_t entry[2 * PATH_MAX + 16];
	struct proto_out out = {entry, 0, sizeof(entry), false};

	put_u8(&out, (uint8_t)kind);
	put_u8(&out, dir);
	put_str(&out, proto_cstr(path));
	put_str(&out, proto_cstr(from));
	if (w->batch && w->batch->out.len + out.len > w->batch->out.cap)
		flush(w);
	if (!w->batch) {
		w->batch = frame_new(PROTO_CHANGED, 0, BATCH);
		w->last = 0;
	}
	if (!w->batch) {
		w->missed = true;
		return;
	}
	if ((kind == PROTO_CHANGE_MODIFIED || kind == PROTO_CHANGE_ATTRIBUTES) &&
	    is_repeated(w, entry, out.len))
		return;
	w->last = w->batch->out.len;
	put_bytes(&w->batch->out, entry, out.len);
}

static void tell_name(struct watch *w, enum proto_change kind, bool dir, const struct watchdir *d,
		      const char *name)
{
	char path[PATH_MAX];

	if (watchdir_path(d, name, path, sizeof(path)) < 0)
		w->missed = true;
	else
		tell(w, kind, dir, path, "");
}

/* It could not be watched, or not all in it: what changes there is not known. */
static void tell_blind(struct watch *w, const struct watchdir *d, int err)
{
	if (err != -ENOSPC)
		tell_name(w, PROTO_CHANGE_OVERFLOW, true, d, "");
	else if (!w->many)
		tell(w, PROTO_CHANGE_OVERFLOW, true, "", strerror(ENOSPC));
	w->many = w->many || err == -ENOSPC;
}

/* ---- looking at directories ---- */

/* Opens it name by name, through no link. Return: descriptor or -errno. */
static int open_dir(const struct watch *w, const struct watchdir *d)
{
	char path[PATH_MAX], *name, *rest = path;
	int fd, next, r = watchdir_path(d, "", path, sizeof(path));

	if (r < 0)
		return -ENAMETOOLONG;
	fd = openat(w->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0 && (name = strsep(&rest, "/")) && *name) {
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = -errno;
		close(fd);
		errno = -r;
		fd = next;
	}
	return fd < 0 ? -errno : fd;
}

static bool is_dir(const struct dirent *e, int fd)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Its directories are to be looked at, too; and if it is new, so is all that is in it. Takes over @fd. */
static void look_inside(struct watch *w, struct watchdir *d, int fd)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *e;
	bool sub;
	int r;

	if (!dir) {
		close(fd);
		tell_blind(w, d, -ENOMEM);
		return;
	}
	while ((e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		sub = is_dir(e, fd);
		if (d->told)
			tell_name(w, PROTO_CHANGE_CREATED, sub, d, e->d_name);
		r = sub ? watchdir_add(&w->dirs, d, e->d_name, d->told) : 0;
		if (r < 0)
			tell_blind(w, d, r);
	}
	closedir(dir);
}

/* Watches a directory, then looks what is in it. */
static void look(struct watch *w, struct watchdir *d)
{
	const int fd = open_dir(w, d);
	char link[32];
	int wd;

	watchdir_looked(&w->dirs, d);
	if (fd < 0) {
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
			watchdir_drop(&w->dirs, d, -1); /* gone again, as will be told */
		else
			tell_blind(w, d, fd);
		return;
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(w->notify.fd, link, EVENTS);
	if (wd < 0) {
		tell_blind(w, d, -errno);
		close(fd);
		return;
	}
	/* If it was known by another name, it was moved, as will be read; and so was what is in it. */
	watchdir_set(&w->dirs, d, wd);
	look_inside(w, d, fd);
}

static void end(struct watch *w)
{
	loop_close(w->loop, &w->notify);
	loop_disarm(w->loop, &w->look);
	loop_disarm(w->loop, &w->alone);
	loop_disarm(w->loop, &w->rest);
	watchdirs_clear(&w->dirs);
	w->half.is_there = w->paused = w->many = w->anew = false;
}

static void fail(struct watch *w, int err)
{
	end(w);
	w->beginning = w->missed = false;
	tell(w, PROTO_CHANGE_FAILED, false, strerror(err), "");
	flush(w);
}

static void on_notify(struct loop_source *s, uint32_t events);

/* Begins anew with all directories. */
static void begin(struct watch *w)
{
	int r;

	w->missed = w->missed || w->anew;
	end(w);
	w->notify = (struct loop_source){.ready = on_notify};
	w->notify.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	r = w->notify.fd < 0 ? -errno : loop_watch(w->loop, &w->notify, EPOLLIN);
	if (r == 0)
		r = watchdirs_init(&w->dirs);
	if (r < 0)
		fail(w, -r);
	else
		loop_arm(w->loop, &w->look, 0);
}

/* All directories were looked at. */
static void looked(struct watch *w)
{
	if (w->missed || w->anew)
		tell(w, PROTO_CHANGE_OVERFLOW, true, "", "");
	if (w->beginning)
		tell(w, PROTO_CHANGE_WATCHING, true, "", "");
	w->beginning = w->missed = false;
	if (w->anew)
		begin(w);
}

static void on_look(struct loop_timer *t)
{
	struct watch *w = container_of(t, struct watch, look);
	struct watchdir *d;

	if (conn_full(w->conn)) {
		w->paused = true;
		return;
	}
	for (unsigned i = 0; i < LOOKS && (d = TAILQ_FIRST(&w->dirs.todo)); i++)
		look(w, d);
	if (!w->dirs.root) {
		fail(w, ENOENT);
		return;
	}
	if (!TAILQ_EMPTY(&w->dirs.todo))
		loop_arm(w->loop, &w->look, 0);
	else
		looked(w);
	flush(w);
}

/* ---- events ---- */

static void look_later(struct watch *w, struct watchdir *parent, const char *name)
{
	const int r = watchdir_add(&w->dirs, parent, name, true);

	if (r < 0)
		tell_blind(w, parent, r);
	else if (!w->look.armed)
		loop_arm(w->loop, &w->look, 0);
}

/* The one half of a rename has no other: the name has left the tree. */
static void drop_half(struct watch *w)
{
	struct watchdir *parent = watchdir_find(&w->dirs, w->half.wd), *d;

	if (!w->half.is_there)
		return;
	w->half.is_there = false;
	loop_disarm(w->loop, &w->alone);
	if (!parent)
		return;
	tell_name(w, PROTO_CHANGE_DELETED, w->half.dir, parent, w->half.name);
	d = w->half.dir ? watchdir_child(&w->dirs, parent, w->half.name) : NULL;
	if (d)
		watchdir_drop(&w->dirs, d, w->notify.fd);
}

static void on_alone(struct loop_timer *t)
{
	struct watch *w = container_of(t, struct watch, alone);

	watch_drain(w);
	drop_half(w);
	flush(w);
}

static void on_moved_from(struct watch *w, const struct inotify_event *e)
{
	w->half.is_there = true;
	w->half.dir = e->mask & IN_ISDIR;
	w->half.cookie = e->cookie;
	w->half.wd = e->wd;
	snprintf(w->half.name, sizeof(w->half.name), "%s", e->name);
	loop_arm(w->loop, &w->alone, ALONE_US);
}

/* A directory has another name. @to: where; what was known there of that name is another one. */
static void move_dir(struct watch *w, struct watchdir *to, const char *name)
{
	struct watchdir *over = watchdir_child(&w->dirs, to, name), *from, *d;

	/* It was not looked at yet: nothing is known of it. */
	if (over && over->wd < 0)
		watchdir_drop(&w->dirs, over, w->notify.fd);
	over = watchdir_child(&w->dirs, to, name);
	from = watchdir_find(&w->dirs, w->half.wd);
	d = from ? watchdir_child(&w->dirs, from, w->half.name) : NULL;
	if (over && d && d->wd < 0)
		watchdir_drop(&w->dirs, d, w->notify.fd); /* it was found there before */
	else if (!over && !d)
		look_later(w, to, name);
	else if (over || watchdir_move(&w->dirs, d, to, name) < 0)
		w->anew = true; /* or it was replaced; or exchanged, which is told by half */
}

/* The other half. */
static void on_renamed(struct watch *w, const struct inotify_event *e, struct watchdir *to)
{
	const struct watchdir *from = watchdir_find(&w->dirs, w->half.wd);
	char path[PATH_MAX], old[PATH_MAX];

	w->half.is_there = false;
	loop_disarm(w->loop, &w->alone);
	if (!from) {
		w->anew = true;
		return;
	}
	if (watchdir_path(from, w->half.name, old, sizeof(old)) < 0 ||
	    watchdir_path(to, e->name, path, sizeof(path)) < 0)
		w->missed = true;
	else
		tell(w, PROTO_CHANGE_RENAMED, w->half.dir, path, old);
	if (w->half.dir)
		move_dir(w, to, e->name);
}

static void on_moved_to(struct watch *w, const struct inotify_event *e, struct watchdir *d)
{
	if (w->half.is_there) {
		on_renamed(w, e, d);
		return;
	}
	tell_name(w, PROTO_CHANGE_CREATED, e->mask & IN_ISDIR, d, e->name);
	if (e->mask & IN_ISDIR)
		look_later(w, d, e->name);
}

static bool is_other_half(const struct watch *w, const struct inotify_event *e)
{
	return w->half.is_there && (e->mask & IN_MOVED_TO) && w->half.cookie == e->cookie;
}

static void on_event(struct watch *w, const struct inotify_event *e)
{
	static const struct {
		uint32_t mask;
		enum proto_change kind;
	} plain[] = {
		{IN_CREATE, PROTO_CHANGE_CREATED},	{IN_MODIFY, PROTO_CHANGE_MODIFIED},
		{IN_CLOSE_WRITE, PROTO_CHANGE_WRITTEN}, {IN_ATTRIB, PROTO_CHANGE_ATTRIBUTES},
		{IN_DELETE, PROTO_CHANGE_DELETED},
	};
	struct watchdir *d;

	if (!is_other_half(w, e))
		drop_half(w);
	d = watchdir_find(&w->dirs, e->wd);
	if (e->mask & IN_Q_OVERFLOW)
		w->anew = true;
	if (d && (e->mask & IN_IGNORED))
		watchdir_drop(&w->dirs, d, w->notify.fd);
	if (!d || !e->len)
		return; /* it is about the directory itself, which the one above is told as well */
	if (e->mask & IN_MOVED_FROM)
		on_moved_from(w, e);
	else if (e->mask & IN_MOVED_TO)
		on_moved_to(w, e, d);
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (e->mask & plain[i].mask)
			tell_name(w, plain[i].kind, e->mask & IN_ISDIR, d, e->name);
	if ((e->mask & IN_CREATE) && (e->mask & IN_ISDIR))
		look_later(w, d, e->name);
}

/* Return: whether there may be more. */
static bool take_some(struct watch *w)
{
	_Alignas(struct inotify_event) char buf[READ_SIZE];
	const ssize_t n = read(w->notify.fd, buf, sizeof(buf));
	const struct inotify_event *e;

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		fail(w, errno);
		return false;
	}
	for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*e) + e->len)) {
		e = (const struct inotify_event *)(buf + at);
		on_event(w, e);
	}
	return n > 0;
}

/* After some events: is everything to be begun anew, or has the working directory gone? */
static void settle(struct watch *w)
{
	flush(w);
	if (!w->dirs.root)
		fail(w, ENOENT);
	else if (w->beginning || !TAILQ_EMPTY(&w->dirs.todo))
		return; /* on_look() goes on */
	else if (w->anew)
		begin(w);
	else if (w->missed && !w->look.armed)
		loop_arm(w->loop, &w->look, 0);
}

static void on_notify(struct loop_source *s, uint32_t events)
{
	struct watch *w = container_of(s, struct watch, notify);

	(void)events;
	w->paused = conn_full(w->conn);
	if (!w->paused)
		(void)take_some(w);
	if (w->notify.fd < 0)
		return;
	(void)loop_watch(w->loop, s, 0);
	if (!w->paused)
		loop_arm(w->loop, &w->rest, REST_US);
	settle(w);
}

static void on_rested(struct loop_timer *t)
{
	struct watch *w = container_of(t, struct watch, rest);

	if (loop_watch(w->loop, &w->notify, EPOLLIN) < 0)
		fail(w, errno);
}

/* ---- the outside ---- */

void watch_init(struct watch *w, struct loop *loop, struct conn *conn, int root)
{
	w->loop = loop;
	w->conn = conn;
	w->root = root;
	w->notify.fd = -1;
	w->look.fire = on_look;
	w->alone.fire = on_alone;
	w->rest.fire = on_rested;
}

void watch_set(struct watch *w, bool on)
{
	end(w);
	w->missed = false;
	w->beginning = on;
	if (!on)
		return;
	begin(w);
	if (w->look.armed)
		on_look(&w->look);
	w->missed = w->beginning;
}

bool watch_is_on(const struct watch *w)
{
	return w->notify.fd >= 0;
}

void watch_drain(struct watch *w)
{
	/* What is made while this goes on is not waited for. */
	for (unsigned i = 0; i < 8 && w->notify.fd >= 0 && !conn_full(w->conn); i++) {
		if (!take_some(w))
			break;
	}
	if (w->notify.fd >= 0)
		settle(w);
	/* What was made in new directories as well. */
	if (w->look.armed && !w->beginning && !w->missed)
		on_look(&w->look);
}

void watch_resume(struct watch *w)
{
	if (!w->paused || conn_full(w->conn))
		return;
	w->paused = false;
	loop_arm(w->loop, &w->rest, 0);
	if (!TAILQ_EMPTY(&w->dirs.todo) || w->beginning || w->missed)
		loop_arm(w->loop, &w->look, 0);
}
