/* SPDX-License-Identifier: Apache-2.0 */
/* Package layers on the disk: begun, given their names, and removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "layer.h"
#include "remove.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * What is being made has the name .tmp-KEY, and is locked by whoever makes it, so that two mounts that
 * need the same layer don't both make it, and one that finds the directory not locked knows that it
 * was left by a crash. The name is given when all is there, by a rename; nothing else is ever seen.
 * What is to be removed gets such a name first, too.
 *
 * The directories that the installer and the packer write to may be written by everybody, since
 * who they are outside of their jails is not known here; nobody else can reach them, because the
 * directory they are in belongs to us. Of what they leave only what is expected is taken.
 */

#define LAYERS_MAX 4096u

static const char *const made[] = {[LAYER_TREE] = "out/tree", [LAYER_EROFS] = "packed/layer.erofs"};
static const char *const name_of[] = {[LAYER_TREE] = "tree", [LAYER_EROFS] = "layer.erofs"};

static int path_of(char path[PATH_MAX], const char *dir, const char *prefix, const char *name)
{
	return snprintf(path, PATH_MAX, "%s/%s%s", dir, prefix, name) < PATH_MAX ? 0
										 : -ENAMETOOLONG;
}

static bool is_there(const char *dir, const char *key)
{
	char path[PATH_MAX];

	return path_of(path, dir, "", key) == 0 && access(path, F_OK) == 0;
}

/* Locks the directory @path, which may vanish meanwhile. Return: a descriptor or -errno. */
static int lock(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st, now;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (fstat(fd, &st) < 0 || stat(path, &now) < 0 || st.st_ino != now.st_ino ||
	    st.st_dev != now.st_dev)
		return -EAGAIN;
	return steal_fd(&fd);
}

/* A directory for somebody in a jail. */
static int make_open(int dir, const char *name)
{
	if (mkdirat(dir, name, 0777) < 0 || fchmodat(dir, name, 0777, 0) < 0)
		return -errno;
	return 0;
}

int layer_begin(const char *dir, const char *key, int *ret_lock)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	int r;

	if (path_of(path, dir, ".tmp-", key) < 0)
		return -ENAMETOOLONG;
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return -errno;
	/* What a crash left there is not of use. */
	fd = lock(path);
	if (fd >= 0) {
		if (is_there(dir, key))
			return -EEXIST;
		r = remove_tree(path);
		if (r < 0) /* else it would be taken for somebody's who is at it */
			return r;
		close(steal_fd(&fd));
		fd = -ENOENT;
	}
	if (fd != -ENOENT)
		return fd;
	if (mkdir(path, 0711) < 0)
		return errno == EEXIST ? -EAGAIN : -errno;
	fd = lock(path);
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

	if (path_of(path, dir, ".tmp-", key) == 0)
		(void)remove_tree(path);
}

/* ---- sizes ---- */

static _Thread_local uint64_t sum;
static _Thread_local unsigned left; /* files that may still be counted; 0: all of them */

static int add_size(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path;
	(void)type;
	(void)ftw;
	sum += (uint64_t)st->st_blocks * 512;
	return left && --left == 0; /* other than 0: that's enough */
}

static uint64_t size_of(const char *path)
{
	sum = 0;
	left = 0;
	(void)nftw(path, add_size, 16, FTW_PHYS | FTW_MOUNT);
	return sum;
}

bool layer_usage(const char *dir, unsigned most, unsigned *ret_n, uint64_t *ret_bytes)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool all = true;
	DIR *d = opendir(dir);

	*ret_n = 0;
	sum = 0;
	left = most;
	while (d && (e = readdir(d))) {
		if (strlen(e->d_name) != DIGEST_HEX - 1 || path_of(path, dir, "", e->d_name) < 0)
			continue;
		++*ret_n;
		if (all && nftw(path, add_size, 16, FTW_PHYS | FTW_MOUNT) > 0)
			all = false;
	}
	if (d)
		closedir(d);
	*ret_bytes = sum;
	return all;
}

struct known {
	char key[DIGEST_HEX];
	uint64_t bytes;
	struct timespec used;
};

static int by_age(const void *a, const void *b)
{
	const struct known *ka = a, *kb = b;

	if (ka->used.tv_sec != kb->used.tv_sec)
		return ka->used.tv_sec < kb->used.tv_sec ? -1 : 1;
	return (ka->used.tv_nsec > kb->used.tv_nsec) - (ka->used.tv_nsec < kb->used.tv_nsec);
}

/* Removes a layer that nobody uses. Return: whether it did. */
static bool remove_layer(const char *dir, const char *key)
{
	char path[PATH_MAX], away[PATH_MAX];
	_cleanup_close_ int fd = -1;

	if (path_of(path, dir, "", key) < 0 || path_of(away, dir, ".tmp-gone-", key) < 0)
		return false;
	fd = lock(path);
	if (fd < 0 || rename(path, away) < 0)
		return false;
	(void)remove_tree(away);
	return true;
}

/* Makes room: those that were not used for longest go, until the rest has @limit bytes. */
static void prune(const char *dir, const char *keep, uint64_t limit)
{
	_cleanup_free_ struct known *known = calloc(LAYERS_MAX, sizeof(*known));
	uint64_t all = 0;
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(dir);

	while (known && d && n < LAYERS_MAX && (e = readdir(d))) {
		char path[PATH_MAX];
		struct stat st;

		if (strlen(e->d_name) != DIGEST_HEX - 1 || path_of(path, dir, "", e->d_name) < 0 ||
		    stat(path, &st) < 0)
			continue;
		snprintf(known[n].key, sizeof(known[n].key), "%s", e->d_name);
		known[n].bytes = size_of(path);
		known[n].used = st.st_mtim;
		all += known[n++].bytes;
	}
	if (d)
		closedir(d);
	if (known)
		qsort(known, n, sizeof(*known), by_age);
	for (unsigned i = 0; i < n && all > limit; i++) {
		if (strcmp(known[i].key, keep) != 0 && remove_layer(dir, known[i].key))
			all -= known[i].bytes;
	}
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

int layer_publish(const char *dir, const char *key, enum layer_form form, uint64_t limit,
		  uint64_t *ret_bytes)
{
	char tmp[PATH_MAX], from[PATH_MAX], done[PATH_MAX], to[PATH_MAX], name[PATH_MAX];

	if (path_of(tmp, dir, ".tmp-", key) < 0 || path_of(from, tmp, "", made[form]) < 0 ||
	    path_of(done, tmp, "", "done") < 0 || path_of(to, done, "", name_of[form]) < 0 ||
	    path_of(name, dir, "", key) < 0)
		return -ENAMETOOLONG;
	if (!is_right(from, form))
		return -EBADMSG;
	*ret_bytes = size_of(from);
	if (limit && *ret_bytes > limit)
		return -EFBIG;
	if (mkdir(done, 0755) < 0 || rename(from, to) < 0 || sync_path(to) < 0 ||
	    sync_path(done) < 0 || rename(done, name) < 0 || sync_path(dir) < 0)
		return -errno;
	(void)remove_tree(tmp);
	if (limit)
		prune(dir, key, limit);
	return 0;
}

void layer_clean(const char *dir)
{
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		_cleanup_close_ int fd = -1;
		char path[PATH_MAX];

		if (strncmp(e->d_name, ".tmp-", 5) != 0 || path_of(path, dir, "", e->d_name) < 0)
			continue;
		fd = lock(path);
		if (fd >= 0)
			(void)remove_tree(path);
	}
	if (d)
		closedir(d);
}
