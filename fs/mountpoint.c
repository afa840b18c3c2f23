/* SPDX-License-Identifier: Apache-2.0 */
/* The mountpoint. See mountpoint.h. */
#include "mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

#include "vm/base/hash.h"
#include "vm/base/log.h"
#include "vm/base/mount_table.h"
#include "vm/base/path.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

/* How long a dying instance is waited for at least. */
#define CLAIM_MS       2000u
#define CLAIM_PAUSE_MS 50u

#define ENDS	       "ends" /* in the lock, behind the process */

static void detach(const char *path)
{
	const char *argv[] = {"fusermount3", "-u", "-z", "-q", "--", path, NULL};
	pid_t pid;

	if (umount2(path, MNT_DETACH) == 0)
		return;
	if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ) == 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
}

/* As stat(2), but a mount whose daemon is dead fails although the kernel still knows its attributes. */
static int stat_live(const char *path, struct stat *ret_st)
{
	struct statfs fs;

	return stat(path, ret_st) < 0 || statfs(path, &fs) < 0 ? -1 : 0;
}

int mountpoint_prepare(const char *path, char *ret_why, size_t why_size)
{
	struct stat st;

	/* More than one may have been stacked up. */
	for (int i = 0; i < 8; i++) {
		if (stat_live(path, &st) == 0) {
			if (S_ISDIR(st.st_mode))
				return 0;
			snprintf(ret_why, why_size, "%s is not a directory", path);
			return -ENOTDIR;
		}
		if (errno != ENOTCONN)
			break;
		log_info("detaching the dead mount on %s", path);
		detach(path);
	}
	snprintf(ret_why, why_size, "%s: %s%s", path, strerror(errno),
		 errno == ENOENT ? "; make it: mkdir -p it" : "");
	return -errno;
}

int mountpoint_check(const char *path, const struct mountpoint_use *uses, size_t n, char *ret_why,
		     size_t why_size)
{
	char real[PATH_MAX];

	for (size_t i = 0; i < n; i++) {
		const struct mountpoint_use *u = &uses[i];

		/* What does not exist yet is taken by its name. */
		if (!u->path || !strchr(u->path, '/'))
			continue;
		if (!realpath(u->path, real))
			snprintf(real, sizeof(real), "%s", u->path);
		if (path_is_within(real, path))
			snprintf(ret_why, why_size,
				 "cannot mount on %s: %s is there (%s), and would be hidden by the "
				 "mount; choose an empty directory of its own",
				 path, u->what, real);
		else if (u->inside && path_is_within(path, real))
			snprintf(ret_why, why_size,
				 "cannot mount on %s: it lies in %s (%s); choose a directory "
				 "elsewhere",
				 path, u->what, real);
		else
			continue;
		return -EBUSY;
	}
	return 0;
}

char *mountpoint_directory(const char *parent, const char *path)
{
	const char *tail = path;
	size_t len = strlen(path);
	char *dir;

	if (len > 64)
		tail += len - 64;
	/* Two mountpoints whose readable parts agree still differ. */
	if (asprintf(&dir, "%s/%08x%s", parent, hash_str(path), tail) < 0)
		return NULL;
	for (char *p = dir + strlen(parent) + 1; *p; p++)
		if (*p == '/')
			*p = '-';
	return dir;
}

/* Is it a directory of ours in which nobody else can make anything? */
static int check_private(const char *dir)
{
	struct stat st;

	if (lstat(dir, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
		return -EPERM;
	return 0;
}

/* Return: 0, -EBUSY while another has it, -EAGAIN if it is being removed just now, -errno. */
static int try_lock(const char *parent, const char *dir, const char *path, int *ret_lock)
{
	_cleanup_close_ int fd = -1;
	struct stat ours, named;
	int e = path_make_shared(parent);

	if (e < 0)
		return e;
	e = check_private(parent);
	if (e < 0) /* or the last mount has just taken it away again */
		return e == -ENOENT ? -EAGAIN : e;
	e = mkdir(dir, 0700) < 0 && errno != EEXIST ? -errno : check_private(dir);
	if (e < 0)
		return e == -ENOENT ? -EAGAIN : e;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	/* An instance that ends takes the directory away before it lets go of the lock. */
	if (fstat(fd, &ours) < 0 || lstat(path, &named) < 0 || ours.st_ino != named.st_ino ||
	    ours.st_dev != named.st_dev)
		return -EAGAIN;
	/* For the next instance's message. */
	if (ftruncate(fd, 0) == 0)
		dprintf(fd, "%d\n", (int)getpid());
	*ret_lock = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return *ret_lock < 0 ? -errno : 0;
}

/* Who has the lock, as it wrote itself down. */
struct holder {
	int pid; /* or 0 */
	bool ends;
};

static struct holder lock_holder(const char *dir)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_file_ FILE *f = NULL;
	struct holder h = {0};
	char ends = 0;

	if (asprintf(&path, "%s/lock", dir) < 0)
		path = NULL;
	f = path ? fopen(path, "re") : NULL;
	if (!f || fscanf(f, "%d %c", &h.pid, &ends) < 1 || h.pid < 0)
		h.pid = 0;
	h.ends = ends == ENDS[0];
	return h;
}

void mountpoint_ends(const char *dir)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&path, "%s/lock", dir) < 0)
		path = NULL;
	fd = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (fd < 0 || dprintf(fd, ENDS "\n") < 0)
		log_warn("who mounts here next is not told that this one ends: %s",
			 strerror(errno));
}

/* Is anything mounted there, alive or dead? If that is not known, it is. */
static bool is_mounted(const char *path)
{
	_cleanup_close_ int fd = open(MOUNT_TABLE, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *table = fd < 0 ? NULL : mount_table_read(fd);
	char device[MOUNT_DEVICE_MAX];

	return !table || mount_table_at(table, path, device);
}

/* @ending_ms: as long is one waited for that says it ends, or is not mounted at @at any more. */
static int lock(const char *parent, const char *dir, const char *at, unsigned ending_ms,
		int *ret_lock)
{
	const struct timespec pause = {.tv_nsec = CLAIM_PAUSE_MS * 1000000};
	_cleanup_free_ char *path = NULL;
	int e;

	if (asprintf(&path, "%s/lock", dir) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	for (unsigned ms = 0;; ms += CLAIM_PAUSE_MS) {
		e = try_lock(parent, dir, path, ret_lock);
		if (e != -EBUSY && e != -EAGAIN)
			return e;
		if (ms >= CLAIM_MS &&
		    (ms >= ending_ms || (!lock_holder(dir).ends && is_mounted(at))))
			return e;
		nanosleep(&pause, NULL);
	}
}

static void say_busy(const char *path, struct holder h, char *ret_why, size_t why_size)
{
	int n;

	if (h.ends) {
		snprintf(ret_why, why_size,
			 "the xsbxfs that was mounted on %s is still ending; wait until it has "
			 "ended (process %d)",
			 path, h.pid);
		return;
	}
	n = snprintf(ret_why, why_size,
		     "another xsbxfs is mounted on %s; end it first: fusermount3 -u %s", path,
		     path);
	/* Detached (fusermount3 -uz), it is there as long as somebody has files open. */
	if (h.pid && n > 0 && (size_t)n < why_size)
		snprintf(ret_why + n, why_size - (size_t)n,
			 ", or, if it is unmounted already and waits for open files to be "
			 "closed: kill %d",
			 h.pid);
}

/* One that was there before was killed while it removed this. */
static void clear_gone(const char *parent, const char *dir)
{
	char prefix[PATH_MAX];

	snprintf(prefix, sizeof(prefix), "%s" REMOVE_GONE, strrchr(dir, '/') + 1);
	remove_abandoned(parent, prefix, 0);
}

int mountpoint_claim(const char *parent, const char *path, unsigned ending_ms, char **ret_dir,
		     int *ret_lock, char *ret_why, size_t why_size)
{
	_cleanup_free_ char *dir = mountpoint_directory(parent, path);
	int e = dir ? lock(parent, dir, path, ending_ms, ret_lock) : -ENOMEM;

	if (e == -EBUSY)
		say_busy(path, lock_holder(dir), ret_why, why_size);
	else if (e < 0)
		snprintf(ret_why, why_size, "runtime directory %s: %s", dir ? dir : parent,
			 e == -EPERM ? "not a private directory of this user" : strerror(-e));
	if (e < 0)
		return e;

	clear_gone(parent, dir);
	*ret_dir = steal_ptr(dir);
	return e;
}
