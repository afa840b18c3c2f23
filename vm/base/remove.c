/* SPDX-License-Identifier: Apache-2.0 */
/* Removes directories. */
#include "remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "util.h"

/*
 * Untrusted trees may be nested so deeply that no path can name the innermost directory, and no process can
 * hold a descriptor for each level. So names are followed from one open directory to the next, and
 * directories below the limit are moved to the top, to be removed later.
 */
#define DEPTH_MAX 64u
#define MOVED_MAX 16u /* names that are tried for what is moved */

struct removal {
	DIR *dir[DEPTH_MAX]; /* from the top to where it is now */
	char name[DEPTH_MAX][NAME_MAX + 1];
	unsigned depth;
	dev_t device;
	uint64_t moved; /* the last name that was tried; begins anywhere */
	bool again;	/* the top has got more since it was read */
};

/*
 * To the top. What was left there by one that did not come to its end, or was put there to be in the way, has
 * such names as well; those of this one begin where nobody can know.
 */
static int move_up(struct removal *rm, int from, const char *name)
{
	char to[32];

	if (!rm->moved && getrandom(&rm->moved, sizeof(rm->moved), 0) < 0)
		return -errno;
	for (unsigned i = 0; i < MOVED_MAX; i++) {
		snprintf(to, sizeof(to), ".moved-%016" PRIx64, ++rm->moved);
		if (renameat(from, name, dirfd(rm->dir[0]), to) == 0) {
			rm->again = true;
			return 0;
		}
		if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
			return -errno;
	}
	return -ENOTEMPTY; /* not -EEXIST, which says something else of what is being made */
}

static int enter(struct removal *rm, int from, const char *name)
{
	DIR *dir = fileio_list(from, name);

	if (!dir)
		return -errno;
	/* That of the top is a path, and known to the caller. */
	snprintf(rm->name[rm->depth], sizeof(rm->name[0]), "%s", rm->depth ? name : "");
	rm->dir[rm->depth++] = dir;
	return 0;
}

static int remove_one(struct removal *rm, int from, const char *name)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(from, name, 0) < 0 ? -errno : 0;
	if (!rm->depth)
		rm->device = st.st_dev;
	/* What is mounted there is not ours; its place can't go then, and that is said. */
	if (st.st_dev != rm->device)
		return unlinkat(from, name, AT_REMOVEDIR) < 0 ? -errno : 0;
	return rm->depth == DEPTH_MAX ? move_up(rm, from, name) : enter(rm, from, name);
}

/* The directory where it is now has been read to its end. */
static int leave(struct removal *rm, const char *path)
{
	const unsigned i = rm->depth - 1;
	int r;

	if (i == 0 && rm->again) {
		rm->again = false;
		rewinddir(rm->dir[0]);
		return 0;
	}
	closedir(rm->dir[i]);
	rm->depth--;
	r = i ? unlinkat(dirfd(rm->dir[i - 1]), rm->name[i], AT_REMOVEDIR) : rmdir(path);
	return r < 0 ? -errno : 0;
}

int remove_tree(const char *path)
{
	struct removal rm = {.depth = 0};
	int r = remove_one(&rm, AT_FDCWD, path);

	while (r == 0 && rm.depth) {
		DIR *dir = rm.dir[rm.depth - 1];
		const struct dirent *e = readdir(dir);

		if (!e)
			r = leave(&rm, path);
		else if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = remove_one(&rm, dirfd(dir), e->d_name);
	}
	while (rm.depth)
		closedir(rm.dir[--rm.depth]);
	return r;
}

void remove_abandoned(const char *dir, const char *prefix, unsigned age_s)
{
	_cleanup_dir_ DIR *d = opendir(dir);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		_cleanup_close_ int fd = -1;
		char path[PATH_MAX];
		struct stat st;

		if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 ||
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= (int)sizeof(path))
			continue;
		fd = fileio_lock(path);
		if (fd >= 0 && fstat(fd, &st) == 0 &&
		    (!age_s || time(NULL) - st.st_mtim.tv_sec >= age_s))
			(void)remove_tree(path);
	}
}

int remove_tree_at_once(const char *path)
{
	char away[PATH_MAX];
	const int n = snprintf(away, sizeof(away), "%s" REMOVE_GONE "%d", path, (int)getpid());
	int lock = fileio_lock(path), r; /* not for remove_abandoned() */

	if (n < 0 || (size_t)n >= sizeof(away) || rename(path, away) < 0)
		r = remove_tree(path);
	else
		r = remove_tree(away);
	cleanup_close(&lock);
	return r;
}
