/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: cleans up the mount point and the runtime directory when no other process is left to do it. */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "vm/jail/cell.h"
#include "vm/jail/cgroup.h"
#include "vm/base/log.h"
#include "vm/base/path.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The daemon has confined itself, and cannot detach a mount; the spawner does it, even if the daemon was
 * killed. The guard is the spawner's parent, and does it if both were killed: it waits for the daemon's
 * end, which is the end of file of a pipe, and for the spawner's, and checks whether it exited normally.
 * The pipe also transports the daemon's messages for the system's log, to which the daemon can't connect
 * any more. The guard does nothing else, and needs a few pages of memory.
 *
 * Both may act late, when a new daemon has mounted at the same mountpoint, with a runtime directory of the
 * same name, or the same one. The two mounts can't be told apart by number, because the kernel reuses
 * numbers. But a daemon that mounts there has taken the lock in that directory before.
 */

#define LOCK "lock" /* which mountpoint_claim() takes */

static pid_t daemon_pid;

void guard_set(struct guarded *g, const char *mountpoint, const char *runtime_dir)
{
	snprintf(g->mountpoint, sizeof(g->mountpoint), "%s", mountpoint ? mountpoint : "");
	snprintf(g->runtime_dir, sizeof(g->runtime_dir), "%s", runtime_dir ? runtime_dir : "");
}

void guard_unmount(const struct guarded *g)
{
	pid_t pid;

	if (!g->mountpoint[0])
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

/* Has a successor of the daemon's what it had? Return: false, with a lock that keeps it like that unless the
 * daemon itself has it still. */
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
		return read(fd, pid, sizeof(pid) - 1) <= 0 || atoi(pid) != daemon_pid;
	/* A directory that was removed before we had its lock says nothing about one of now. */
	if (fstat(fd, &ours) < 0 || lstat(path, &named) < 0 || ours.st_ino != named.st_ino ||
	    ours.st_dev != named.st_dev)
		return true;
	*ret_lock = steal_fd(&fd);
	return false;
}

void guard_leave(const struct guarded *g)
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

static void detach_dead(const struct guarded *g)
{
	_cleanup_close_ int lock = -1;
	struct statfs fs;

	/* If nobody answers, the mount is ours, and dead. If somebody does, it is somebody else's, made
	 * after the daemon unmounted in good order. */
	if (g->mountpoint[0] && !is_taken(g, &lock) && statfs(g->mountpoint, &fs) < 0 &&
	    (errno == ENOTCONN || errno == ECONNABORTED))
		guard_unmount(g);
}

void guard_clean(const struct guarded *g)
{
	detach_dead(g);
	guard_leave(g);
}

int guard_isolate(int fd, const char *name)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	setsid();
	prctl(PR_SET_NAME, name);
	if (chdir("/") < 0)
		return -errno;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0)
		return -errno;
	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
		if (dup2(null, i) < 0)
			return -errno;
	}
	close_range(STDERR_FILENO + 1, (unsigned)fd - 1, 0);
	close_range((unsigned)fd + 1, ~0u, 0);
	return fd;
}

__attribute__((noreturn)) static void serve(const struct guarded *g, pid_t spawner, int tie)
{
	int status = 0;

	tie = guard_isolate(tie, "xsbxfs-guard");
	if (tie >= 0)
		log_serve(tie, daemon_pid);
	while (waitpid(spawner, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		guard_clean(g);
		jail_cgroup_sweep();
	}
	_exit(0);
}

/* The guard says on @tell who the spawner is. */
static pid_t fork_both(struct guarded *g, int tie, int tell)
{
	pid_t guard = fork(), spawner;

	if (guard < 0)
		return -errno;
	if (guard > 0)
		return guard;
	spawner = fork();
	if (spawner == 0)
		return 0;
	if (spawner < 0 || write(tell, &spawner, sizeof(spawner)) != sizeof(spawner))
		_exit(1);
	serve(g, spawner, tie);
}

static pid_t start(struct guarded *g, int tie[2], int tell[2], pid_t *ret_spawner)
{
	pid_t guard = fork_both(g, tie[0], tell[1]);

	if (guard == 0)
		return 0;
	close(tie[0]);
	close(tell[1]);
	if (guard > 0 && read(tell[0], ret_spawner, sizeof(*ret_spawner)) != sizeof(*ret_spawner)) {
		waitpid(guard, NULL, 0);
		guard = -EAGAIN;
	}
	close(tell[0]);
	if (guard < 0)
		close(tie[1]);
	return guard;
}

pid_t guard_start(struct guarded **ret_guarded, int *ret_tie, pid_t *ret_spawner)
{
	struct guarded *g =
		mmap(NULL, sizeof(*g), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int tie[2], tell[2];
	pid_t pid;

	if (g == MAP_FAILED)
		return -errno;
	daemon_pid = getpid();
	jail_instance_begin(daemon_pid);
	if (pipe2(tie, O_CLOEXEC) < 0) {
		pid = -errno;
	} else if (pipe2(tell, O_CLOEXEC) < 0) {
		pid = -errno;
		close(tie[0]);
		close(tie[1]);
	} else {
		pid = start(g, tie, tell, ret_spawner);
	}
	*ret_guarded = g;
	*ret_tie = tie[1];
	if (pid != 0)
		munmap(g, sizeof(*g));
	return pid;
}
