/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the jail's file tree on a memory file system, and makes it the root. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "internal.h"
#include "source.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The view is built in two passes. The first opens the sources on the host, as detached copies of
 * mounts, while the process still has the host's root and its old identity, so that a source may be
 * below a directory that only the daemon's user can enter. The second runs with the identity of the
 * jail (on a mount made by an id outside of the user namespace, files could not be created), mounts a
 * memory file system over the root, fills it, and pivots into it; then the old root is detached, with
 * everything mounted there. Nothing is left that is merely hidden.
 *
 * That is only true if nothing is open there: mounts that were copied into the jail's user namespace are locked
 * to each other, and locked ones stay together when they are detached. A single descriptor of a file that the
 * child opened by its path on the host would keep alive everything mounted below that file's mount, as long as
 * the jail exists, even if it is unmounted on the host. So files that stay open are opened by the spawner.
 *
 * A copy gets its attributes (read-only and nosuid, also for mounts below it) before it is attached: at no
 * time is anything reachable that will be restricted later.
 *
 * Targets are only looked up below the new root, where nothing was made by others yet. But a target
 * below a bound directory is in a directory of the host, where it has to exist.
 */

#define ROOT_OPTIONS "mode=755,size=256k,nr_inodes=1024"
#define DEV_OPTIONS  "mode=755,size=64k,nr_inodes=64"
#define SHM_OPTIONS  "mode=1777,size=64m,nr_inodes=4096"
#define PTS_OPTIONS  "mode=620,ptmxmode=666,max=256" /* of some thousand that the host has */

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

static const struct {
	const char *name, *target;
} dev_links[] = {
	{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

/* What of /proc tells about the host or changes it. Interrupts tell of others' keys and packets, locks of
 * the files that others have open. */
static const char *const proc_covered[] = {
	"buddyinfo",  "cmdline",     "diskstats",     "interrupts", "iomem",   "ioports",
	"kallsyms",   "kcore",	     "key-users",     "keys",	    "kmsg",    "kpagecgroup",
	"kpagecount", "kpageflags",  "latency_stats", "locks",	    "modules", "mtrr",
	"partitions", "sched_debug", "schedstat",     "softirqs",   "swaps",   "sysrq-trigger",
	"timer_list", "timer_stats", "zoneinfo",
};
static const char *const proc_emptied[] = {"acpi", "asound", "driver", "scsi"};
/* Whoever may write to what is below `pressure` has the kernel watch the whole host for him. */
static const char *const proc_frozen[] = {"bus", "fs", "irq", "pressure", "sys"};

/* Return: descriptor of a mount that is attached nowhere, or -errno. */
static int new_mount(const char *type, const char *options, unsigned attr)
{
	_cleanup_close_ int fs = fsopen(type, FSOPEN_CLOEXEC);
	char copy[256], *rest = copy, *item;
	int fd;

	if (fs < 0)
		return -errno;
	snprintf(copy, sizeof(copy), "%s", options);
	while ((item = strsep(&rest, ","))) {
		char *value = strchr(item, '=');
		int r;

		if (!*item)
			continue;
		if (value)
			*value++ = '\0';
		r = fsconfig(fs, value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, item, value, 0);
		if (r < 0)
			return -errno;
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, attr);
	return fd < 0 ? -errno : fd;
}

static int set_attr(int fd, const char *path, uint64_t attr, bool below)
{
	struct mount_attr a = {.attr_set = attr};

	return mount_setattr(fd, path, AT_EMPTY_PATH | (below ? AT_RECURSIVE : 0u), &a, sizeof(a)) <
			       0
		       ? -errno
		       : 0;
}

/* Return: descriptor of a detached copy of what is mounted at @path, seen from @dir, or -errno. */
static int copy_from(int dir, const char *path, uint64_t attr, bool below)
{
	_cleanup_close_ int fd = open_tree(dir, path,
					   AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
						   (below ? (unsigned)AT_RECURSIVE : 0u));
	int r;

	if (fd < 0)
		return -errno;
	r = set_attr(fd, "", attr, below);
	return r < 0 ? r : steal_fd(&fd);
}

static int copy_mount(const char *path, uint64_t attr)
{
	return copy_from(AT_FDCWD, path, attr, false);
}

static int attach(int fd, const char *target)
{
	return move_mount(fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/* Makes the directories on the way to @path, and itself if @last. It is relative to the new root. */
static int make_dirs(const char *path, bool last)
{
	char part[PATH_MAX];

	for (const char *p = path; *p;) {
		const char *slash = strchrnul(p, '/');
		struct stat st;

		if (!*slash && !last)
			break;
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (stat(part, &st) < 0 && mkdir(part, 0755) < 0)
			return -errno;
		p = slash + (*slash == '/');
	}
	return 0;
}

static int make_file(const char *path, const char *content)
{
	_cleanup_close_ int fd = -1;
	size_t len = strlen(content);
	struct stat st;

	if (!len && stat(path, &st) == 0)
		return 0;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	return write(fd, content, len) == (ssize_t)len ? 0 : -EIO;
}

/* Attaches and closes @fd at a target that is made for it. */
static int attach_made(int fd, const char *target)
{
	_cleanup_close_ int mount = fd;
	struct statx st;
	int r = jail_source_look(mount, &st);

	if (r < 0)
		return r;
	r = make_dirs(target, S_ISDIR(st.stx_mode));
	if (r == 0 && !S_ISDIR(st.stx_mode))
		r = make_file(target, "");
	return r < 0 ? r : attach(mount, target);
}

/* ---- changes on top of a directory ---- */

/* Where changes go, and where the kernel prepares them. The first has the rights that the whole will
 * be seen to have. */
static int make_layers(const char *top, uint32_t user)
{
	static const char *const names[] = {"work/upper", "work/work"};
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", top, names[i]);
		if (mkdir(path, 0755) < 0 || chown(path, user, user) < 0)
			return -errno;
	}
	return 0;
}

/* The kernel looks up the layers by path, keeps copies of their mounts, and notes in attributes of the
 * upper one, which anybody may set, what it has to know of it. With "xino" all files have numbers of one
 * device, which stay when they are changed. */
static int make_overlay(const char *top, const char *target, uint32_t user)
{
	char options[256], base[PATH_MAX];
	int r = make_layers(top, user), fd;

	if (r < 0)
		return r;
	snprintf(options, sizeof(options),
		 "lowerdir=%s/base,upperdir=%s/work/upper,workdir=%s/work/work,userxattr,xino=on",
		 top, top, top);
	fd = new_mount("overlay", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	r = fd < 0 ? fd : attach_made(fd, target);
	snprintf(base, sizeof(base), "%s/base", top);
	if (r == 0 && umount2(base, MNT_DETACH) < 0)
		r = -errno;
	return r;
}

/* ---- a device that a jail may open, whoever owns it on the host ---- */

/*
 * If the daemon is root, a jail has an id on the host that owns nothing, so it may open a device only if it is
 * accessible to everybody, or with a group that it would have to be given. /dev/kvm is 0660 with the group kvm
 * on one host, 0600 on the next. So the spawner makes another node for the same device, owned by the jail's id,
 * on a private memory file system. That has to be made by the spawner: the kernel does not open devices on a
 * file system that belongs to the jail's user namespace.
 *
 * If that is impossible (a container whose root may not make nodes, a daemon that is not root), the host's node
 * is mounted, and its permissions decide.
 */

#define DEVICE_NODE "node"

static int given = -1;

/* Return: a mount with the device @name as a node of @owner's, or -errno. */
static int make_node(const char *name, uid_t owner)
{
	_cleanup_close_ int mount = -1;
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", name);
	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.st_mode))
		return -ENODEV;
	mount = new_mount("tmpfs", "nr_inodes=2,mode=755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (mount < 0)
		return mount;
	if (mknodat(mount, DEVICE_NODE, S_IFCHR | 0600, st.st_rdev) < 0 ||
	    fchownat(mount, DEVICE_NODE, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(mount, DEVICE_NODE, 0600, 0) < 0)
		return -errno;
	/* Out of the way of the child's descriptors. */
	fd = fcntl(mount, F_DUPFD_CLOEXEC, JAIL_FDS_MAX);
	return fd < 0 ? -errno : fd;
}

void jail_device_open(const struct jail_spec *spec, const struct jail_cell *cell)
{
	given = -1;
	for (uint32_t i = 0; cell->private_ids && i < spec->nmounts; i++) {
		const struct jail_mount *m = &spec->mounts[i];

		if (m->kind == JAIL_DEV && *m->source && !strchr(m->source, '/'))
			given = make_node(m->source, jail_user_id(spec, cell));
		if (given >= 0)
			break;
	}
}

bool jail_device_given(void)
{
	return given >= 0;
}

/* A mount of a directory with that node alone, or -1. */
static int take_given(void)
{
	return steal_fd(&given);
}

void jail_device_close(void)
{
	if (given >= 0)
		close(take_given());
}

/* ---- /proc/stat ---- */

/*
 * The host's /proc/stat reveals, a hundred times a second, how busy each processor is, and with what. Programs
 * read it for the number of processors, and for the boot time, from which they compute start times of
 * processes. So it contains these two, and zeroes for everything else.
 */
#define ZEROS " 0 0 0 0 0 0 0 0 0 0\n"

/* Keeps "cpu3" of its line, and "btime 1700000000". */
static void copy_line(FILE *out, const char *line)
{
	if (strncmp(line, "cpu", 3) == 0)
		fprintf(out, "%.*s" ZEROS, (int)strcspn(line, " \n"), line);
	else if (strncmp(line, "btime ", 6) == 0)
		fputs(line, out);
}

static void write_text(FILE *out)
{
	_cleanup_file_ FILE *in = fopen("/proc/stat", "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	while (in && getline(&line, &room, in) >= 0)
		copy_line(out, line);
	fputs("intr 0\nctxt 0\nprocesses 0\nprocs_running 1\nprocs_blocked 0\nsoftirq" ZEROS, out);
}

static char *make_text(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	bool good;

	if (!out)
		return NULL;
	write_text(out);
	good = !ferror(out);
	if (fclose(out) == 0 && good)
		return text;
	free(text);
	return NULL;
}

const char *jail_stat_text(void)
{
	static char *text;

	if (!text)
		text = make_text();
	return text;
}

/* ---- /dev and /proc ---- */

/* The host's device @name, at @dev. That it is read-only is no matter for what is written to it, but
 * keeps what belongs to the file, such as its times, from being changed. */
static int add_dev(const char *dev, const char *name)
{
	char path[PATH_MAX], host[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dev, name);
	snprintf(host, sizeof(host), "/dev/%s", name);
	fd = copy_mount(host, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	return fd < 0 ? fd : attach_made(fd, path);
}

/* The device that was given to this jail. The rest of its file system is out of sight at once. */
static int add_given(const char *dev, const char *name, int mount)
{
	char dir[PATH_MAX], path[PATH_MAX];
	int r, fd;

	snprintf(dir, sizeof(dir), "%s/given", dev);
	r = attach_made(mount, dir);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/given/" DEVICE_NODE, dev);
	fd = copy_mount(path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	snprintf(path, sizeof(path), "%s/%s", dev, name);
	r = fd < 0 ? fd : attach_made(fd, path);
	if (r == 0 && (umount2(dir, MNT_DETACH) < 0 || rmdir(dir) < 0))
		r = -errno;
	return r;
}

/* One that the host does not have is left out: whoever opens it finds that out, and says so. */
static int add_wanted(const char *dev, const char *name)
{
	const int r = add_dev(dev, name);

	return r == -ENOENT ? 0 : r;
}

static int fill_dev(const char *dev, const char *more)
{
	const int mount = take_given();
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(devices); i++)
		r = add_dev(dev, devices[i]);
	if (r == 0 && mount >= 0)
		r = add_given(dev, more, mount);
	else if (r == 0 && *more)
		r = add_wanted(dev, more);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dev_links); i++) {
		snprintf(path, sizeof(path), "%s/%s", dev, dev_links[i].name);
		r = symlink(dev_links[i].target, path) < 0 ? -errno : 0;
	}
	return r;
}

static int make_dev(const char *dev, const char *more)
{
	const unsigned attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
	int fd = new_mount("tmpfs", DEV_OPTIONS, attr);
	int r = fd < 0 ? fd : attach_made(fd, dev);
	char path[PATH_MAX];

	if (r == 0)
		r = fill_dev(dev, more);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/pts", dev);
	fd = new_mount("devpts", PTS_OPTIONS, attr);
	r = fd < 0 ? fd : attach_made(fd, path);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/shm", dev);
	fd = new_mount("tmpfs", SHM_OPTIONS, attr | MOUNT_ATTR_NODEV);
	r = fd < 0 ? fd : attach_made(fd, path);
	return r < 0 ? r : set_attr(AT_FDCWD, dev, MOUNT_ATTR_RDONLY, false);
}

/* Lays something over a file or directory of /proc; closes @fd. */
static int cover(const char *path, int fd)
{
	_cleanup_close_ int mount = fd;

	return mount < 0 ? mount : attach(mount, path);
}

/* The file is of no directory any more once it is seen there. */
static int make_stat(const char *proc)
{
	const char *text = jail_stat_text();
	char path[PATH_MAX];
	int r, fd;

	if (!text)
		return -ENOMEM;
	r = make_file("stat", text);
	if (r < 0)
		return r;
	fd = copy_mount("stat", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
					MOUNT_ATTR_NOEXEC);
	snprintf(path, sizeof(path), "%s/stat", proc);
	r = cover(path, fd);
	return r == 0 && unlink("stat") < 0 ? -errno : r;
}

/* Lays copies of a mount over those of the names that there are; closes @fd. The first one is what the others are copied
 * from, with its attributes. Each kernel has one of them at least (`driver` is always there), or it would be attached nowhere:
 * to let go of such a one is to wait until no processor looks at mounts any more. */
static int cover_all(const char *proc, const char *const *names, size_t n, int fd)
{
	_cleanup_close_ int mount_fd = fd;
	char path[PATH_MAX], first[PATH_MAX] = "";
	int r = MIN(fd, 0);

	for (size_t i = 0; r == 0 && i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", proc, names[i]);
		if (*first)
			r = mount(first, path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
		else
			r = attach(mount_fd, path);
		if (r == 0 && !*first)
			snprintf(first, sizeof(first), "%s", path);
		if (r == -ENOENT)
			r = 0;
	}
	return r;
}

static int make_proc(const char *proc)
{
	const unsigned attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
	const unsigned device = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
	int fd = new_mount("proc", "hidepid=2", attr);
	int r = fd < 0 ? fd : attach_made(fd, proc);
	char path[PATH_MAX];

	if (r == 0)
		r = make_stat(proc);
	if (r == 0)
		r = cover_all(proc, proc_covered, ARRAY_SIZE(proc_covered),
			      copy_mount("/dev/null", device));
	if (r == 0)
		r = cover_all(proc, proc_emptied, ARRAY_SIZE(proc_emptied),
			      new_mount("tmpfs", "mode=555,nr_inodes=1", attr | MOUNT_ATTR_RDONLY));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(proc_frozen); i++) {
		snprintf(path, sizeof(path), "%s/%s", proc, proc_frozen[i]);
		fd = copy_mount(path, attr | MOUNT_ATTR_RDONLY);
		r = fd == -ENOENT ? 0 : cover(path, fd);
	}
	return r;
}

/* ---- the passes ---- */

static uint64_t attr_of(const struct jail_mount *m)
{
	return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
	       (m->kind == JAIL_RO ? MOUNT_ATTR_RDONLY : 0u) |
	       (m->flags & JAIL_NOEXEC ? MOUNT_ATTR_NOEXEC : 0u);
}

/* Covers a file that is shown read-only by one that can be changed where it is. Others may have made the file. */
static int make_copy(const char *copy, const char *target)
{
	_cleanup_close_ int from = open(target, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK),
			    to = -1;
	struct stat st;
	ssize_t n = 1;
	int fd;

	if (from < 0)
		return errno == ENOENT || errno == ELOOP ? 0 : -errno;
	if (fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > JAIL_COPY_MAX)
		return 0;
	to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (to < 0)
		return -errno;
	for (off_t at = 0; at < st.st_size && n > 0;)
		n = sendfile(to, from, &at, (size_t)(st.st_size - at));
	if (n < 0)
		return -errno;
	fd = copy_mount(copy, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY);
	return fd < 0 ? fd : cover(target, fd);
}

/* What @m shows of the host, with all that is mounted below it. */
static int open_source(const struct jail_mount *m, uint32_t i)
{
	_cleanup_close_ int source = -1;
	int fd = idmap_take(i);

	if (fd >= 0)
		return fd;
	source = jail_source_open(m);
	return source < 0 ? source : copy_from(source, "", attr_of(m), true);
}

static bool may_be_left_out(const struct jail_mount *m, int error)
{
	return (m->flags & JAIL_OPTIONAL) &&
	       (error == -ENOENT || (error == -ELOOP && (m->flags & JAIL_NO_LINKS)));
}

int jail_mounts_open(const struct jail_spec *spec, int fds[JAIL_MOUNTS_MAX],
		     struct jail_fault *fault)
{
	for (uint32_t i = 0; i < spec->nmounts; i++) {
		const struct jail_mount *m = &spec->mounts[i];

		fds[i] = -1;
		if (m->kind != JAIL_RO && m->kind != JAIL_RW)
			continue;
		fds[i] = open_source(m, i);
		if (fds[i] < 0 && !may_be_left_out(m, fds[i]))
			return jail_fault_set(fault, JAIL_STEP_SOURCE, fds[i], m->source);
	}
	return 0;
}

static int make_one(const struct jail_spec *spec, const struct jail_mount *m, int *source)
{
	const char *target = m->target + 1;
	int r, fd;

	switch ((enum jail_mount_kind)m->kind) {
	case JAIL_DIR: return make_dirs(target, true);
	case JAIL_LINK:
		r = make_dirs(target, false);
		return r == 0 && symlink(m->source, target) < 0 ? -errno : r;
	case JAIL_FILE:
		r = make_dirs(target, false);
		return r < 0 ? r : make_file(target, m->source);
	case JAIL_RO:
	case JAIL_RW: return *source < 0 ? 0 : attach_made(steal_fd(source), target);
	case JAIL_TMPFS:
		fd = new_mount("tmpfs", m->source, (unsigned)attr_of(m));
		return fd < 0 ? fd : attach_made(fd, target);
	case JAIL_COPY: return make_copy(m->source + 1, target);
	case JAIL_OVERLAY: return make_overlay(m->source + 1, target, spec->user);
	case JAIL_PROC: return make_proc(target);
	case JAIL_DEV: return make_dev(target, m->source);
	case JAIL_NKINDS: break;
	}
	return -EINVAL;
}

/* The new root becomes the root, the old one goes. */
static int pivot(void)
{
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return 0;
}

int jail_mounts_build(const struct jail_spec *spec, int fds[JAIL_MOUNTS_MAX],
		      struct jail_fault *fault)
{
	_cleanup_close_ int root =
		new_mount("tmpfs", ROOT_OPTIONS, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	int r = root < 0 ? root : 0;

	umask(0);
	/* On top of the old root, where it hides nothing: paths still begin below it. In particular
	 * the old /proc stays in sight, without which the kernel lets nobody mount a new one. */
	if (r == 0)
		r = attach(root, "/");
	if (r == 0 && fchdir(root) < 0)
		r = -errno;
	if (r < 0)
		return jail_fault_set(fault, JAIL_STEP_ROOT, r, "");
	for (uint32_t i = 0; i < spec->nmounts; i++) {
		r = make_one(spec, &spec->mounts[i], &fds[i]);
		if (r < 0)
			return jail_fault_set(fault, JAIL_STEP_MOUNT, r, spec->mounts[i].target);
	}
	r = set_attr(root, "", MOUNT_ATTR_RDONLY, false);
	if (r == 0)
		r = pivot();
	umask(022);
	return r < 0 ? jail_fault_set(fault, JAIL_STEP_PIVOT, r, "") : 0;
}
