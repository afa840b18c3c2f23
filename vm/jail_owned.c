/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that a jail may write to with the rights of their owner on the host: id-mapped mounts. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jail_internal.h"
#include "spawner_wire.h"
#include "util.h"

/*
 * Theory of operation
 * -------------------
 * As root, a sandbox has an id on the host that owns nothing. To let it work in a directory of its
 * owner's, the directory is mounted for it in such a way that the owner's id on the disk and the
 * sandbox's id are the same: what it makes there belongs to the owner, and where the owner may
 * write, it may. Files of anybody else, root among them, it can read at most.
 *
 * Only who is root on the file system may make such a mount, so the spawner makes it, before the
 * child exists, and the child inherits it. The kernel takes the pair of ids from a user namespace
 * that somebody has to be in when it is made: a process that lives as long as that takes.
 *
 * Without ids of its own, the sandbox has the daemon's id, and needs nothing of this.
 */

static int mapped[JAIL_MOUNTS_MAX];
static uint32_t nmapped;

int jail_open_source(const struct jail_mount *m)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = m->flags & JAIL_NO_LINKS ? RESOLVE_NO_SYMLINKS : 0};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, m->source, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static int write_map(pid_t pid, const char *name, uint32_t owner, uint32_t inside)
{
	_cleanup_close_ int fd = -1;
	char path[64], text[64];
	int n = snprintf(text, sizeof(text), "%u %u 1\n", owner, inside);

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)n) < 0)
		return -errno;
	return 0;
}

static int map_and_open(const struct jail_spec *spec, pid_t pid, uint32_t inside)
{
	char path[64];
	int r = write_map(pid, "uid_map", spec->owner, inside), fd;

	if (r == 0)
		r = write_map(pid, "gid_map", spec->owner_group, inside);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Return: a user namespace in which the owner's id stands for @inside, or -errno. */
static int make_map(const struct jail_spec *spec, uint32_t inside)
{
	struct clone_args args = {.exit_signal = SIGCHLD, .flags = CLONE_NEWUSER};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	int fd;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		for (;;)
			pause(); /* with all signals blocked, but for the one that ends it */
	}
	fd = map_and_open(spec, pid, inside);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return fd;
}

/* Return: a detached mount of @m, with the ids of @map, or -errno. */
static int mount_mapped(const struct jail_mount *m, int map)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID |
					      MOUNT_ATTR_NODEV |
					      (m->kind == JAIL_RO ? MOUNT_ATTR_RDONLY : 0u),
				  .userns_fd = (unsigned)map};
	_cleanup_close_ int source = jail_open_source(m), tree = -1;
	int fd;

	if (source < 0)
		return source;
	tree = open_tree(source, "",
			 AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree < 0)
		return -errno;
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return errno == EINVAL ? -EOPNOTSUPP : -errno; /* of the file system */
	/* Out of the way of the child's descriptors. */
	fd = fcntl(tree, F_DUPFD_CLOEXEC, SPAWN_TARGET_MAX);
	return fd < 0 ? -errno : fd;
}

static int open_all(const struct jail_spec *spec, int map, struct jail_fault *fault)
{
	for (; nmapped < spec->nmounts; nmapped++) {
		const struct jail_mount *m = &spec->mounts[nmapped];
		int fd = -1;

		if (m->flags & JAIL_OWNED)
			fd = mount_mapped(m, map);
		if ((m->flags & JAIL_OWNED) && fd < 0)
			return jail_fault_set(fault, JAIL_STEP_OWNED, fd, m->source);
		mapped[nmapped] = fd;
	}
	return 0;
}

int jail_owned_open(const struct jail_spec *spec, const struct jail_cell *cell,
		    struct jail_fault *fault)
{
	_cleanup_close_ int map = -1;
	bool any = false;

	nmapped = 0;
	for (uint32_t i = 0; i < spec->nmounts; i++)
		any = any || (spec->mounts[i].flags & JAIL_OWNED);
	if (!any || !cell->private_ids)
		return 0;
	map = make_map(spec, jail_user_id(spec, cell));
	if (map < 0)
		return jail_fault_set(fault, JAIL_STEP_OWNED, map, "");
	return open_all(spec, map, fault);
}

int jail_owned_take(uint32_t i)
{
	return i < nmapped ? steal_fd(&mapped[i]) : -1;
}

void jail_owned_close(void)
{
	while (nmapped > 0) {
		nmapped--;
		if (mapped[nmapped] >= 0)
			close(mapped[nmapped]);
	}
}
