/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces what is in the working directory by the content of a pack. See unpack.h. */
#include "unpack.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops.h"
#include "agent/core/conn.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 *	NONE -> CLEAR -> FILL -> NONE
 *
 * What is there is removed with root's rights, if the agent has them; all else is made with those of the user, who owns it
 * and whose quota it takes. Both go on in small steps, for TURN_US in each turn of the loop.
 *
 * The records were checked by the host, which has them from an agent, or from a file. Nothing here relies on that. Names are single
 * ones, each is made in a directory that is open here, by a call that fails if there is something of that name, and no link is
 * followed; so nothing outside of the working directory can be reached, whatever the records say. The first name of a file
 * that gets another one is found again by going down from the working directory, name by name, no link being followed.
 *
 * A directory gets its permissions and its time when it is left, as making things in it would need the one and
 * change the other.
 */

#define TURN_US 2000u

void unpacker_init(struct unpacker *u, struct files *files, struct conn *conn)
{
	u->files = files;
	u->conn = conn;
	u->fd = -1;
}

void unpacker_stop(struct unpacker *u)
{
	u->state = UNPACK_NONE;
	clear_end(&u->clear);
	walk_end(&u->walk);
	close_fd(&u->fd);
	free(u->buf);
	u->buf = NULL;
	for (size_t i = 0; i < u->nshared; i++)
		free(u->shared[i].path);
	free(u->shared);
	u->shared = NULL;
	u->nshared = u->shared_cap = 0;
}

/* The last frame. @err: 0 or -errno; @walk: where that was, with @name. */
static void finish(struct unpacker *u, int err, const struct walk *walk, const char *name)
{
	char path[WALK_PATH_MAX] = "";
	struct frame *f;

	origin_unpacked(&u->files->origin);
	if (err < 0)
		walk_path(walk, name, path);
	f = frame_new(PROTO_UNPACKED, u->id, 8 + sizeof(path));
	if (f) {
		f->flags = PROTO_F_EOF;
		put_u32(&f->out, (uint32_t)-err);
		put_str(&f->out, proto_cstr(path));
		conn_send(u->conn, f);
	}
	unpacker_stop(u);
}

static void grant(struct unpacker *u, size_t bytes)
{
	struct frame *f = frame_new(PROTO_UNPACKED, u->id, 4);

	if (!f) {
		finish(u, -ENOMEM, &u->walk, "");
		return;
	}
	put_u32(&f->out, (uint32_t)bytes);
	conn_send(u->conn, f);
	u->granted += bytes;
}

void unpacker_start(struct unpacker *u, uint32_t id)
{
	int r = -ENOMEM;

	unpacker_stop(u);
	numbers_clear(&u->files->numbers);
	origin_unpacking(&u->files->origin);
	u->id = id;
	u->first = u->end = u->granted = u->used = 0;
	u->last = u->starved = u->root_done = false;
	u->entries = 0;
	u->name[0] = '\0';
	u->state = UNPACK_CLEAR;
	u->buf = malloc(PROTO_UNPACK_WINDOW);
	if (u->buf)
		r = clear_begin(&u->clear, u->files->root_fd);
	if (r < 0)
		finish(u, r, &u->walk, "");
}

int unpacker_data(struct unpacker *u, uint32_t id, struct proto_str data, bool last)
{
	/* The rest of one that has failed, or was given up. */
	if (u->state == UNPACK_NONE || id != u->id)
		return 0;
	if (data.len > u->granted || u->last)
		return -EPROTO;
	if (PROTO_UNPACK_WINDOW - u->end < data.len) {
		memmove(u->buf, u->buf + u->first, u->end - u->first);
		u->end -= u->first;
		u->first = 0;
	}
	assert(PROTO_UNPACK_WINDOW - u->end >= data.len);
	memcpy(u->buf + u->end, data.data, data.len);
	u->end += data.len;
	u->granted -= data.len;
	u->last = last;
	u->starved = false;
	return 0;
}

/* ---- files with several names ---- */

static int shared_add(struct unpacker *u, const struct pack_record *r)
{
	size_t len = r->name_len + 2, at = 0;
	struct unpack_file f = {.entry = u->entries};

	if (u->nshared == u->shared_cap) {
		const size_t cap = u->shared_cap ? 2 * u->shared_cap : 16;
		struct unpack_file *shared = realloc(u->shared, cap * sizeof(*shared));

		if (!shared)
			return -ENOMEM;
		u->shared = shared;
		u->shared_cap = cap;
	}
	for (size_t i = 1; i < u->walk.n; i++)
		len += strlen(u->walk.dirs[i].name) + 1;
	f.path = malloc(len);
	if (!f.path)
		return -ENOMEM;
	for (size_t i = 1; i < u->walk.n; i++)
		at += (size_t)(stpcpy(f.path + at, u->walk.dirs[i].name) - (f.path + at)) + 1;
	memcpy(f.path + at, r->name, r->name_len + 1);
	f.path[len - 1] = '\0';
	u->shared[u->nshared++] = f;
	return 0;
}

static int compare_shared(const void *a, const void *b)
{
	const struct unpack_file *x = a, *y = b;

	return (x->entry > y->entry) - (x->entry < y->entry);
}

/* Opens what is at a path of shared_add(), by O_PATH. Return: it or -errno. */
static int shared_open(const struct unpacker *u, const char *path)
{
	int at = openat(u->files->root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (at >= 0 && *path) {
		int fd = openat(at, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

		close(at);
		at = fd;
		path += strlen(path) + 1;
	}
	return at < 0 ? -errno : at;
}

static int make_same(struct unpacker *u, const struct pack_record *r)
{
	const struct unpack_file key = {.entry = r->entry};
	const struct unpack_file *f = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (u->nshared)
		f = bsearch(&key, u->shared, u->nshared, sizeof(key), compare_shared);
	if (!f)
		return -EBADMSG;
	/* Directories on the way may have the permissions already that the user has left them with. */
	files_leave(u->files);
	fd = shared_open(u, f->path);
	files_enter(u->files);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	return linkat(u->files->proc_fd, files_fd_name(fd).text, walk_here(&u->walk)->fd, r->name,
		      AT_SYMLINK_FOLLOW) < 0
		       ? -errno
		       : 0;
}

/* ---- entries ---- */

static struct stat wanted(const struct pack_record *r)
{
	struct stat st = {.st_mode = r->mode, .st_size = (off_t)r->size};

	st.st_mtim.tv_sec = r->mtime;
	st.st_mtim.tv_nsec = r->mtime_ns;
	return st;
}

/* Time of last access is that of making it. */
static void times_of(const struct stat *st, struct timespec ret[2])
{
	ret[0] = (struct timespec){.tv_nsec = UTIME_NOW};
	ret[1] = st->st_mtim;
}

static int dress(int fd, const struct stat *st)
{
	struct timespec times[2];

	times_of(st, times);
	return fchmod(fd, st->st_mode & PACK_MODE_MASK) < 0 || futimens(fd, times) < 0 ? -errno : 0;
}

static int end_file(struct unpacker *u)
{
	int r = 0;

	if (u->fd < 0)
		return 0;
	/* What ends in a hole is longer than what was written. */
	if (ftruncate(u->fd, u->st.st_size) < 0)
		r = -errno;
	if (r == 0)
		r = dress(u->fd, &u->st);
	close_fd(&u->fd);
	return r;
}

static int make_file(struct unpacker *u, const struct pack_record *r)
{
	int err = r->shared ? shared_add(u, r) : 0;

	if (err < 0)
		return err;
	u->fd = openat(walk_here(&u->walk)->fd, r->name,
		       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | FILES_OPEN_ADD, 0600);
	if (u->fd < 0)
		return -errno;
	u->st = wanted(r);
	return 0;
}

static int add_data(struct unpacker *u, const struct pack_record *r)
{
	size_t done = 0;

	if (u->fd < 0 || r->offset > (uint64_t)u->st.st_size ||
	    r->len > (uint64_t)u->st.st_size - r->offset)
		return -EBADMSG;
	while (done < r->len) {
		const ssize_t n =
			pwrite(u->fd, r->data + done, r->len - done, (off_t)(r->offset + done));

		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		done += (size_t)n;
	}
	return 0;
}

static int make_link(const struct unpacker *u, const struct pack_record *r)
{
	const struct stat st = wanted(r);
	int dir = walk_here(&u->walk)->fd;
	struct timespec times[2];

	times_of(&st, times);
	if (symlinkat(r->target, dir, r->name) < 0 ||
	    utimensat(dir, r->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* A socket was one of a process that is gone, and a device nobody can make: only FIFOs are of use again. */
static int make_other(const struct unpacker *u, const struct pack_record *r)
{
	const struct stat st = wanted(r);
	int dir = walk_here(&u->walk)->fd;
	struct timespec times[2];

	if (!S_ISFIFO(r->mode))
		return 0;
	times_of(&st, times);
	if (mkfifoat(dir, r->name, r->mode & PACK_MODE_MASK) < 0 ||
	    utimensat(dir, r->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* ---- directories ---- */

/* The working directory is there; nothing can be looked up in it by a user who has left it without permissions. */
static int go_into_root(struct unpacker *u, const struct pack_record *r)
{
	int err, fd = fcntl(u->files->root_fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0700) < 0 && errno != EPERM) {
		err = -errno;
		close(fd);
		return err;
	}
	err = walk_enter(&u->walk, fd, "");
	if (err == 0)
		walk_here(&u->walk)->st = wanted(r);
	return err;
}

static int go_in(struct unpacker *u, const struct pack_record *r)
{
	int dir, fd, err;

	if (!u->walk.n != !r->name_len || u->root_done)
		return -EBADMSG;
	if (!u->walk.n)
		return go_into_root(u, r);
	dir = walk_here(&u->walk)->fd;
	if (mkdirat(dir, r->name, 0700) < 0)
		return -errno;
	fd = openat(dir, r->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = walk_enter(&u->walk, fd, r->name);
	if (err == 0)
		walk_here(&u->walk)->st = wanted(r);
	return err;
}

static int go_out(struct unpacker *u)
{
	const struct walk_dir *here = walk_here(&u->walk);
	int err = dress(here->fd, &here->st);

	/* The working directory may be another user's, over which an overlay lies. */
	if (u->walk.n == 1 && err == -EPERM)
		err = 0;
	if (err < 0)
		return err;
	walk_leave(&u->walk);
	u->root_done = !u->walk.n;
	return 0;
}

/* What is known of the last entry from where it was packed: the number that the host was told, or who wrote it. */
static int take_known(const struct unpacker *u, const struct pack_record *known)
{
	const int dir = u->walk.n ? walk_here(&u->walk)->fd : -1;
	struct stat st;
	int r;

	if (dir < 0 || u->kind == PACK_SAME || u->kind == PACK_UP)
		return -EBADMSG;
	if (u->kind == PACK_DIR || u->fd >= 0)
		r = fstat(u->kind == PACK_DIR ? dir : u->fd, &st);
	else
		r = fstatat(dir, u->name, &st, AT_SYMLINK_NOFOLLOW);
	if (r < 0)
		return errno == ENOENT ? 0 : -errno; /* it was not made, see make_other() */
	if (known->kind == PACK_NUMBER)
		return number_set(&u->files->numbers, st.st_ino, known->number);
	return origin_inherit(&u->files->origin, st.st_ino,
			      (struct proto_str){known->name, known->name_len});
}

/* ---- turns ---- */

static int take_record(struct unpacker *u, const struct pack_record *r)
{
	int err;

	if (r->kind == PACK_DATA)
		return add_data(u, r);
	if (r->kind == PACK_NUMBER || r->kind == PACK_ORIGIN)
		return take_known(u, r);
	err = end_file(u);
	if (err < 0)
		return err;
	u->kind = r->kind;
	memcpy(u->name, r->name, r->name_len + 1);
	if (!u->walk.n && r->kind != PACK_DIR)
		return -EBADMSG;
	switch (r->kind) {
	case PACK_DIR: err = go_in(u, r); break;
	case PACK_FILE: err = make_file(u, r); break;
	case PACK_LINK: err = make_link(u, r); break;
	case PACK_SAME: err = make_same(u, r); break;
	case PACK_OTHER: err = make_other(u, r); break;
	case PACK_UP: return go_out(u);
	case PACK_DATA:
	case PACK_NUMBER:
	case PACK_ORIGIN: assert(0);
	}
	u->entries++;
	return err;
}

/* Takes the next record. Return: 1, 0 if none is there or all is done, or -errno. */
static int step(struct unpacker *u)
{
	struct proto_in in = {u->buf + u->first, u->buf + u->end, false};
	struct pack_record r;
	int err = pack_record_get(&in, &r);
	size_t used;

	if (err == -EAGAIN) {
		u->starved = true;
		if (!u->last)
			return 0;
		return u->first == u->end && u->root_done ? 0 : -EBADMSG;
	}
	err = err < 0 ? -EBADMSG : take_record(u, &r);
	if (err < 0)
		return err;
	used = (size_t)(in.p - (u->buf + u->first));
	u->first += used;
	u->used += used;
	return 1;
}

/* Grants what was used, in large pieces. */
static void grant_used(struct unpacker *u)
{
	if (u->last || (u->used < PROTO_DATA_MAX && !u->starved) || !u->used)
		return;
	grant(u, u->used);
	u->used = 0;
}

static void fill(struct unpacker *u, uint64_t until)
{
	int r = 1;

	files_enter(u->files);
	while (r > 0 && !u->starved && now_us() < until)
		r = step(u);
	files_leave(u->files);
	if (r < 0)
		finish(u, r, &u->walk, u->name);
	else if (u->starved && u->last)
		finish(u, 0, &u->walk, "");
	else
		grant_used(u);
}

static void remove_all(struct unpacker *u, uint64_t until)
{
	int r = 1;

	while (r > 0 && now_us() < until)
		r = clear_step(&u->clear);
	if (r < 0) {
		finish(u, r, &u->clear.walk, "");
	} else if (r == 0) {
		u->state = UNPACK_FILL;
		u->starved = true;
		grant(u, PROTO_UNPACK_WINDOW);
	}
}

bool unpacker_can(const struct unpacker *u)
{
	return u->state == UNPACK_CLEAR || (u->state == UNPACK_FILL && !u->starved);
}

void unpacker_advance(struct unpacker *u)
{
	if (!unpacker_can(u))
		return;
	if (u->state == UNPACK_CLEAR)
		remove_all(u, now_us() + TURN_US);
	else
		fill(u, now_us() + TURN_US);
}
