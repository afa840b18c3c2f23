/* SPDX-License-Identifier: Apache-2.0 */
/* Storage quotas of user code: the sizes of tmpfs mounts. */
#include "quota.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "agent/core/guest_env.h"
#include "agent/core/util.h"

#define INODES_DEFAULT 65536u
#define WIPE_DEPTH     32u

/* What was set last. */
struct quota {
	bool done;
	uint64_t files, tmp;
	uint32_t files_inodes, tmp_inodes;
};

static struct quota set;

static int remount(const char *dir, unsigned long flags, uint64_t bytes, uint32_t inodes)
{
	char options[64];

	if (bytes == 0)
		bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
	if (bytes < 4096)
		bytes = 4096; /* 0 would mean: no limit */
	snprintf(options, sizeof(options), "size=%" PRIu64 ",nr_inodes=%" PRIu32, bytes,
		 inodes ? inodes : INODES_DEFAULT);
	return mount(NULL, dir, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV | flags, options) < 0
		       ? -errno
		       : 0;
}

int quota_set(const struct guest_env *env, uint64_t files_bytes, uint64_t tmp_bytes,
	      uint32_t files_inodes, uint32_t tmp_inodes)
{
	int r;

	if (!env->guest && !env->jail)
		return 0;
	/* A clone's are mostly those of the machine it was copied from. */
	if (set.done && set.files == files_bytes && set.tmp == tmp_bytes &&
	    set.files_inodes == files_inodes && set.tmp_inodes == tmp_inodes)
		return 0;
	set.done = false;
	r = remount(env->store ? env->store : env->work, 0, files_bytes, files_inodes);
	if (r == 0)
		r = remount("/tmp", 0, tmp_bytes, tmp_inodes);
	if (r == 0)
		r = remount("/dev/shm", MS_NOEXEC, tmp_bytes, tmp_inodes);
	set = (struct quota){r == 0, files_bytes, tmp_bytes, files_inodes, tmp_inodes};
	return r;
}

/* What lies deeper than WIPE_DEPTH stays: whoever hid it there will find his session closed. */
static void wipe(int dir, unsigned depth)
{
	_cleanup_dir_ DIR *d = fdopendir(dir);
	struct dirent *e;

	if (!d)
		close(dir);
	while (d && (e = readdir(d))) {
		int fd;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dir, e->d_name, 0) == 0)
			continue;
		fd = depth < WIPE_DEPTH ? openat(dir, e->d_name,
						 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
					: -1;
		if (fd >= 0)
			wipe(fd, depth + 1);
		(void)unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
}

void quota_wipe(const struct guest_env *env)
{
	static const char *const dirs[] = {"/tmp", "/dev/shm"};

	for (size_t i = 0; env->guest && i < ARRAY_SIZE(dirs); i++) {
		int fd = open(dirs[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0)
			wipe(fd, 0);
	}
}
