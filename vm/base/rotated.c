/* SPDX-License-Identifier: Apache-2.0 */
/* A file that lines are appended to. See rotated.h. */
#include "rotated.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

#define RESERVE_STEP (256u << 10) /* bytes that are asked for at once */

/* ---- opening ---- */

/* Takes over @fd, which is the file now. Return: 0 or -errno. */
static int take(struct rotated *r, int fd)
{
	struct stat st;
	char last = '\n';

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	if (r->fd >= 0)
		close(r->fd);
	r->fd = fd;
	r->size = r->room = (uint64_t)st.st_size;
	r->is_new = !r->size;
	r->torn = r->size && (pread(fd, &last, 1, (off_t)r->size - 1) != 1 || last != '\n');
	return 0;
}

static int flags_of(const struct rotated *r)
{
	return O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK |
	       (r->sync ? O_DSYNC : 0);
}

int rotated_open(struct rotated *r, const char *path, uint64_t most, unsigned keep, bool sync)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	int e;

	*r = (struct rotated){
		.fd = -1, .dir = -1, .most = most, .keep = MAX(keep, 1u), .sync = sync};
	if (!slash || !slash[1] || strlen(slash + 1) >= sizeof(r->name) ||
	    strlen(path) >= sizeof(dir))
		return -EINVAL;
	snprintf(r->name, sizeof(r->name), "%s", slash + 1);
	e = take(r, open(path, flags_of(r), 0600));
	if (e < 0 || !most)
		return e;
	snprintf(dir, sizeof(dir), "%.*s", (int)MAX(slash - path, (ptrdiff_t)1), path);
	r->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r->dir < 0 ? -errno : 0;
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

static int begin(struct rotated *r)
{
	return take(r, openat(r->dir, r->name, flags_of(r), 0600));
}

/* If somebody has taken it away, or put another one there. */
static int follow(struct rotated *r)
{
	struct stat now, st;

	if (r->dir < 0)
		return 0;
	if (fstatat(r->dir, r->name, &now, AT_SYMLINK_NOFOLLOW) == 0 && fstat(r->fd, &st) == 0 &&
	    now.st_ino == st.st_ino && now.st_dev == st.st_dev)
		return 0;
	return begin(r);
}

/* Each older one is one older then; the oldest goes. */
static int rotate(struct rotated *r)
{
	char from[NAME_MAX], to[NAME_MAX];

	for (unsigned i = r->keep; i > 0; i--) {
		snprintf(to, sizeof(to), "%s.%u", r->name, i);
		snprintf(from, sizeof(from), i > 1 ? "%s.%u" : "%s", r->name, i - 1);
		if (renameat(r->dir, from, r->dir, to) < 0 && errno != ENOENT)
			return -errno;
	}
	return begin(r);
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

int rotated_last(struct rotated *r, char *ret_line, size_t size)
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

int rotated_append(struct rotated *r, const char *line, size_t len)
{
	int e = follow(r);

	if (e == 0 && is_full(r, len))
		e = rotate(r);
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
	int e = follow(r);

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
