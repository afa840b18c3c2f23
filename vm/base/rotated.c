/* SPDX-License-Identifier: Apache-2.0 */
/* A file that lines are appended to. See rotated.h. */
#include "rotated.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

#define RESERVE_STEP (256u << 10) /* bytes that are asked for at once */
#define PAUSE_MS     5u		  /* between two looks whether the one before has ended */
#define TRIES	     8		  /* to open what is moved away at the same time */

/* ---- opening ---- */

/* What is there may have been changed by others: copied and cut, say. Return: 0 or -errno. */
static int measure(struct rotated *r)
{
	struct stat st;
	char last = '\n';

	if (fstat(r->fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size == r->size)
		return 0;
	r->size = r->room = (uint64_t)st.st_size;
	r->is_new = !r->size;
	r->torn = r->size && (pread(r->fd, &last, 1, (off_t)r->size - 1) != 1 || last != '\n');
	return 0;
}

/* It is one process's. What can't be locked there, for the file system has no locks, is taken as locked. */
static int lock(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK ? -EBUSY : 0;
}

/* Takes over @fd, which is the file now. Return: 0 or -errno. */
static int take(struct rotated *r, int fd)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = fd;
	r->size = r->room = 0;
	r->is_new = true;
	r->torn = false;
	return measure(r);
}

static int open_name(const struct rotated *r)
{
	const int flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK |
			  (r->sync ? O_DSYNC : 0);

	return r->dir >= 0 ? openat(r->dir, r->name, flags, 0600) : open(r->path, flags, 0600);
}

/* Is it what has the name? */
static bool is_named(const struct rotated *r, int fd)
{
	struct stat named, st;

	return (r->dir >= 0 ? fstatat(r->dir, r->name, &named, AT_SYMLINK_NOFOLLOW)
			    : lstat(r->path, &named)) == 0 &&
	       fstat(fd, &st) == 0 && named.st_ino == st.st_ino && named.st_dev == st.st_dev;
}

/* Return: a descriptor, -errno, -EAGAIN: it was moved away meanwhile. */
static int open_once(const struct rotated *r)
{
	_cleanup_close_ int fd = open_name(r);
	struct stat st;
	int e;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	e = r->shares ? 0 : lock(fd);
	if (e == 0 && !is_named(r, fd))
		e = -EAGAIN;
	return e < 0 ? e : steal_fd(&fd);
}

/* The one that has the name, or another one. On failure nothing has changed. */
static int begin(struct rotated *r)
{
	int fd = -EAGAIN;

	for (unsigned i = 0; fd == -EAGAIN && i < TRIES; i++)
		fd = open_once(r);
	return fd < 0 ? fd : take(r, fd);
}

static int open_all(struct rotated *r)
{
	const ptrdiff_t len = strrchr(r->path, '/') - r->path;
	char dir[PATH_MAX];

	if (r->most && r->dir < 0) {
		snprintf(dir, sizeof(dir), "%.*s", (int)MAX(len, (ptrdiff_t)1), r->path);
		r->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (r->dir < 0)
			return -errno;
	}
	return begin(r);
}

int rotated_open(struct rotated *r, const char *path, uint64_t most, unsigned keep, unsigned flags)
{
	const char *slash = strrchr(path, '/');

	*r = (struct rotated){.fd = -1,
			      .dir = -1,
			      .path = path,
			      .most = most,
			      .keep = MAX(keep, 1u),
			      .sync = flags & ROTATED_SYNC,
			      .shares = flags & ROTATED_HEIR};
	if (!slash || !slash[1] || strlen(slash + 1) >= sizeof(r->name) || strlen(path) >= PATH_MAX)
		return -EINVAL;
	snprintf(r->name, sizeof(r->name), "%s", slash + 1);
	return open_all(r);
}

int rotated_probe_names(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];

	if (!slash || !slash[1] || strlen(path) >= sizeof(dir))
		return -EINVAL;
	snprintf(dir, sizeof(dir), "%.*s", (int)MAX(slash - path, (ptrdiff_t)1), path);
	return faccessat(AT_FDCWD, dir, R_OK | W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

int rotated_probe(const char *path)
{
	_cleanup_close_ int fd =
		open(path, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? rotated_probe_names(path) : -errno;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? 0 : -EINVAL;
}

void rotated_close(struct rotated *r)
{
	if (r->fd >= 0)
		close(r->fd);
	if (r->dir >= 0)
		close(r->dir);
	r->fd = r->dir = -1;
}

/* ---- another one ---- */

/* If it could not be had, or somebody has taken it away, or put another one there. */
static int follow(struct rotated *r)
{
	if (r->fd < 0)
		return open_all(r);
	if (r->dir >= 0 && !is_named(r, r->fd))
		return begin(r);
	return measure(r);
}

int rotated_own(struct rotated *r, unsigned patience_ms)
{
	int e;

	r->shares = false;
	for (unsigned ms = 0;; ms += PAUSE_MS) {
		e = follow(r);
		if (e == 0)
			e = lock(r->fd);
		if (e != -EBUSY || ms >= patience_ms)
			break;
		usleep(PAUSE_MS * 1000);
	}
	/* The one before may have rotated it, or written, while it was waited for. */
	if (e == 0)
		e = follow(r);
	if (e < 0 && r->fd >= 0)
		close(steal_fd(&r->fd));
	return e;
}

/* "" for 0. */
static void put_older(const struct rotated *r, unsigned i, char *ret_name, size_t size)
{
	snprintf(ret_name, size, i ? "%s.%u" : "%s", r->name, i);
}

static bool has_older(const struct rotated *r, unsigned i)
{
	char name[NAME_MAX];
	struct stat st;

	put_older(r, i, name, sizeof(name));
	return fstatat(r->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/*
 * Each older one is one older then, up to the first that is missing; if none is, the oldest goes. So what fails half way leaves
 * a gap, and is not done again before that is filled: nothing is lost by trying. Return: 0; -errno: the file is the same still.
 */
static int rotate(struct rotated *r)
{
	char from[NAME_MAX], to[NAME_MAX];
	unsigned last = 1;
	int e;

	while (last < r->keep && has_older(r, last))
		last++;
	for (unsigned i = last; i > 0; i--) {
		put_older(r, i, to, sizeof(to));
		put_older(r, i - 1, from, sizeof(from));
		if (renameat(r->dir, from, r->dir, to) < 0 && (i == 1 || errno != ENOENT))
			return -errno;
	}
	e = begin(r);
	if (e < 0) /* then it goes on in that which it has */
		(void)renameat2(r->dir, to, r->dir, r->name, RENAME_NOREPLACE);
	return e;
}

static bool is_full(const struct rotated *r, size_t more)
{
	return r->most && r->size && r->size + more > r->most;
}

/* ---- lines ---- */

/* Offset of the last line feed before @end, or -1: there is none. Return: 0 or -errno. */
static int find_back(const struct rotated *r, uint64_t end, int64_t *ret_at)
{
	char text[16u << 10];

	*ret_at = -1;
	while (end) {
		const size_t len = (size_t)MIN(end, (uint64_t)sizeof(text));
		const ssize_t n = pread(r->fd, text, len, (off_t)(end - len));
		const char *found = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;

		if (n < 0)
			return -errno;
		if (found) {
			*ret_at = (int64_t)(end - len) + (found - text);
			return 0;
		}
		end -= len;
	}
	return 0;
}

static int last_in(const struct rotated *r, char *ret_line, size_t size)
{
	int64_t end, before;
	ssize_t n;
	int e = find_back(r, r->size, &end);

	if (e < 0 || end < 0)
		return e;
	e = find_back(r, (uint64_t)end, &before);
	if (e < 0)
		return e;
	n = pread(r->fd, ret_line, (size_t)MIN((uint64_t)(end - before - 1), (uint64_t)size - 1),
		  before + 1);
	if (n < 0)
		return -errno;
	ret_line[n] = '\0';
	return (int)n;
}

int rotated_last(struct rotated *r, char *ret_line, size_t size)
{
	_cleanup_close_ int fd = -1;
	struct rotated older = {.fd = -1};
	char name[NAME_MAX];
	int n = last_in(r, ret_line, size);

	if (n != 0 || r->dir < 0)
		return n;
	put_older(r, 1, name, sizeof(name));
	fd = openat(r->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0;
	older.fd = fd;
	n = measure(&older);
	if (n == 0)
		n = last_in(&older, ret_line, size);
	return MAX(n, 0);
}

/* All of it or nothing: half a line is taken back, and if that can't be, ended by the next one. */
static int put(struct rotated *r, const char *line, size_t len)
{
	const ssize_t n = write(r->fd, line, len);

	if (n < 0)
		return -errno;
	if ((size_t)n == len) {
		r->size += len;
		return 0;
	}
	if (n > 0 && ftruncate(r->fd, (off_t)r->size) < 0) {
		r->size += (size_t)n;
		r->torn = true;
	}
	return -ENOSPC;
}

/* Rotates it if it is too long with so many bytes @more. What can't be rotated grows. Return: 0 or -errno. */
static int make_room(struct rotated *r, size_t more)
{
	const int e = follow(r);

	if (e == 0 && is_full(r, more))
		r->stuck = rotate(r);
	return e;
}

int rotated_append(struct rotated *r, const char *line, size_t len)
{
	int e = make_room(r, len);

	if (e == 0 && r->torn)
		e = put(r, "\n", 1);
	if (e < 0)
		return e;
	r->torn = false;
	e = put(r, line, len);
	r->is_new = r->is_new && e < 0;
	return e;
}

int rotated_reserve(struct rotated *r, size_t bytes)
{
	int e = make_room(r, bytes);

	if (e < 0)
		return e;
	if (r->room >= r->size + bytes)
		return 0;
	if (fallocate(r->fd, FALLOC_FL_KEEP_SIZE, (off_t)r->size,
		      (off_t)MAX(bytes, (size_t)RESERVE_STEP)) < 0)
		e = -errno;
	if (e == -ENOSPC || e == -EDQUOT || e == -EFBIG)
		return e;
	r->room = r->size + MAX(bytes, (size_t)RESERVE_STEP);
	return 0;
}
