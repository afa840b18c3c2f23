/* SPDX-License-Identifier: Apache-2.0 */
/* Package layers on the disk: making, publishing and removing them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "layer.h"
#include "measure.h"
#include "vm/base/io.h"
#include "vm/base/path.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * An unfinished layer is named .tmp-KEY, and is locked by the process that makes it, so that two mounts
 * that need the same layer don't both make it, and an unlocked directory is recognized as left by a
 * crash. A complete layer is renamed to its key; nothing incomplete is ever visible. Layers to be
 * removed are renamed to such a temporary name first.
 *
 * The directories for the installer and the packer are world-writable, because their ids outside of
 * their jails are not known here; nobody else can reach them, because their parent directory belongs to
 * us. Only the expected files are taken from them.
 */

#define LAYERS_MAX  4096u
/* Of the file system, for others; or a 50th of it, if that is less. Words and manual say so. */
#define LEAVE_BYTES (512ull << 20)

static const char *const made[] = {[LAYER_TREE] = "out/tree", [LAYER_EROFS] = "packed/layer.erofs"};
static const char *const name_of[] = {[LAYER_TREE] = "tree", [LAYER_EROFS] = "layer.erofs"};

static bool is_there(const char *dir, const char *key)
{
	char path[PATH_MAX];

	return path_join(path, dir, "", key) == 0 && access(path, F_OK) == 0;
}

/* A directory for somebody in a jail. */
static int make_open(int dir, const char *name)
{
	if (mkdirat(dir, name, 0777) < 0 || fchmodat(dir, name, 0777, 0) < 0)
		return -errno;
	return 0;
}

static int begin(const char *dir, const char *key, int *ret_lock)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	int r;

	if (path_join(path, dir, ".tmp-", key) < 0)
		return -ENAMETOOLONG;
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return -errno;
	/* What a crash left there is not of use. */
	fd = fileio_lock(path);
	if (fd >= 0) {
		if (is_there(dir, key))
			return -EEXIST;
		r = remove_tree(path);
		if (r < 0) /* else it would look like one that is being made */
			return r;
		close(steal_fd(&fd));
		fd = -ENOENT;
	}
	if (fd != -ENOENT)
		return fd;
	if (mkdir(path, 0711) < 0)
		return errno == EEXIST ? -EAGAIN : -errno;
	fd = fileio_lock(path);
	if (fd < 0)
		return fd;
	r = is_there(dir, key) ? -EEXIST : make_open(fd, "out");
	if (r == 0)
		r = make_open(fd, "packed");
	if (r < 0) {
		remove_tree(path);
		return r;
	}
	*ret_lock = steal_fd(&fd);
	return 0;
}

void layer_abandon(const char *dir, const char *key)
{
	char path[PATH_MAX];

	if (path_join(path, dir, ".tmp-", key) == 0)
		(void)remove_tree(path);
}

/* ---- sizes ---- */

/* Of a layer. One that has its name was measured as a whole; what others have put there counts as far as
 * it can be. */
static uint64_t size_of(const char *path)
{
	struct measure m = {0};

	(void)measure_tree(&m, path);
	return m.bytes;
}

bool layer_usage(const char *dir, unsigned most, unsigned *ret_n, uint64_t *ret_bytes)
{
	struct measure m = {.most = most};
	char path[PATH_MAX];
	struct dirent *e;
	bool all = true;
	_cleanup_dir_ DIR *d = opendir(dir);

	*ret_n = 0;
	while (d && (e = readdir(d))) {
		if (strlen(e->d_name) != DIGEST_HEX - 1 || path_join(path, dir, "", e->d_name) < 0)
			continue;
		++*ret_n;
		if (all && measure_tree(&m, path) == -E2BIG)
			all = false;
	}
	*ret_bytes = m.bytes;
	return all;
}

/* Is there less left of a file system than should be? @enough is, however large it is. */
static bool is_scarce(uint64_t left, uint64_t all, uint64_t enough)
{
	return all && left < MIN(all / 50, enough);
}

/* What is open and has no name any more is seen here alone. */
static bool is_nearly_full(const char *path)
{
	struct statvfs fs;

	return statvfs(path, &fs) == 0 &&
	       (is_scarce(fs.f_bavail, fs.f_blocks, LEAVE_BYTES / MAX(fs.f_frsize, 1ul)) ||
		is_scarce(fs.f_favail, fs.f_files, LAYER_FILES_MAX));
}

int layer_room(const char *dir, const char *key, uint64_t limit, uint64_t *ret_bytes)
{
	struct measure m = {.most = LAYER_FILES_MAX};
	char path[PATH_MAX];
	int r;

	*ret_bytes = 0;
	if (path_join(path, dir, ".tmp-", key) < 0)
		return -ENAMETOOLONG;
	if (is_nearly_full(path))
		return -ENOSPC;
	r = measure_tree(&m, path);
	*ret_bytes = m.bytes;
	return (r == 0 || r == -EACCES) && limit && m.bytes / 2 > limit ? -EFBIG : r;
}

struct known {
	char key[DIGEST_HEX];
	uint64_t bytes;
	struct timespec used;
};

static int by_age(const void *a, const void *b)
{
	const struct known *ka = a, *kb = b;

	return time_compare(&ka->used, &kb->used);
}

/* Removes a layer that nobody uses. Return: whether it did. */
static bool remove_layer(const char *dir, const char *key)
{
	char path[PATH_MAX], away[PATH_MAX];
	_cleanup_close_ int fd = -1;

	if (path_join(path, dir, "", key) < 0 || path_join(away, dir, ".tmp-gone-", key) < 0)
		return false;
	fd = fileio_lock(path);
	if (fd < 0 || rename(path, away) < 0)
		return false;
	(void)remove_tree(away);
	return true;
}

/* Makes room: those that were not used for longest go, until the rest has @limit bytes, or, with 0, until
 * the file system has room. */
static void prune(const char *dir, const char *keep, uint64_t limit)
{
	_cleanup_free_ struct known *known = calloc(LAYERS_MAX, sizeof(*known));
	uint64_t all = 0;
	struct dirent *e;
	unsigned n = 0;
	_cleanup_dir_ DIR *d = opendir(dir);

	while (known && d && n < LAYERS_MAX && (e = readdir(d))) {
		char path[PATH_MAX];
		struct stat st;

		if (strlen(e->d_name) != DIGEST_HEX - 1 ||
		    path_join(path, dir, "", e->d_name) < 0 || stat(path, &st) < 0)
			continue;
		snprintf(known[n].key, sizeof(known[n].key), "%s", e->d_name);
		known[n].bytes = limit ? size_of(path) : 0;
		known[n].used = st.st_mtim;
		all += known[n++].bytes;
	}
	if (known)
		qsort(known, n, sizeof(*known), by_age);
	for (unsigned i = 0; i < n && (limit ? all > limit : is_nearly_full(dir)); i++) {
		if (strcmp(known[i].key, keep) != 0 && remove_layer(dir, known[i].key))
			all -= known[i].bytes;
	}
}

int layer_begin(const char *dir, const char *key, int *ret_lock)
{
	int r = begin(dir, key, ret_lock);

	if (r != 0 && r != -ENOSPC)
		return r;
	/* It may be full of layers that nobody uses. */
	if (is_nearly_full(dir))
		prune(dir, key, 0);
	return r == 0 ? 0 : begin(dir, key, ret_lock);
}

/* ---- the end of the making ---- */

/* Is what was made what it should be? */
static bool is_right(const char *path, enum layer_form form)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return false;
	return form == LAYER_TREE ? S_ISDIR(st.st_mode)
				  : S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_size > 0;
}

/* What has its last name must be whole, also after a loss of power. */
static int sync_path(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -1 : fsync(fd);
}

void layer_trim(const char *dir, const char *key, uint64_t limit)
{
	if (limit)
		prune(dir, key, limit);
}

/*
 * What a layer takes of the disk when it is all that is left. A file may have more names beside it,
 * in what was downloaded, and would count for a share alone: so all that is not the layer goes first.
 */
static int size_alone(const char *tmp, const char *done, uint64_t *ret_bytes)
{
	static const char *const rest[] = {"out", "packed"};
	struct measure m = {.most = LAYER_FILES_MAX};
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rest); i++) {
		r = path_join(path, tmp, "", rest[i]);
		if (r == 0)
			r = remove_tree(path);
	}
	if (r == 0)
		r = measure_tree(&m, done);
	*ret_bytes = m.bytes;
	return r;
}

int layer_publish(const char *dir, const char *key, enum layer_form form, uint64_t limit,
		  uint64_t *ret_bytes)
{
	char tmp[PATH_MAX], from[PATH_MAX], done[PATH_MAX], to[PATH_MAX], name[PATH_MAX];
	int r;

	if (path_join(tmp, dir, ".tmp-", key) < 0 || path_join(from, tmp, "", made[form]) < 0 ||
	    path_join(done, tmp, "", "done") < 0 || path_join(to, done, "", name_of[form]) < 0 ||
	    path_join(name, dir, "", key) < 0)
		return -ENAMETOOLONG;
	*ret_bytes = 0;
	if (!is_right(from, form))
		return -EBADMSG;
	/* Whoever gets into the cache may read it, whatever the umask: that may be everybody. */
	if (mkdir(done, 0755) < 0 || chmod(done, 0755) < 0 || rename(from, to) < 0 ||
	    (form == LAYER_EROFS && chmod(to, 0644) < 0))
		return -errno;
	r = size_alone(tmp, done, ret_bytes);
	if (r == 0 && limit && *ret_bytes > limit)
		r = -EFBIG;
	if (r < 0)
		return r;
	if (sync_path(to) < 0 || sync_path(done) < 0 || rename(done, name) < 0 ||
	    sync_path(dir) < 0)
		return -errno;
	(void)remove_tree(tmp);
	if (limit)
		prune(dir, key, limit);
	return 0;
}

void layer_clean(const char *dir)
{
	remove_abandoned(dir, ".tmp-", 0);
}
