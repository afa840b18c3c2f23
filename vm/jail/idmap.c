/* SPDX-License-Identifier: Apache-2.0 */
/* Id-mapped mounts: paths that a jail may write to with the permissions of their owner on the host. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "internal.h"
#include "source.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * If the daemon is root, a sandbox has an id on the host that owns nothing. To let it work in a directory
 * of its owner, the directory is mounted such that the owner's id on the disk is mapped to the sandbox's
 * id: files that it makes there belong to the owner, and it may write where the owner may. Files of
 * others, including root, it can at most read.
 *
 * Only root of the file system may make such a mount, so the spawner makes it before the child exists,
 * and the child inherits it. The kernel takes the id mapping from a user namespace, which needs a
 * process to exist: one that lives just long enough.
 *
 * So the spawner also has to open the directory, and wait for a server that may not answer: see
 * source.c.
 *
 * Without its own ids, the sandbox has the daemon's id, and needs none of this.
 */

static int mapped[JAIL_MOUNTS_MAX];
static uint32_t nmapped;

/* Which ids of the disk stand for which of the host's. */
struct idmap {
	uint32_t owner, group; /* these two for @inside */
	uint32_t inside;
	bool groups; /* all other groups for themselves */
};

int jail_map_write(pid_t pid, const char *name, const char *text)
{
	_cleanup_close_ int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

void jail_child_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Lines for all ids but @a and @b. */
static void add_others(char *text, size_t size, uint32_t a, uint32_t b)
{
	const uint32_t gaps[] = {MIN(a, b), MAX(a, b), UINT32_MAX}; /* the last one is no id */
	uint32_t next = 0;

	for (size_t i = 0; i < ARRAY_SIZE(gaps); i++) {
		const size_t len = strlen(text);

		if (gaps[i] > next)
			snprintf(text + len, size - len, "%u %u %u\n", next, next, gaps[i] - next);
		next = gaps[i] + 1;
	}
}

static int write_maps(pid_t pid, const struct idmap *m)
{
	char one[64], all[256];
	int r;

	snprintf(one, sizeof(one), "%u %u 1\n", m->owner, m->inside);
	r = jail_map_write(pid, "uid_map", one);
	if (r < 0)
		return r;
	snprintf(one, sizeof(one), "%u %u 1\n", m->group, m->inside);
	memcpy(all, one, sizeof(one));
	if (m->groups)
		add_others(all, sizeof(all), m->group, m->inside);
	r = jail_map_write(pid, "gid_map", all);
	/* In a container, there are groups that are not ours to give. */
	return r == -EPERM && m->groups ? jail_map_write(pid, "gid_map", one) : r;
}

static int map_and_open(const struct idmap *m, pid_t pid)
{
	char path[64];
	int r = write_maps(pid, m), fd;

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Return: a user namespace with that map, or -errno. */
static int make_map(const struct idmap *m)
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
	fd = map_and_open(m, pid);
	jail_child_kill(pid);
	return fd;
}

/*
 * What is made there has the owner's group. What has another one already is the owner's to write all the same,
 * and stays what it was; without an id of its own, the kernel would refuse all writing to it.
 *
 * Below an overlay nothing is made, but whatever changes is copied with its group. There the one that most has
 * stands for the sandbox's, if it is root's own, who has the rights of all groups anyway.
 */
static struct idmap map_of(const struct jail_spec *spec, const struct jail_mount *m,
			   uint32_t inside, int source)
{
	struct idmap map = {spec->owner, spec->owner_group, inside, m->kind == JAIL_RW};
	struct statx st;

	if (m->kind == JAIL_RO && spec->owner == 0 && jail_source_look(source, &st) == 0 &&
	    st.stx_uid == 0)
		map.group = st.stx_gid;
	return map;
}

/* Return: a detached mount of @m, with the ids of its map, or -errno. */
static int mount_mapped(const struct jail_spec *spec, const struct jail_mount *m, uint32_t inside)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID |
					      MOUNT_ATTR_NODEV |
					      (m->kind == JAIL_RO ? MOUNT_ATTR_RDONLY : 0u)};
	_cleanup_close_ int source = jail_source_open_patiently(m), tree = -1, ids = -1;
	struct idmap map;
	int fd;

	if (source < 0)
		return source;
	map = map_of(spec, m, inside, source);
	ids = make_map(&map);
	if (ids < 0)
		return ids;
	attr.userns_fd = (unsigned)ids;
	tree = open_tree(source, "",
			 AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree < 0)
		return -errno;
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return errno == EINVAL ? -EOPNOTSUPP : -errno; /* of the file system */
	/* Out of the way of the child's descriptors. */
	fd = fcntl(tree, F_DUPFD_CLOEXEC, JAIL_FDS_MAX);
	return fd < 0 ? -errno : fd;
}

static int open_all(const struct jail_spec *spec, uint32_t inside, struct jail_fault *fault)
{
	for (; nmapped < spec->nmounts; nmapped++) {
		const struct jail_mount *m = &spec->mounts[nmapped];
		int fd = -1;

		if (m->flags & JAIL_OWNED)
			fd = mount_mapped(spec, m, inside);
		if ((m->flags & JAIL_OWNED) && fd < 0)
			return jail_fault_set(fault,
					      fd == -ETIMEDOUT ? JAIL_STEP_SOURCE : JAIL_STEP_OWNED,
					      fd, m->source);
		mapped[nmapped] = fd;
	}
	return 0;
}

int idmap_open(const struct jail_spec *spec, const struct jail_cell *cell, struct jail_fault *fault)
{
	nmapped = 0;
	return cell->private_ids ? open_all(spec, jail_user_id(spec, cell), fault) : 0;
}

int idmap_take(uint32_t i)
{
	return i < nmapped ? steal_fd(&mapped[i]) : -1;
}

void idmap_close(void)
{
	while (nmapped > 0) {
		nmapped--;
		if (mapped[nmapped] >= 0)
			close(mapped[nmapped]);
	}
}
