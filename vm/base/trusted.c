/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that only root can change. */
#include "trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "util.h"

/*
 * Theory of operation
 * -------------------
 * A path is walked by its parts: each is opened in the directory before it, never through a link, and looked at
 * by its descriptor; the next one is opened in that. So what was looked at is what is used, whatever is renamed
 * meanwhile. A link is as good as a directory: it must be root's, and what it says is walked like the rest.
 *
 * A directory with the sticky bit, such as /tmp, is not trusted either: there is no file of root's in it that
 * somebody else could remove, but one that is not there yet anybody could make. Rights that an access control
 * list gives to others show in the bits of the group, which are its mask.
 */

#define LINKS_MAX 40 /* as the kernel's */

struct walk {
	int top, at, found; /* at: the directory that was reached; found: what was wanted, or -1 */
	uid_t owner;
	int flags;
	unsigned links;
	char rest[PATH_MAX]; /* still to be walked */
	char *why;
};

int trusted_path(int fd, char ret_path[PATH_MAX])
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret_path, PATH_MAX - 1);
	if (n < 0)
		return -errno;
	ret_path[n] = '\0';
	return 0;
}

/* Says of @name in the directory that was reached what is wrong. Return: @r. */
static int printf_like(4, 5)
	blame(const struct walk *w, int r, const char *name, const char *fmt, ...)
{
	char dir[PATH_MAX] = "", what[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	(void)trusted_path(w->at, dir);
	snprintf(w->why, TRUSTED_WHY, "%.250s%s%.100s %s", dir,
		 *name && strcmp(dir, "/") != 0 ? "/" : "", name, what);
	return r;
}

/* Is it root's alone? */
static int look(const struct walk *w, int fd, const char *name, struct stat *ret_st)
{
	if (fstat(fd, ret_st) < 0)
		return blame(w, -errno, name, "can't be looked at: %s", strerror(errno));
	if (ret_st->st_uid != 0 && ret_st->st_uid != w->owner)
		return blame(w, -EPERM, name, "belongs to user %u, not to root",
			     (unsigned)ret_st->st_uid);
	if (!S_ISLNK(ret_st->st_mode) && (ret_st->st_mode & (S_IWGRP | S_IWOTH)))
		return blame(w, -EPERM, name, "may be written to by %s",
			     ret_st->st_mode & S_IWOTH ? "everybody" : "its group");
	return 0;
}

/* Goes on in another directory. */
static void enter(struct walk *w, int fd)
{
	close(w->at);
	w->at = fd;
}

/* Takes the first part off what is left. Return: false if nothing is. */
static bool next(struct walk *w, char ret_name[NAME_MAX + 1], int *ret_error)
{
	const char *from = w->rest + strspn(w->rest, "/");
	const size_t len = strcspn(from, "/");

	*ret_error = len > NAME_MAX ? -ENAMETOOLONG : 0;
	if (!len || *ret_error)
		return false;
	memcpy(ret_name, from, len);
	ret_name[len] = '\0';
	from += len;
	memmove(w->rest, from, strlen(from) + 1);
	return true;
}

static bool is_last(const struct walk *w)
{
	return !w->rest[strspn(w->rest, "/")];
}

/* What a link says comes before what is left. */
static int follow(struct walk *w, int link, const char *name)
{
	char target[PATH_MAX], all[PATH_MAX];
	const ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);
	int top;

	if (n < 0)
		return blame(w, -errno, name, "can't be followed: %s", strerror(errno));
	target[n] = '\0';
	if (++w->links > LINKS_MAX)
		return blame(w, -ELOOP, name, "is one link too many");
	if (snprintf(all, sizeof(all), "%s/%s", target, w->rest) >= (int)sizeof(all))
		return blame(w, -ENAMETOOLONG, name, "leads too far");
	memcpy(w->rest, all, sizeof(all));
	if (target[0] != '/')
		return 0;
	top = fcntl(w->top, F_DUPFD_CLOEXEC, 3);
	if (top < 0)
		return -errno;
	enter(w, top);
	return 0;
}

/* The last part, opened as it was asked for, and looked at once more: that descriptor is the one that is used. */
static int finish(struct walk *w, const char *name)
{
	const int flags =
		w->flags | O_NOFOLLOW | O_CLOEXEC | (w->flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY);
	_cleanup_close_ int fd = openat(w->at, name, flags);
	struct stat st;
	int r;

	if (fd < 0)
		return blame(w, -errno, name, "can't be opened: %s", strerror(errno));
	r = look(w, fd, name, &st);
	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return blame(w, -EBADMSG, name, "is neither a file nor a directory");
	w->found = steal_fd(&fd);
	return 0;
}

static int step(struct walk *w, const char *name)
{
	_cleanup_close_ int fd = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0)
		return blame(w, -errno, name, "can't be found: %s", strerror(errno));
	r = look(w, fd, name, &st);
	if (r < 0)
		return r;
	if (S_ISLNK(st.st_mode))
		return follow(w, fd, name);
	if (is_last(w))
		return finish(w, name);
	if (!S_ISDIR(st.st_mode))
		return blame(w, -ENOTDIR, name, "is not a directory");
	enter(w, steal_fd(&fd));
	return 0;
}

/* Walks @path from @at; where a link names a path from the top on, from @top. */
static int walk(int top, int at, uid_t owner, const char *path, int flags, char *ret_why)
{
	struct walk w = {.top = top, .found = -1, .owner = owner, .flags = flags, .why = ret_why};
	char name[NAME_MAX + 1];
	struct stat st;
	int r = 0;

	ret_why[0] = '\0';
	w.at = fcntl(at, F_DUPFD_CLOEXEC, 3);
	if (w.at < 0)
		return -errno;
	if (snprintf(w.rest, sizeof(w.rest), "%s", path) >= (int)sizeof(w.rest))
		r = -ENAMETOOLONG;
	if (r == 0)
		r = look(&w, w.at, "", &st);
	while (r == 0 && w.found < 0 && next(&w, name, &r))
		r = step(&w, name);
	if (r == 0 && w.found < 0) /* nothing was left: the directory that was reached is meant */
		r = finish(&w, ".");
	if (r < 0 && !ret_why[0])
		snprintf(ret_why, TRUSTED_WHY, "%.300s: %s", path, strerror(-r));
	close(w.at);
	return r < 0 ? r : w.found;
}

int trusted_walk(int top, uid_t owner, const char *path, int flags, char ret_why[TRUSTED_WHY])
{
	return walk(top, top, owner, path, flags, ret_why);
}

static int open_top(char ret_why[TRUSTED_WHY])
{
	const int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (top >= 0)
		return top;
	snprintf(ret_why, TRUSTED_WHY, "/: %s", strerror(errno));
	return -errno;
}

int trusted_open(const char *path, int flags, char ret_why[TRUSTED_WHY])
{
	_cleanup_close_ int top = open_top(ret_why);

	return top < 0 ? top : walk(top, top, 0, path, flags, ret_why);
}

int trusted_open_at(int dir, const char *name, int flags, char ret_why[TRUSTED_WHY])
{
	_cleanup_close_ int top = open_top(ret_why);

	return top < 0 ? top : walk(top, dir, 0, name, flags, ret_why);
}

int trusted_dir(const char *path, char ret_path[PATH_MAX])
{
	char why[TRUSTED_WHY];
	_cleanup_close_ int fd = trusted_open(path, O_PATH | O_DIRECTORY, why);

	return fd < 0 ? fd : trusted_path(fd, ret_path);
}
