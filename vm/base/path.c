/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text, and creating the directories they lead through. */
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "util.h"

/* Return: how much of @path names @dir and ends where a part of it ends, or 0. */
static size_t common(const char *path, const char *dir)
{
	const size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0') ? len + 1
										       : 0;
}

bool path_is_below(const char *path, const char *dir)
{
	const size_t n = common(path, dir);

	return n && path[n - 1] && path[n];
}

bool path_is_within(const char *path, const char *dir)
{
	return common(path, dir);
}

int path_join(char path[PATH_MAX], const char *dir, const char *prefix, const char *name)
{
	return snprintf(path, PATH_MAX, "%s/%s%s", dir, prefix, name) < PATH_MAX ? 0
										 : -ENAMETOOLONG;
}

FILE *path_open(const char *root, const char *path)
{
	char whole[PATH_MAX];

	if (snprintf(whole, sizeof(whole), "%s%s", root, path) >= (int)sizeof(whole)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	return fopen(whole, "re");
}

static int make_one(const char *path, mode_t mode)
{
	return mkdir(path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

/* Who may not read the directory above can't tell the disk either. */
static int sync_above(const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *above = !slash	     ? strdup(".")
				     : slash == path ? strdup("/")
						     : strndup(path, (size_t)(slash - path));
	_cleanup_close_ int fd = above ? open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (!above)
		return -ENOMEM;
	return fd >= 0 && fsync(fd) < 0 ? -errno : 0;
}

static int make_kept(const char *path, mode_t mode)
{
	if (mkdir(path, mode) < 0)
		return errno == EEXIST ? 0 : -errno;
	return sync_above(path);
}

static int make_all(const char *path, mode_t mode, int (*make)(const char *path, mode_t mode))
{
	_cleanup_free_ char *part = strdup(path);
	int r = part ? 0 : -ENOMEM;

	for (char *slash = r == 0 ? strchr(part + 1, '/') : NULL; slash && r == 0;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		r = make(part, mode);
		*slash = '/';
	}
	return r == 0 ? make(path, mode) : r;
}

int path_make(const char *path, mode_t mode)
{
	return make_all(path, mode, make_one);
}

int path_make_kept(const char *path, mode_t mode)
{
	return make_all(path, mode, make_kept);
}

int path_make_in(int dir, const char *name)
{
	int fd;

	if (mkdirat(dir, name, 0700) == 0) {
		if (fsync(dir) < 0)
			return -errno;
	} else if (errno != EEXIST) {
		return -errno;
	}
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int path_make_shared(const char *dir)
{
	return make_one(dir, S_ISVTX | 0700);
}

void path_leave_shared(const char *dir)
{
	struct stat st;

	if (lstat(dir, &st) == 0 && (st.st_mode & (S_ISVTX | 077)) == S_ISVTX)
		(void)rmdir(dir);
}
