/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the disk usage of directories, even while they are being changed. */
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "vm/base/io.h"

/*
 * The content of the directory may be malicious. So names are followed from one open directory to
 * the next, without paths that could get too long, and with a fixed number of descriptors at any
 * depth.
 */
#define DEPTH_MAX 128u

struct walk {
	DIR *dir[DEPTH_MAX]; /* from the top to where it is now */
	unsigned depth;
	dev_t device;
	bool hidden; /* there was a directory that may not be read */
};

static int add(struct measure *m, struct walk *w, int dir, const char *name)
{
	struct stat st;

	/* What has vanished counts as well, or somebody who removes as fast as he makes keeps us here. */
	if (m->most && m->files >= m->most)
		return -E2BIG;
	m->files++;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != w->device)
		return 0;
	m->bytes += (uint64_t)st.st_blocks * 512 /
		    (S_ISDIR(st.st_mode) || !st.st_nlink ? 1 : st.st_nlink);
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (w->depth == DEPTH_MAX)
		return -E2BIG;
	w->dir[w->depth] = fileio_list(dir, name);
	if (w->dir[w->depth]) {
		w->depth++;
		return 0;
	}
	/* The rest is counted all the same: whoever only looks whether it is too much needs no more. */
	w->hidden |= errno == EACCES;
	return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

int measure_tree(struct measure *m, const char *path)
{
	struct walk w = {.depth = 0};
	const struct dirent *e;
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return -errno;
	w.device = st.st_dev;
	r = add(m, &w, AT_FDCWD, path);
	while (r == 0 && w.depth) {
		DIR *dir = w.dir[w.depth - 1];

		e = readdir(dir);
		if (e && !is_dots(e->d_name))
			r = add(m, &w, dirfd(dir), e->d_name);
		else if (!e)
			closedir(w.dir[--w.depth]);
	}
	while (w.depth)
		closedir(w.dir[--w.depth]);
	return r == 0 && w.hidden ? -EACCES : r;
}
