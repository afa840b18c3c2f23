/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: namespaces, mounts and roots. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

/* ---- namespaces ---- */

static int unshare_user(void)
{
	return probe_result(unshare(CLONE_NEWUSER));
}

static int unshare_mount(void)
{
	return probe_result(unshare(CLONE_NEWNS));
}

static int unshare_pid(void)
{
	return probe_result(unshare(CLONE_NEWPID));
}

static int unshare_net(void)
{
	return probe_result(unshare(CLONE_NEWNET));
}

static int unshare_ipc(void)
{
	return probe_result(unshare(CLONE_NEWIPC));
}

static int unshare_uts(void)
{
	return probe_result(unshare(CLONE_NEWUTS));
}

static int unshare_cgroup(void)
{
	return probe_result(unshare(CLONE_NEWCGROUP));
}

static int unshare_time(void)
{
	return probe_result(unshare(CLONE_NEWTIME));
}

/* The kernel looks at 64 bits of flags with clone3, at 32 with clone; a filter must do likewise. */
static int by_clone(uint64_t flags)
{
	const long pid = syscall(SYS_clone, flags | SIGCHLD, 0, NULL, NULL, 0);

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	return probe_result(pid);
}

static int clone_user(void)
{
	return by_clone(CLONE_NEWUSER);
}

static int clone_user_upper_bits(void)
{
	return by_clone(CLONE_NEWUSER | 1ull << 40);
}

static int clone_user_and_mount(void)
{
	return by_clone(CLONE_NEWUSER | CLONE_NEWNS);
}

static int clone3_user(void)
{
	struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	const long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	return probe_result(pid);
}

static int clone3_into_cgroup(void)
{
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	const int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	long pid;

	args.cgroup = (uint64_t)fd;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	/* Not a control group: the kernel got as far as looking. */
	return pid < 0 && errno != EBADF ? -errno : 0;
}

static int setns_own(void)
{
	const int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : probe_result(setns(fd, CLONE_NEWUTS));
}

static int setns_of_init(void)
{
	const int fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : probe_result(setns(fd, CLONE_NEWNS));
}

static int setns_by_pidfd(void)
{
	const int fd = (int)syscall(SYS_pidfd_open, getppid(), 0);

	return fd < 0 ? -errno : probe_result(setns(fd, CLONE_NEWUTS));
}

/* ---- mounts ---- */

/* Where it may, in a mount namespace of its own; where it may not, that has to be refused, too. */
static void aside(void)
{
	if (unshare(CLONE_NEWNS) == 0)
		(void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	(void)mkdir("probe-dir", 0700);
}

static int mount_tmpfs(void)
{
	aside();
	return probe_result(mount("none", "probe-dir", "tmpfs", 0, NULL));
}

static int mount_bind(void)
{
	aside();
	return probe_result(mount("/", "probe-dir", NULL, MS_BIND, NULL));
}

static int mount_proc(void)
{
	aside();
	return probe_result(mount("proc", "probe-dir", "proc", 0, NULL));
}

static int mount_sysfs(void)
{
	aside();
	return probe_result(mount("sysfs", "probe-dir", "sysfs", 0, NULL));
}

static int mount_cgroup(void)
{
	aside();
	return probe_result(mount("none", "probe-dir", "cgroup2", 0, NULL));
}

static int mount_overlay(void)
{
	aside();
	if (mount("overlay", "probe-dir", "overlay", 0, "lowerdir=/usr:/proc") == 0)
		return 0;
	return -errno;
}

static int remount(void)
{
	aside();
	return probe_result(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
}

static int remount_file_system(void)
{
	aside();
	if (mount("none", "probe-dir", "tmpfs", 0, NULL) < 0)
		return probe_result(mount(NULL, "/tmp", NULL, MS_REMOUNT, "size=90%"));
	return probe_result(mount(NULL, "probe-dir", NULL, MS_REMOUNT, "size=90%"));
}

static int make_private(void)
{
	aside();
	return probe_result(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

static int unmount(void)
{
	aside();
	if (mount("none", "probe-dir", "tmpfs", 0, NULL) < 0)
		return probe_result(umount2("/proc/sys", MNT_DETACH));
	return probe_result(umount2("probe-dir", MNT_DETACH));
}

static int fsopen_tmpfs(void)
{
	return probe_result(syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC));
}

static int fspick_root(void)
{
	return probe_result(syscall(SYS_fspick, AT_FDCWD, "/", FSPICK_CLOEXEC));
}

static int open_tree_clone(void)
{
	return probe_result(
		syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
}

static int move_mount_root(void)
{
	int tree;

	aside();
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return probe_result(syscall(SYS_move_mount, tree < 0 ? AT_FDCWD : tree, tree < 0 ? "/" : "",
				    AT_FDCWD, "probe-dir", MOVE_MOUNT_F_EMPTY_PATH));
}

static int mount_setattr_root(void)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID};

	aside();
	return probe_result(syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof(attr)));
}

static int pivot(void)
{
	aside();
	if (mount("none", "probe-dir", "tmpfs", 0, NULL) < 0 || chdir("probe-dir") < 0)
		(void)!chdir("/tmp");
	return probe_result(syscall(SYS_pivot_root, ".", "."));
}

static int change_root(void)
{
	return probe_result(chroot("/"));
}

static int open_by_handle(void)
{
	struct {
		struct file_handle h;
		char space[128];
	} f = {.h.handle_bytes = sizeof(f.space)};
	int id, root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (name_to_handle_at(AT_FDCWD, "/usr", &f.h, &id, 0) < 0)
		return -errno;
	return probe_result(open_by_handle_at(root, &f.h, O_PATH | O_CLOEXEC));
}

/* Up and out by a descriptor that is above the root. */
static int out_by_chroot(void)
{
	const int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)mkdir("probe-dir", 0700);
	if (chroot("probe-dir") < 0)
		return -errno;
	return fchdir(fd) < 0 || chdir("../../../../../../..") < 0 ? -errno : 0;
}

const struct probe spaces_probes[] = {
	{"unshare-user", unshare_user},
	{"unshare-mount", unshare_mount},
	{"unshare-pid", unshare_pid},
	{"unshare-net", unshare_net},
	{"unshare-ipc", unshare_ipc},
	{"unshare-uts", unshare_uts},
	{"unshare-cgroup", unshare_cgroup},
	{"unshare-time", unshare_time},
	{"clone-user", clone_user},
	{"clone-user-upper-bits", clone_user_upper_bits},
	{"clone-user-and-mount", clone_user_and_mount},
	{"clone3-user", clone3_user},
	{"clone3-into-cgroup", clone3_into_cgroup},
	{"setns-own", setns_own},
	{"setns-of-init", setns_of_init},
	{"setns-by-pidfd", setns_by_pidfd},
	{"mount-tmpfs", mount_tmpfs},
	{"mount-bind", mount_bind},
	{"mount-proc", mount_proc},
	{"mount-sysfs", mount_sysfs},
	{"mount-cgroup", mount_cgroup},
	{"mount-overlay", mount_overlay},
	{"remount", remount},
	{"remount-file-system", remount_file_system},
	{"make-private", make_private},
	{"unmount", unmount},
	{"fsopen", fsopen_tmpfs},
	{"fspick", fspick_root},
	{"open-tree-clone", open_tree_clone},
	{"move-mount", move_mount_root},
	{"mount-setattr", mount_setattr_root},
	{"pivot-root", pivot},
	{"chroot", change_root},
	{"open-by-handle", open_by_handle},
	{"out-by-chroot", out_by_chroot},
};
const size_t n_spaces_probes = sizeof(spaces_probes) / sizeof(spaces_probes[0]);
