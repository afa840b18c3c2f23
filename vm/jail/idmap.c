/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that a jail may write to with the rights of their owner on the host: id-mapped mounts. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "vm/base/fdpass.h"
#include "internal.h"
#include "vm/spawn/wire.h"
#include "vm/base/util.h"

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
 * To open the directory is then the spawner's too, and with it the wait for a server that may not answer. What
 * the kernel can look up by itself it is asked for at once; the rest is opened by a process that can be left
 * behind.
 *
 * Without ids of its own, the sandbox has the daemon's id, and needs nothing of this.
 */

static int mapped[JAIL_MOUNTS_MAX];
static uint32_t nmapped;
static int patience_ms = -1; /* for ever */
static int daemon_sock = -1;

void idmap_patience(int ms, int sock)
{
	patience_ms = ms;
	daemon_sock = sock;
}

int jail_await_word(int from)
{
	struct pollfd p[] = {{.fd = from, .events = POLLIN},
			     {.fd = daemon_sock, .events = POLLRDHUP}};
	int n;

	do
		n = poll(p, ARRAY_SIZE(p), patience_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	return p[0].revents ? 0 : -ECANCELED;
}

int jail_look_at(int fd, struct statx *ret_stat)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_UID | STATX_GID,
		     ret_stat) < 0
		       ? -errno
		       : 0;
}

static int open_source(const struct jail_mount *m, uint64_t resolve)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};
	int fd;

	if (m->flags & JAIL_NO_LINKS)
		how.resolve |= RESOLVE_NO_SYMLINKS;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, m->source, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

int jail_open_source(const struct jail_mount *m)
{
	return open_source(m, 0);
}

/* In a process of its own, which has nothing else: it may stay for long. */
__attribute__((noreturn)) static void open_and_tell(const struct jail_mount *m, int to)
{
	const int tell = STDERR_FILENO + 1;
	int fd, r;

	if (to != tell && dup2(to, tell) < 0)
		_exit(1);
	close_range((unsigned)tell + 1, ~0u, 0);
	fd = jail_open_source(m);
	r = MIN(fd, 0);
	(void)fdpass_send(tell, &r, sizeof(r), &fd, fd >= 0 ? 1 : 0, 0);
	_exit(0);
}

/* Return: what that process came up with. */
static int hear(int from)
{
	const int word = jail_await_word(from);
	int fd = -1, r = -EIO;
	size_t nfds;
	ssize_t n;

	if (word < 0)
		return word;
	n = fdpass_receive(from, &r, sizeof(r), &fd, 1, &nfds, 0);
	if (n < 0)
		return (int)n;
	if (n != sizeof(r))
		return -EIO;
	if (r < 0)
		return r;
	return nfds == 1 ? fd : -EMFILE;
}

static int open_patiently(const struct jail_mount *m)
{
	int pair[2], r;
	pid_t pid;

	r = open_source(m, RESOLVE_CACHED);
	if (r != -EAGAIN)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = _Fork();
	if (pid == 0)
		open_and_tell(m, pair[1]);
	r = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (r == 0)
		r = hear(pair[0]);
	close(pair[0]);
	/* It is the reaper's, as whoever's parent has died. */
	if (pid > 0 && (r == -ETIMEDOUT || r == -ECANCELED))
		kill(pid, SIGKILL);
	return r;
}

/* Which ids of the disk stand for which of the host's. */
struct idmap {
	uint32_t owner, group; /* these two for @inside */
	uint32_t inside;
	bool groups; /* all other groups for themselves */
};

static int write_map(pid_t pid, const char *name, const char *text)
{
	_cleanup_close_ int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
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
	r = write_map(pid, "uid_map", one);
	if (r < 0)
		return r;
	snprintf(one, sizeof(one), "%u %u 1\n", m->group, m->inside);
	memcpy(all, one, sizeof(one));
	if (m->groups)
		add_others(all, sizeof(all), m->group, m->inside);
	r = write_map(pid, "gid_map", all);
	/* In a container, there are groups that are not ours to give. */
	return r == -EPERM && m->groups ? write_map(pid, "gid_map", one) : r;
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
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
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

	if (m->kind == JAIL_RO && spec->owner == 0 && jail_look_at(source, &st) == 0 &&
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
	_cleanup_close_ int source = open_patiently(m), tree = -1, ids = -1;
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
	fd = fcntl(tree, F_DUPFD_CLOEXEC, SPAWN_TARGET_MAX);
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
