/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups of daemons that were killed together with everybody who would have cleared up. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cgroup.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A spawner holds a lock on its group as long as it lives. Whoever makes a group of his own looks at
 * those beside it, and removes what nobody has locked. A group that still has processes can't be
 * removed, and stays for the next one.
 */

#define CLAIM_TRIES    50
#define SWEEP_TRIES    100
#define SWEEP_PAUSE_NS 10000000

/* Removes the groups in a group once their processes are gone, for which it waits a little, @tries
 * times for each, and then itself. */
static void remove_group(int parent, const char *name, int dir, unsigned tries)
{
	const struct timespec pause = {0, SWEEP_PAUSE_NS};
	int copy = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	if (!list) {
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((e = readdir(list))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		for (unsigned i = 0; unlinkat(dir, e->d_name, AT_REMOVEDIR) < 0; i++) {
			if (errno != EBUSY || i + 1 >= tries)
				break;
			nanosleep(&pause, NULL);
		}
	}
	closedir(list);
	(void)unlinkat(parent, name, AT_REMOVEDIR);
}

void cgroup_sweep_one(int parent, const char *name)
{
	_cleanup_close_ int dir =
		openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir >= 0)
		remove_group(parent, name, dir, SWEEP_TRIES);
}

void cgroup_sweep_dead(int parent, const char *ours)
{
	int top = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = top < 0 ? NULL : fdopendir(top);
	const struct dirent *e;

	if (!list) {
		if (top >= 0)
			close(top);
		return;
	}
	while ((e = readdir(list))) {
		_cleanup_close_ int dir = -1;

		if (strncmp(e->d_name, JAIL_GROUP_PREFIX, strlen(JAIL_GROUP_PREFIX)) != 0 ||
		    strcmp(e->d_name, ours) == 0)
			continue;
		dir = openat(parent, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
			remove_group(parent, e->d_name, dir, 1);
	}
	closedir(list);
}

/* Is what we have open still what has this name? */
static bool still_there(int parent, const char *name, int dir)
{
	struct stat named, opened;

	return fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(dir, &opened) == 0 && named.st_ino == opened.st_ino;
}

int cgroup_sweep_claim(int parent, const char *name)
{
	const struct timespec pause = {0, 1000000};

	for (int i = 0; i < CLAIM_TRIES; i++) {
		_cleanup_close_ int dir = -1;

		if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		/* Another may have come in between, found no lock, and removed it. */
		if (dir >= 0 && flock(dir, LOCK_SH | LOCK_NB) == 0 &&
		    still_there(parent, name, dir))
			return steal_fd(&dir);
		if (dir < 0 && errno != ENOENT)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return -EAGAIN;
}
