/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard and the spawner put in order when the daemon is gone: the mount, and its runtime directory. */
#include "guarded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vm/base/path.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * Guard and spawner may act late, when a new daemon has mounted at the same mountpoint, with a
 * runtime directory of the same name, or the same one. The two mounts can't be told apart by number
 * alone, because the kernel reuses numbers. But who mounts there has taken the lock in that
 * directory before. And what is mounted there is not asked itself, which might never answer: the
 * kernel's table says it.
 */

#define LOCK "lock" /* which mountpoint_claim() takes */

static bool look_there(const char *mountpoint, char ret_device[MOUNT_DEVICE_MAX])
{
	_cleanup_close_ int fd = open(MOUNT_TABLE, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *table = fd >= 0 ? mount_table_read(fd) : NULL;

	return table && mount_table_at(table, mountpoint, ret_device) &&
	       mount_table_has_type(table, ret_device, "fuse.xsbxfs");
}

void guarded_mounted(struct guarded *g, const char *mountpoint)
{
	snprintf(g->mountpoint, sizeof(g->mountpoint), "%s", mountpoint ? mountpoint : "");
	(void)look_there(g->mountpoint, g->device);
}

/* What is there now may be somebody else's, made after ours was detached. */
static bool is_ours(const struct guarded *g)
{
	char device[MOUNT_DEVICE_MAX] = "";

	return look_there(g->mountpoint, device) && strcmp(device, g->device) == 0;
}

void guarded_unmount(const struct guarded *g)
{
	pid_t pid;

	if (!g->mountpoint[0] || (g->device[0] && !is_ours(g)))
		return;
	/* The connection goes at once, whoever still has files open. */
	if (umount2(g->mountpoint, MNT_FORCE) == 0 || umount2(g->mountpoint, MNT_DETACH) == 0)
		return;
	pid = fork();
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-uzq", "--", g->mountpoint, (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

/* Has a successor of ours what we had? Return: false, with a lock that keeps it like that unless
 * one of ours has it still. */
static bool is_taken(const struct guarded *g, int *ret_lock)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX + 8], pid[16] = "";
	struct stat ours, named;

	if (!g->runtime_dir[0])
		return false;
	snprintf(path, sizeof(path), "%s/" LOCK, g->runtime_dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0)
		return false;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return read(fd, pid, sizeof(pid) - 1) <= 0 || atoi(pid) != g->guard;
	/* A directory that was removed before we had its lock says nothing about one of now. */
	if (fstat(fd, &ours) < 0 || lstat(path, &named) < 0 || ours.st_ino != named.st_ino ||
	    ours.st_dev != named.st_dev)
		return true;
	*ret_lock = steal_fd(&fd);
	return false;
}

void guarded_leave(const struct guarded *g)
{
	_cleanup_close_ int lock = -1;
	char parent[PATH_MAX], *slash;

	if (!g->runtime_dir[0] || is_taken(g, &lock))
		return;
	remove_tree_at_once(g->runtime_dir);
	memcpy(parent, g->runtime_dir, sizeof(parent));
	slash = strrchr(parent, '/');
	if (!slash || slash == parent)
		return;
	*slash = '\0';
	path_leave_shared(parent);
}

void guarded_detach_dead(const struct guarded *g)
{
	_cleanup_close_ int lock = -1;

	/* A successor's mount may have the same device number. */
	if (g->device[0] && !is_taken(g, &lock))
		guarded_unmount(g);
}

void guarded_clean(const struct guarded *g)
{
	guarded_detach_dead(g);
	guarded_leave(g);
}
