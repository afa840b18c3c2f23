/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing up when nobody else is left to do it: the mount point and the runtime directory. */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "jail_internal.h"
#include "path.h"
#include "remove.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * The daemon has confined itself, and cannot detach a mount; the spawner does it, also for a daemon
 * that was killed. The guard is the spawner's parent, and does it for both: it waits for the
 * spawner's end, and if that was not in good order, for the daemon's, which is the end of file of a
 * pipe. It does nothing else, and needs a few pages of memory.
 */

static pid_t daemon_pid;

pid_t guard_daemon(void)
{
	return daemon_pid;
}

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

void guard_leave(const struct guarded *g)
{
	char parent[PATH_MAX], *slash;

	if (!g->runtime_dir[0])
		return;
	remove_tree_at_once(g->runtime_dir);
	memcpy(parent, g->runtime_dir, sizeof(parent));
	slash = strrchr(parent, '/');
	if (!slash || slash == parent)
		return;
	*slash = '\0';
	path_leave_shared(parent);
}

void guard_clean(const struct guarded *g)
{
	struct statfs fs;

	/* If nobody answers, the mount is ours, and dead. If somebody does, it is a new one, made
	 * after the daemon unmounted in good order. */
	if (g->mountpoint[0] && statfs(g->mountpoint, &fs) < 0 &&
	    (errno == ENOTCONN || errno == ECONNABORTED))
		guard_unmount(g);
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
	char byte;

	tie = guard_isolate(tie, "xsbxfs-guard");
	while (waitpid(spawner, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		while (tie >= 0 && read(tie, &byte, 1) < 0 && errno == EINTR)
			;
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
	(void)jail_lot(); /* the same in guard and spawner */
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
