/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory. See store.h. */
#include "store.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "vm/base/io.h"
#include "vm/base/path.h"
#include "vm/base/problem.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"
#include "vm/vm.h"

#define RECORD	     ".rec"
#define OUTPUTS	     ".out"
#define PIECE	     (64u << 10)	  /* of an output, sealed by itself */
#define SEALED_MAX   (PIECE + (4u << 10)) /* one of them on the disk */
#define RECORD_MOST  (512u << 20)
#define LOCK_WAIT_MS 10000u

/* ---- the directory ---- */

static int refuse(struct problem *why, int e, const char *path, const char *what)
{
	problem_set(why, PROBLEM_FAILED, "", "state_dir %s: %s", path, what);
	return e;
}

static int check_owner(int fd, const char *path, struct problem *why)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return refuse(why, -errno, path, strerror(errno));
	if (st.st_uid != geteuid())
		return refuse(why, -EPERM, path, "it belongs to another user");
	if (st.st_mode & 022)
		return refuse(why, -EPERM, path, "others may write to it: chmod go-rwx");
	if ((st.st_mode & 0777) != 0700 && fchmod(fd, 0700) < 0)
		return refuse(why, -errno, path, strerror(errno));
	return 0;
}

/* Return: a descriptor of the lock, -EBUSY, -errno. */
static int lock(int dir)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	int fd = openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	for (unsigned ms = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; ms += 50) {
		if (errno != EWOULDBLOCK || ms >= LOCK_WAIT_MS) {
			const int e = errno == EWOULDBLOCK ? -EBUSY : -errno;

			close(fd);
			return e;
		}
		nanosleep(&pause, NULL);
	}
	return fd;
}

static int write_version(int dir)
{
	_cleanup_close_ int fd = openat(
		dir, ".version", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	char text[16];
	int r;

	if (fd < 0)
		return -errno;
	snprintf(text, sizeof(text), "%u\n", STORE_VERSION);
	r = fileio_write(fd, text, strlen(text));
	if (r == 0 &&
	    (fsync(fd) < 0 || renameat(dir, ".version", dir, "version") < 0 || fsync(dir) < 0))
		r = -errno;
	return r;
}

static int check_version(struct store *st, const char *path, struct problem *why)
{
	_cleanup_close_ int fd = fileio_open(st->dir, "version");
	char text[16] = "", *end;
	unsigned long version;
	ssize_t n;
	int r;

	if (fd == -ENOENT) {
		r = store_upgrade(st);
		return r < 0 ? refuse(why, r, path, strerror(-r)) : 0;
	}
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	version = strtoul(text, &end, 10);
	if (n <= 0 || end == text || *end != '\n')
		return refuse(why, -EBADMSG, path, "its file `version` is damaged");
	if (version == 1 || version == STORE_VERSION) {
		st->version = (unsigned)version;
		return 0;
	}
	problem_set(
		why, PROBLEM_FAILED, "",
		"state_dir %s: it is of version %lu, which this xsbxfs does not know: take a newer "
		"one, or another state_dir",
		path, version);
	return -EPROTO;
}

int store_upgrade(struct store *st)
{
	const int r = st->version == STORE_VERSION ? 0 : write_version(st->dir);

	if (r == 0)
		st->version = STORE_VERSION;
	return r;
}

int store_inherit(struct store *st, int lock)
{
	struct stat ours, theirs;

	if (fstatat(st->dir, "lock", &ours, AT_SYMLINK_NOFOLLOW) < 0 || fstat(lock, &theirs) < 0 ||
	    ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev) {
		close(lock);
		return -EBADMSG;
	}
	cleanup_close(&st->lock);
	st->lock = lock;
	return 0;
}

static int open_store(const char *path, bool heir, struct store *ret_st, struct problem *why)
{
	struct store st = {.dir = -1, .sessions = -1, .lock = -1};
	int r = path_make_kept(path, 0700);

	if (r < 0)
		return refuse(why, r, path, strerror(-r));
	st.dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (st.dir < 0)
		return refuse(why, -errno, path,
			      errno == ELOOP || errno == ENOTDIR ? "it is no directory, or a link"
								 : strerror(errno));
	r = check_owner(st.dir, path, why);
	if (r == 0 && heir)
		r = check_version(&st, path, why);
	else if (r == 0) {
		st.lock = lock(st.dir);
		r = st.lock >= 0	? check_version(&st, path, why)
		    : st.lock == -EBUSY ? refuse(why, -EBUSY, path, "another mount has it")
					: refuse(why, st.lock, path, strerror(-st.lock));
	}
	if (r == 0) {
		st.sessions = path_make_in(st.dir, "sessions");
		if (st.sessions < 0)
			r = refuse(why, st.sessions, path, strerror(-st.sessions));
	}
	if (r < 0)
		store_close(&st);
	else
		*ret_st = st;
	return r;
}

int store_open(const char *path, struct store *ret_st, struct problem *why)
{
	return open_store(path, false, ret_st, why);
}

int store_open_heir(const char *path, struct store *ret_st, struct problem *why)
{
	return open_store(path, true, ret_st, why);
}

void store_close(struct store *st)
{
	cleanup_close(&st->sessions);
	cleanup_close(&st->dir);
	cleanup_close(&st->lock);
	st->dir = st->sessions = st->lock = -1;
	if (st->gate)
		pthread_mutex_destroy(st->gate);
	free(st->gate);
	st->gate = NULL;
}

int store_use(struct store *st, const struct vault *vault)
{
	if (!st->gate) {
		st->gate = malloc(sizeof(pthread_mutex_t));
		if (!st->gate)
			return -ENOMEM;
		pthread_mutex_init(st->gate, NULL);
	}
	pthread_mutex_lock(st->gate);
	st->vault = vault;
	pthread_mutex_unlock(st->gate);
	return 0;
}

static int seal(const struct store *st, const void *data, size_t len, const char *what,
		struct buf *out)
{
	int r;

	pthread_mutex_lock(st->gate);
	r = st->vault ? vault_seal(st->vault, data, len, what, out) : -ECANCELED;
	pthread_mutex_unlock(st->gate);
	return r;
}

static int unseal(const struct store *st, const void *data, size_t len, const char *what,
		  struct buf *out)
{
	int r;

	pthread_mutex_lock(st->gate);
	r = st->vault ? vault_unseal(st->vault, data, len, what, out) : -ECANCELED;
	pthread_mutex_unlock(st->gate);
	return r;
}

/* ---- names ---- */

struct store_id store_id(const struct timespec *made)
{
	struct store_id id;

	snprintf(id.text, sizeof(id.text), "%llx-%lx", (unsigned long long)made->tv_sec,
		 (unsigned long)made->tv_nsec);
	return id;
}

struct file_name {
	char text[160];
};

static struct file_name record_name(const char *name)
{
	struct file_name n;

	snprintf(n.text, sizeof(n.text), "%s" RECORD, name);
	return n;
}

static struct file_name outputs_name(const struct store_name *of)
{
	struct file_name n;

	snprintf(n.text, sizeof(n.text), "%s.%s" OUTPUTS, of->name, store_id(&of->made).text);
	return n;
}

/* What a file is sealed for. */
struct purpose {
	char text[320];
};

static struct purpose record_purpose(const char *template, const char *name)
{
	struct purpose p;

	snprintf(p.text, sizeof(p.text), "session %s/%s", template, name);
	return p;
}

static struct purpose output_purpose(const struct store_name *of, const struct store_output *o,
				     uint64_t piece, bool last)
{
	struct purpose p;

	snprintf(p.text, sizeof(p.text), "output %s/%s %s %s%s%s %" PRIu64 "%s", of->template,
		 of->name, store_id(&of->made).text, o->name, *o->of ? " " : "", o->of, piece,
		 last ? " last" : "");
	return p;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t a = strlen(text), b = strlen(end);

	return a > b && strcmp(text + a - b, end) == 0;
}

/* ---- lists ---- */

/* Return: 0 or -errno, with what could be read. */
static int list_template(const struct store *st, const char *template,
			 void (*fn)(void *data, const char *template, const char *name), void *data)
{
	_cleanup_dir_ DIR *dir = fileio_list(st->sessions, template);
	const struct dirent *d;
	char name[sizeof(d->d_name)];

	if (!dir)
		return -errno;
	while (errno = 0, d = readdir(dir)) {
		if (!ends_with(d->d_name, RECORD))
			continue;
		snprintf(name, sizeof(name), "%s", d->d_name);
		name[strlen(name) - strlen(RECORD)] = '\0';
		if (plain_name_ok(name))
			fn(data, template, name);
	}
	return -errno;
}

int store_list(const struct store *st,
	       void (*fn)(void *data, const char *template, const char *name), void *data)
{
	_cleanup_dir_ DIR *dir = fileio_list(st->sessions, ".");
	const struct dirent *d;
	int e, first = 0;

	if (!dir)
		return -errno;
	while (errno = 0, d = readdir(dir)) {
		if (d->d_type == DT_REG || !plain_name_ok(d->d_name))
			continue; /* a file lies there by somebody else */
		e = list_template(st, d->d_name, fn, data);
		first = first < 0 ? first : e;
	}
	return first < 0 ? first : -errno;
}

/* ---- records ---- */

static int read_whole(int fd, struct buf *out, size_t most)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > most)
		return -EBADMSG;
	r = buf_reserve(out, (size_t)st.st_size);
	if (r < 0)
		return r;
	r = fileio_read(fd, out->data + out->len, (size_t)st.st_size);
	if (r == 0)
		out->len += (size_t)st.st_size;
	return r;
}

int store_read(const struct store *st, const char *template, const char *name, struct buf *out)
{
	_cleanup_close_ int dir =
		openat(st->sessions, template, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	struct buf sealed = {0};
	int r;

	if (dir < 0)
		return -errno;
	fd = fileio_open(dir, record_name(name).text);
	if (fd < 0)
		return fd;
	r = read_whole(fd, &sealed, RECORD_MOST);
	if (r == 0)
		r = unseal(st, sealed.data, sealed.len, record_purpose(template, name).text, out);
	buf_clear(&sealed);
	return r;
}

/* The name under which it is written. */
static struct file_name staged_name(const char *name)
{
	struct file_name n;

	snprintf(n.text, sizeof(n.text), ".%s" RECORD, name);
	return n;
}

int store_stage(const struct store *st, const struct store_name *of, const void *data, size_t len)
{
	_cleanup_close_ int dir = path_make_in(st->sessions, of->template);
	_cleanup_close_ int fd = -1;
	struct buf sealed = {0};
	int r;

	if (dir < 0)
		return dir;
	r = seal(st, data, len, record_purpose(of->template, of->name).text, &sealed);
	if (r == 0) {
		fd = openat(dir, staged_name(of->name).text,
			    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
		r = fd < 0 ? -errno : fileio_write(fd, sealed.data, sealed.len);
	}
	if (r == 0)
		(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* begins with it */
	else
		(void)unlinkat(dir, staged_name(of->name).text, 0);
	buf_clear(&sealed);
	return r < 0 ? r : steal_fd(&fd);
}

int store_settle(int fd)
{
	int r = fsync(fd) < 0 ? -errno : 0;

	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

int store_publish(const struct store *st, const struct store_name *of)
{
	_cleanup_close_ int dir = path_make_in(st->sessions, of->template);

	if (dir < 0)
		return dir;
	return renameat(dir, staged_name(of->name).text, dir, record_name(of->name).text) < 0
		       ? -errno
		       : 0;
}

int store_sync(const struct store *st, const char *template)
{
	_cleanup_close_ int dir = path_make_in(st->sessions, template);

	return dir < 0 ? dir : fsync(dir) < 0 ? -errno : 0;
}

/* ---- accounts ---- */

#define ACCOUNTS "accounts"

int store_put_accounts(const struct store *st, const void *data, size_t len)
{
	_cleanup_close_ int fd = -1;
	struct buf sealed = {0};
	int r = seal(st, data, len, ACCOUNTS, &sealed);

	if (r == 0) {
		fd = openat(st->dir, "." ACCOUNTS,
			    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
		r = fd < 0 ? -errno : fileio_write(fd, sealed.data, sealed.len);
	}
	buf_clear(&sealed);
	if (r == 0)
		r = store_settle(steal_fd(&fd));
	if (r == 0 && renameat(st->dir, "." ACCOUNTS, st->dir, ACCOUNTS) < 0)
		r = -errno;
	return r == 0 && fsync(st->dir) < 0 ? -errno : r;
}

int store_get_accounts(const struct store *st, struct buf *out)
{
	_cleanup_close_ int fd = fileio_open(st->dir, ACCOUNTS);
	struct buf sealed = {0};
	int r;

	if (fd < 0)
		return fd;
	r = read_whole(fd, &sealed, RECORD_MOST);
	if (r == 0)
		r = unseal(st, sealed.data, sealed.len, ACCOUNTS, out);
	buf_clear(&sealed);
	return r;
}

/* ---- outputs ---- */

static void remove_outputs(int dir, const char *name)
{
	_cleanup_dir_ DIR *list = fileio_list(dir, name);
	const struct dirent *d;

	while (list && (d = readdir(list)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			(void)unlinkat(dirfd(list), d->d_name, 0);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* Is it a directory of outputs? @ret_name, @ret_id: whose. */
static bool is_outputs(const char *file, char ret_name[65], char ret_id[40])
{
	char text[256], *dot;

	snprintf(text, sizeof(text), "%s", file);
	if (!ends_with(text, OUTPUTS))
		return false;
	text[strlen(text) - strlen(OUTPUTS)] = '\0';
	dot = strrchr(text, '.');
	if (!dot || strlen(dot + 1) >= 40)
		return false;
	*dot = '\0';
	if (!plain_name_ok(text))
		return false;
	snprintf(ret_name, 65, "%s", text);
	snprintf(ret_id, 40, "%s", dot + 1);
	return true;
}

static bool wants_none(void *data, const char *name, const char *id)
{
	(void)id;
	return strcmp(data, name) != 0;
}

void store_sweep(const struct store *st, const char *template,
		 bool (*wanted)(void *data, const char *name, const char *id), void *data)
{
	_cleanup_dir_ DIR *dir = fileio_list(st->sessions, template);
	char name[65], id[40];
	const struct dirent *d;

	while (dir && (d = readdir(dir)))
		if (is_outputs(d->d_name, name, id) && !wanted(data, name, id))
			remove_outputs(dirfd(dir), d->d_name);
}

static bool wants_own(void *data, const char *name, const char *id)
{
	const struct store_name *of = data;

	return strcmp(of->name, name) != 0 || strcmp(store_id(&of->made).text, id) == 0;
}

void store_trim_others(const struct store *st, const struct store_name *of)
{
	struct store_name copy = *of;

	store_sweep(st, of->template, wants_own, &copy);
}

int store_remove(const struct store *st, const char *template, const char *name)
{
	_cleanup_close_ int dir =
		openat(st->sessions, template, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char copy[65];

	if (dir < 0)
		return errno == ENOENT ? 0 : -errno;
	/* Half of one as well, which nobody would look at any more. */
	if (unlinkat(dir, staged_name(name).text, 0) < 0 && errno != ENOENT)
		return -errno;
	if (unlinkat(dir, record_name(name).text, 0) < 0 && errno != ENOENT)
		return -errno;
	if (fsync(dir) < 0)
		return -errno;
	snprintf(copy, sizeof(copy), "%s", name);
	store_sweep(st, template, wants_none, copy);
	return 0;
}

static int write_pieces(const struct store *st, const struct store_name *of,
			const struct store_output *o, uint64_t len, int fd,
			int (*read)(void *data, uint64_t offset, void *to, size_t len), void *data)
{
	_cleanup_free_ char *plain = malloc(PIECE);
	struct buf sealed = {0};
	int r = plain ? 0 : -ENOMEM;

	for (uint64_t at = 0; at < len && r == 0; at += PIECE) {
		const size_t n = (size_t)MIN(len - at, (uint64_t)PIECE);
		uint32_t head;

		sealed.len = 0;
		r = read(data, at, plain, n);
		if (r == 0)
			r = seal(st, plain, n,
				 output_purpose(of, o, at / PIECE, at + n == len).text, &sealed);
		head = htole32((uint32_t)sealed.len);
		if (r == 0)
			r = fileio_write(fd, &head, sizeof(head));
		if (r == 0)
			r = fileio_write(fd, sealed.data, sealed.len);
	}
	buf_clear(&sealed);
	return r;
}

int store_put_output(const struct store *st, const struct store_name *of,
		     const struct store_output *o, uint64_t len,
		     int (*read)(void *data, uint64_t offset, void *to, size_t len), void *data)
{
	_cleanup_close_ int top = path_make_in(st->sessions, of->template);
	_cleanup_close_ int dir = top < 0 ? top : path_make_in(top, outputs_name(of).text);
	_cleanup_close_ int fd = -1;
	char other[32];
	int r;

	if (dir < 0)
		return dir;
	snprintf(other, sizeof(other), ".%s", o->name);
	fd = openat(dir, other, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_pieces(st, of, o, len, fd, read, data);
	if (r == 0 && (fsync(fd) < 0 || renameat(dir, other, dir, o->name) < 0 || fsync(dir) < 0))
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, other, 0);
	return r;
}

static int read_piece(const struct store *st, int fd, const char *what, struct buf *sealed,
		      struct buf *plain)
{
	uint32_t head;
	int r = fileio_read(fd, &head, sizeof(head));

	if (r < 0)
		return r;
	head = le32toh(head);
	if (head == 0 || head > SEALED_MAX)
		return -EBADMSG;
	sealed->len = plain->len = 0;
	r = buf_reserve(sealed, head);
	if (r == 0)
		r = fileio_read(fd, sealed->data, head);
	return r < 0 ? r : unseal(st, sealed->data, head, what, plain);
}

int store_get_output(const struct store *st, const struct store_name *of,
		     const struct store_output *o, uint64_t len,
		     int (*put)(void *data, const void *bytes, size_t len), void *data)
{
	_cleanup_close_ int top =
		openat(st->sessions, of->template, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int dir = top < 0 ? -1
					  : openat(top, outputs_name(of).text,
						   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int fd = dir < 0 ? -errno : fileio_open(dir, o->name);
	struct buf sealed = {0}, plain = {0};
	int r = fd < 0 ? fd : 0;

	for (uint64_t at = 0; at < len && r == 0; at += PIECE) {
		const size_t n = (size_t)MIN(len - at, (uint64_t)PIECE);

		r = read_piece(st, fd, output_purpose(of, o, at / PIECE, at + n == len).text,
			       &sealed, &plain);
		if (r == 0 && plain.len != n)
			r = -EBADMSG;
		if (r == 0)
			r = put(data, plain.data, n);
	}
	buf_clear(&sealed);
	buf_clear(&plain);
	return r;
}

void store_trim_outputs(const struct store *st, const struct store_name *of,
			const struct store_output *keep, size_t n)
{
	_cleanup_close_ int top =
		openat(st->sessions, of->template, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = top < 0 ? NULL : fileio_list(top, outputs_name(of).text);
	const struct dirent *d;

	while (dir && (d = readdir(dir))) {
		bool wanted = strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0;

		for (size_t i = 0; i < n && !wanted; i++)
			wanted = strcmp(keep[i].name, d->d_name) == 0;
		if (!wanted)
			(void)unlinkat(dirfd(dir), d->d_name, 0);
	}
	if (dir && n == 0)
		(void)unlinkat(top, outputs_name(of).text, AT_REMOVEDIR);
}
