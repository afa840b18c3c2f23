/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all of the working directory for the host. See pack.h. */
#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files.h"
#include "agent/core/conn.h"
#include "agent/core/guest_env.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * A depth-first walk by descriptors, in small steps, so that the agent goes on answering: in each turn of the loop for TURN_US,
 * and not while the connection is full. It is of root's rights where the agent has them: what user code has made
 * unreadable for itself belongs to the sandbox as well.
 *
 * Of each directory first all is read that is no directory, then those in it, whose names are kept until then. So no
 * position in a directory has to be found again, which tmpfs can't do reliably. Nothing is opened but
 * directories, and files that were regular a moment ago: a FIFO that has taken the place of one does not block (O_NONBLOCK), and
 * there are no devices (nodev).
 *
 * User code stands still as a rule (FREEZE), but the host's own requests may change files meanwhile. What then does not
 * fit together is counted: what has vanished before it was read, is another kind of file now, or has another time of
 * change after it was read than before. A file that got shorter ends in a hole.
 */

#define TURN_US	 2000u
#define DATA_MIN 4096u /* less room than this is not filled with a part of a file */
#define OPEN	 (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

void packer_init(struct packer *p, struct files *files, struct conn *conn)
{
	p->files = files;
	p->conn = conn;
	p->fd = -1;
}

void packer_stop(struct packer *p)
{
	p->active = false;
	walk_end(&p->walk);
	close_fd(&p->fd);
	free(p->frame);
	p->frame = NULL;
	inodes_clear(&p->seen);
}

/* ---- frames ---- */

static void flush(struct packer *p)
{
	if (p->frame)
		conn_send(p->conn, frame_trim(p->frame));
	p->frame = NULL;
}

/* Makes room for @n bytes in `frame`. Return: 0 or -ENOMEM. */
static int reserve(struct packer *p, size_t n)
{
	if (p->frame && p->frame->out.cap - p->frame->out.len >= n)
		return 0;
	flush(p);
	p->frame = frame_new(PROTO_PACKED, p->id, PROTO_DATA_MAX);
	return p->frame ? 0 : -ENOMEM;
}

/* The last frame. @err: 0 or -errno, of what is named @name in the innermost directory. */
static void finish(struct packer *p, int err, const char *name)
{
	char path[WALK_PATH_MAX] = "";
	struct frame *f;

	if (err < 0) {
		free(p->frame);
		p->frame = NULL;
		walk_path(&p->walk, name, path);
	}
	flush(p);
	f = frame_new(PROTO_PACKED, p->id, 16 + sizeof(path));
	if (f) {
		f->flags = PROTO_F_EOF;
		put_u32(&f->out, (uint32_t)-err);
		put_u32(&f->out, p->changed);
		put_u32(&f->out, p->left_out);
		put_str(&f->out, proto_cstr(path));
		conn_send(p->conn, f);
	}
	packer_stop(p);
}

/* ---- entries ---- */

static struct pack_record record(enum pack_kind kind, const char *name, const struct stat *st)
{
	return (struct pack_record){.kind = kind,
				    .name = name,
				    .name_len = (uint32_t)strlen(name),
				    .mode = st->st_mode & (S_IFMT | PACK_MODE_MASK),
				    .mtime = st->st_mtim.tv_sec,
				    .mtime_ns = (uint32_t)st->st_mtim.tv_nsec};
}

/* @st: of what it is, or NULL if it is one more name. */
static int put_entry(struct packer *p, const struct pack_record *r, const struct stat *st)
{
	const struct pack_record number = {
		.kind = PACK_NUMBER,
		.number = (p->with & PROTO_F_NUMBERS) && st
				  ? number_of(&p->files->numbers, st->st_ino)
				  : 0};
	char text[PROTO_ORIGIN_MAX + 1];
	struct pack_record origin = {.kind = PACK_ORIGIN, .name = text};
	int err = reserve(p, PACK_RECORD_ROOM + PACK_NUMBER_SIZE + PACK_ORIGIN_ROOM);

	if (err == 0 && p->entries == p->entries_max)
		err = -EFBIG;
	if (err == 0 && r->target_len > p->bytes)
		err = -EFBIG;
	if (err < 0)
		return err;
	p->bytes -= r->target_len;
	p->entries++;
	pack_record_put(&p->frame->out, r);
	if (number.number)
		pack_record_put(&p->frame->out, &number);
	if ((p->with & PROTO_F_ORIGINS) && st)
		origin.name_len = (uint32_t)origin_of(&p->files->origin, st, text);
	if (origin.name_len)
		pack_record_put(&p->frame->out, &origin);
	return 0;
}

/* A file with several names: is this one more? Return: 1 if that was said, 0 if it is the first, or -errno. */
static int put_same(struct packer *p, const char *name, const struct stat *st)
{
	struct pack_record r = {
		.kind = PACK_SAME, .name = name, .name_len = (uint32_t)strlen(name)};
	int err;

	r.entry = (uint32_t)inodes_get(&p->seen, st->st_dev, st->st_ino);
	if (!r.entry)
		return inodes_set(&p->seen, st->st_dev, st->st_ino, p->entries);
	err = put_entry(p, &r, NULL);
	return err < 0 ? err : 1;
}

/* Extended attributes are not packed. Those of the kernel's security modules are not the user's. */
static void note_xattrs(struct packer *p, int fd)
{
	char names[1024];
	const ssize_t n = flistxattr(fd, names, sizeof(names));
	bool users = n < 0 && errno == ERANGE;

	for (ssize_t at = 0; at < n && !users; at += (ssize_t)strlen(names + at) + 1)
		users = strncmp(names + at, "user.", 5) == 0 ||
			strncmp(names + at, "system.", 7) == 0;
	p->left_out += users;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_changed(int fd, const struct stat *before)
{
	struct stat st;

	return fstat(fd, &st) < 0 || !same_time(&st.st_ctim, &before->st_ctim) ||
	       !same_time(&st.st_mtim, &before->st_mtim) || st.st_size != before->st_size;
}

/* Was what is being opened or read changed before that? */
static bool has_vanished(int err)
{
	return err == -ENOENT || err == -ENOTDIR || err == -ELOOP || err == -ENXIO ||
	       err == -EINVAL;
}

/* Begins to read a file. */
static int put_file(struct packer *p, const char *name)
{
	struct walk_dir *here = walk_here(&p->walk);
	int err = 0, fd = openat(here->fd, name, OPEN | O_NOATIME);
	struct pack_record r;

	if (fd < 0 && errno == EPERM)
		fd = openat(here->fd, name, OPEN);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &p->st) < 0)
		err = -errno;
	else if (!S_ISREG(p->st.st_mode))
		err = -EINVAL;
	else if (p->st.st_nlink > 1)
		err = put_same(p, name, &p->st);
	if (err == 0) {
		r = record(PACK_FILE, name, &p->st);
		r.size = (uint64_t)p->st.st_size;
		r.shared = p->st.st_nlink > 1;
		err = put_entry(p, &r, &p->st);
	}
	if (err != 0) {
		close(fd);
		return err < 0 ? err : 0;
	}
	note_xattrs(p, fd);
	(void)stpcpy(p->name, name);
	p->fd = fd;
	p->at = 0;
	p->sparse = (uint64_t)p->st.st_blocks * 512 < r.size;
	return 0;
}

static int put_link(struct packer *p, const char *name, const struct stat *st)
{
	struct pack_record r = record(PACK_LINK, name, st);
	char target[PROTO_LINK_MAX + 1];
	const ssize_t n = readlinkat(walk_here(&p->walk)->fd, name, target, sizeof(target));

	if (n < 0)
		return -errno;
	if (n == 0 || n > (ssize_t)PROTO_LINK_MAX)
		return -ENAMETOOLONG;
	r.target = target;
	r.target_len = (uint32_t)n;
	return put_entry(p, &r, st);
}

static int put_other(struct packer *p, const char *name, const struct stat *st)
{
	const struct pack_record r = record(PACK_OTHER, name, st);

	p->left_out++;
	return put_entry(p, &r, st);
}

static int put_name(struct packer *p, const char *name)
{
	struct stat st;

	if (fstatat(walk_here(&p->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	switch (st.st_mode & S_IFMT) {
	case S_IFDIR: return walk_todo(&p->walk, name);
	case S_IFREG: return put_file(p, name);
	case S_IFLNK: return put_link(p, name, &st);
	default: return put_other(p, name, &st);
	}
}

/* ---- directories ---- */

static int go_in(struct packer *p, int fd, const char *name)
{
	struct pack_record r;
	struct walk_dir *d;
	int err = walk_enter(&p->walk, fd, name);

	if (err < 0)
		return err;
	d = walk_here(&p->walk);
	/* What is mounted there is not of the sandbox's files. Below an overlay, directories are of its device all the same. */
	if (d->st.st_dev != p->files->dev && !p->files->env->store) {
		p->left_out++;
		d->listed = true;
	}
	note_xattrs(p, d->fd);
	r = record(PACK_DIR, name, &d->st);
	err = put_entry(p, &r, &d->st);
	if (err < 0)
		walk_leave(&p->walk);
	return err;
}

/* Into the next of those that are still to be visited in the innermost directory. */
static int go_on(struct packer *p, const char *name)
{
	int fd = walk_open(walk_here(&p->walk)->fd, name);

	return fd < 0 ? fd : go_in(p, fd, name);
}

static int go_out(struct packer *p)
{
	const struct pack_record r = {.kind = PACK_UP};
	struct walk_dir *here = walk_here(&p->walk);
	int err = reserve(p, PACK_RECORD_ROOM);

	if (err < 0)
		return err;
	p->changed += is_changed(here->fd, &here->st);
	pack_record_put(&p->frame->out, &r);
	walk_leave(&p->walk);
	return 0;
}

/* ---- content ---- */

/* The part of the file from `at` on that is no hole: where it begins, and how long it is, at most @most. Return: 1, 0 if
 * there is none, or -errno. */
static int next_part(struct packer *p, size_t *most)
{
	const uint64_t size = (uint64_t)p->st.st_size;
	off_t data = (off_t)p->at, hole = p->st.st_size;

	if (p->sparse && p->at < size) {
		data = lseek(p->fd, (off_t)p->at, SEEK_DATA);
		hole = data < 0 ? data : lseek(p->fd, data, SEEK_HOLE);
		if (hole < 0)
			return errno == ENXIO ? 0 : -errno;
	}
	p->at = (uint64_t)data;
	*most = MIN(*most, (uint64_t)MAX(MIN(hole, p->st.st_size) - data, 0));
	return *most > 0;
}

static void end_file(struct packer *p)
{
	p->changed += is_changed(p->fd, &p->st);
	close_fd(&p->fd);
}

static int put_part(struct packer *p)
{
	struct proto_out *o;
	size_t len;
	ssize_t n;
	int r = reserve(p, PACK_DATA_HEAD + DATA_MIN);

	if (r < 0)
		return r;
	o = &p->frame->out;
	len = o->cap - o->len - PACK_DATA_HEAD;
	r = next_part(p, &len);
	if (r < 0)
		return r;
	if (r > 0) {
		if (len > p->bytes)
			return -EFBIG;
		n = pread(p->fd, o->data + o->len + PACK_DATA_HEAD, len, (off_t)p->at);
		if (n < 0)
			return -errno;
		if (n > 0) {
			pack_data_begin(o, p->at, (uint32_t)n);
			o->len += (size_t)n;
			p->bytes -= (uint64_t)n;
			p->at += (uint64_t)n;
		}
		r = n > 0;
	}
	if (r == 0 || p->at >= (uint64_t)p->st.st_size)
		end_file(p);
	return 0;
}

/* ---- turns ---- */

/* Return: 0 or -errno, of @ret_name. */
static int step(struct packer *p, const char **ret_name)
{
	struct walk_dir *here = walk_here(&p->walk);
	const struct dirent64 *d;
	int r;

	*ret_name = "";
	if (p->fd >= 0) {
		*ret_name = p->name;
		return put_part(p);
	}
	if (!here->listed) {
		r = walk_next(&p->list, here->fd, &d);
		here->listed = r == 0;
		if (r <= 0)
			return r;
		*ret_name = d->d_name;
		r = put_name(p, d->d_name);
	} else if (here->todo_at < here->todo_len) {
		/* It is in memory of the directory, which is not freed before it is left. */
		*ret_name = here->todo + here->todo_at;
		here->todo_at += strlen(*ret_name) + 1;
		r = go_on(p, *ret_name);
	} else {
		return go_out(p);
	}
	if (has_vanished(r)) {
		p->changed++;
		r = 0;
	}
	return r;
}

void packer_start(struct packer *p, uint32_t id, uint64_t bytes, uint32_t entries, unsigned with)
{
	int fd, r;

	packer_stop(p);
	p->active = true;
	p->id = id;
	p->bytes = bytes;
	p->entries_max = entries;
	p->with = with;
	p->entries = p->changed = p->left_out = 0;
	p->list.first = p->list.end = 0;
	fd = walk_open(p->files->root_fd, ".");
	r = fd < 0 ? fd : go_in(p, fd, "");
	if (r < 0)
		finish(p, r, "");
}

bool packer_can(const struct packer *p)
{
	return p->active && !conn_full(p->conn);
}

void packer_advance(struct packer *p)
{
	const uint64_t until = p->active ? now_us() + TURN_US : 0;

	while (packer_can(p)) {
		const char *name;
		int r = step(p, &name);

		if (r < 0)
			finish(p, r, name);
		else if (!p->walk.n)
			finish(p, 0, "");
		else if (now_us() >= until)
			break;
	}
}
