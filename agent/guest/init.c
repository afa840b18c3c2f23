/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1 of a guest: modules, root file system, mounts, and the connection to the host. */
#include "init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "harden.h"
#include "idle.h"
#include "agent/core/log.h"
#include "net.h"
#include "agent/core/guest_env.h"
#include "agent/core/proc.h"
#include "agent/guest/swap.h"
#include "agent/core/util.h"

/*
 * Theory of operation
 * -------------------
 * The kernel starts us from an initramfs that contains only this program and modules. All devices
 * are visible there; those that we need permanently (the host's port, the kernel's log, the random
 * generator, the console) stay open as descriptors. The new root is built next to it: the read-only
 * image, a /dev with six devices, a /proc that shows users only their own processes, a read-only
 * /sys, and tmpfs for writable directories. Then the initramfs is emptied, its mounts are detached,
 * and the new root takes its place: nothing is left that is merely hidden.
 *
 * Where jobs may be root's, the root is an overlay: the image below, a tmpfs above.
 *
 * All mounts visible to user code are nosuid, and nodev except for /dev.
 */

#define NEW	   "/new"
#define IMAGE	   "/image"
#define UPPER	   "/upper"
#define PORT_NAME  "xsbx.agent"
#define WAIT_MS	   10000
#define USER_ID	   1000
#define AGENT_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

/* Fails with words that are not known when the program is built. */
static int step_failed(const char **ret_step, const char *what, const char *name, int error)
{
	static char words[256];

	snprintf(words, sizeof(words), "%s %s", what, name);
	*ret_step = words;
	return -error;
}

static void sleep_ms(void)
{
	const struct timespec ms = {0, 1000000};

	nanosleep(&ms, NULL);
}

static int mount_at(const char **ret_step, const char *type, const char *dir, unsigned long flags,
		    const char *options)
{
	if (mount(type, dir, type, flags, options) < 0)
		return step_failed(ret_step, "mounting", dir, errno);
	return 0;
}

/* What the rest of the set-up itself needs. */
static int mount_early(const char **ret_step)
{
	const unsigned long flags = MS_NOSUID | MS_NOEXEC;
	int r, fd;

	(void)mkdir("/dev", 0755);
	(void)mkdir("/proc", 0755);
	(void)mkdir("/sys", 0755);
	(void)mkdir(NEW, 0755);
	r = mount_at(ret_step, "devtmpfs", "/dev", flags, NULL);
	if (r == 0)
		r = mount_at(ret_step, "proc", "/proc", flags | MS_NODEV, NULL);
	if (r == 0)
		r = mount_at(ret_step, "sysfs", "/sys", flags | MS_NODEV, NULL);
	if (r < 0)
		return r;
	/* Without /dev/console in the initramfs the kernel starts us without 0, 1 and 2. */
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < 3);
	if (fd < 0)
		return step_failed(ret_step, "opening", "/dev/null", errno);
	close(fd);
	fd = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0)
		log_console(fd);
	return 0;
}

static int load_module(const char *name)
{
	_cleanup_close_ int fd = -1;
	char path[128];

	snprintf(path, sizeof(path), "/lib/modules/%.100s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST ? -errno : 0;
}

static int load_modules(const char **ret_step)
{
	_cleanup_file_ FILE *f = fopen("/lib/modules.order", "re");
	char name[128];
	int r = 0;

	if (!f)
		return 0; /* a kernel that has everything built in */
	while (r == 0 && fgets(name, sizeof(name), f)) {
		name[strcspn(name, "\n")] = '\0';
		if (!name[0])
			continue;
		r = load_module(name);
		if (r < 0)
			r = step_failed(ret_step, "loading", name, -r);
	}
	return r;
}

static bool has_card(void)
{
	_cleanup_dir_ DIR *d = opendir("/sys/bus/virtio/devices");
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d))) {
		char path[300];

		snprintf(path, sizeof(path), "/sys/bus/virtio/devices/%s/device", e->d_name);
		found = e->d_name[0] != '.' && proc_number(path, "", 16) == 1;
	}
	return found;
}

/* Most machines have none, and need no driver for it. */
static int load_card(const char **ret_step)
{
	static const char *const modules[] = {"failover.ko", "net_failover.ko", "virtio_net.ko"};
	int r = 0;

	if (!has_card() || access("/sys/class/net/" NET_CARD, F_OK) == 0)
		return 0;
	for (size_t i = 0; r == 0 && i < sizeof(modules) / sizeof(modules[0]); i++) {
		r = load_module(modules[i]);
		if (r < 0)
			return step_failed(ret_step, "loading", modules[i], -r);
	}
	return 0;
}

/* Opens the port if it is there by now: its name arrives some time after the device. */
static int try_port(void)
{
	char path[300], name[64];
	_cleanup_dir_ DIR *d = opendir("/sys/class/virtio-ports");
	struct dirent *e;
	int port = -ENOENT;

	while (d && port < 0 && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", e->d_name);
		if (proc_text(path, name, sizeof(name)) < 0)
			continue;
		name[strcspn(name, "\n")] = '\0';
		if (strcmp(name, PORT_NAME) != 0)
			continue;
		snprintf(path, sizeof(path), "/dev/%s", e->d_name);
		port = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (port < 0)
			port = -errno;
	}
	return port;
}

static int open_port(const char **ret_step)
{
	int fd = try_port();

	for (int ms = 0; fd < 0 && ms < WAIT_MS; ms++) {
		sleep_ms();
		fd = try_port();
	}
	return fd < 0 ? step_failed(ret_step, "opening the port", PORT_NAME, -fd) : fd;
}

/* The host says by a word of the kernel's command line that there is a second disk. */
static bool has_packages(void)
{
	return getenv("XSBX_PACKAGES");
}

static int wait_for(const char *disk, const char **ret_step)
{
	for (int ms = 0; access(disk, F_OK) < 0; ms++) {
		if (ms >= WAIT_MS)
			return step_failed(ret_step, "waiting for", disk, ENODEV);
		sleep_ms();
	}
	return 0;
}

/* And by another that its jobs may be root's, who changes the system as he likes. */
static bool has_root(void)
{
	return getenv("XSBX_ROOT");
}

static int mount_image(const char *dir, const char **ret_step)
{
	if (mount("/dev/vda", dir, "erofs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME, NULL) <
	    0)
		return step_failed(ret_step, "mounting", "/dev/vda", errno);
	return 0;
}

/* What root changes lies in memory, over the image. The overlay keeps both; nobody else needs their names. */
static int mount_overlay(const char **ret_step)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV;
	int r = load_module("overlay.ko");

	if (r < 0 && r != -ENOENT) /* it may be built in */
		return step_failed(ret_step, "loading", "overlay.ko", -r);
	if (mkdir(IMAGE, 0755) < 0 || mkdir(UPPER, 0755) < 0)
		return step_failed(ret_step, "making", IMAGE, errno);
	r = mount_image(IMAGE, ret_step);
	if (r == 0)
		r = mount_at(ret_step, "tmpfs", UPPER, flags, "mode=755,size=50%");
	if (r < 0)
		return r;
	if (mkdir(UPPER "/changes", 0755) < 0 || mkdir(UPPER "/work", 0755) < 0)
		return step_failed(ret_step, "making", UPPER, errno);
	r = mount_at(ret_step, "overlay", NEW, flags | MS_NOATIME,
		     "lowerdir=" IMAGE ",upperdir=" UPPER "/changes,workdir=" UPPER "/work");
	(void)umount2(IMAGE, MNT_DETACH);
	(void)umount2(UPPER, MNT_DETACH);
	return r;
}

static int mount_root(const char **ret_step)
{
	int r = wait_for("/dev/vda", ret_step);

	if (r == 0 && has_packages())
		r = wait_for("/dev/vdb", ret_step);
	if (r < 0)
		return r;
	return has_root() ? mount_overlay(ret_step) : mount_image(NEW, ret_step);
}

/* Packages come as a file system of their own, on the disk behind the first. */
static int mount_packages(const char **ret_step)
{
	if (!has_packages())
		return 0;
	if (mkdir(NEW "/run/xsbx", 0755) < 0 || mkdir(NEW GUEST_ENV_PACKAGES, 0755) < 0)
		return step_failed(ret_step, "making", GUEST_ENV_PACKAGES, errno);
	if (mount("/dev/vdb", NEW GUEST_ENV_PACKAGES, "erofs",
		  MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME, NULL) < 0)
		return step_failed(ret_step, "mounting", "/dev/vdb", errno);
	return 0;
}

static int mount_new(const char **ret_step)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV;
	char home[64];
	struct stat st;
	int r = harden_dev(NEW "/dev");

	if (r < 0)
		return step_failed(ret_step, "making", "/dev", -r);
	/* Users see the processes they may trace: their own, and neither ours nor the kernel's. */
	r = mount_at(ret_step, "proc", NEW "/proc", flags | MS_NOEXEC, "hidepid=2");
	if (r < 0)
		return r;
	r = harden_proc(NEW "/proc", NEW "/dev/null");
	if (r < 0)
		return step_failed(ret_step, "covering parts of", "/proc", -r);
	r = mount_at(ret_step, "sysfs", NEW "/sys", flags | MS_NOEXEC | MS_RDONLY, NULL);
	if (r == 0)
		r = mount_at(ret_step, "tmpfs", NEW "/run", flags, "mode=755,size=4m,nr_inodes=1k");
	if (r == 0)
		r = mount_at(ret_step, "tmpfs", NEW "/tmp", flags, "mode=1777,size=50%");
	snprintf(home, sizeof(home), "mode=755,size=50%%,uid=%d,gid=%d", USER_ID, USER_ID);
	if (r == 0)
		r = mount_at(ret_step, "tmpfs", NEW "/home/user", flags, home);
	/* One quota for both. */
	if (r == 0 && stat(NEW "/var/tmp", &st) == 0 &&
	    mount(NEW "/tmp", NEW "/var/tmp", NULL, MS_BIND, NULL) < 0)
		r = step_failed(ret_step, "mounting", "/var/tmp", errno);
	return r;
}

/* Empties a directory of the initramfs, which lives in memory. */
static void empty(int dir, dev_t dev)
{
	_cleanup_dir_ DIR *d = fdopendir(dir);
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != dev)
			continue;
		if (S_ISDIR(st.st_mode)) {
			int fd = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

			if (fd >= 0)
				empty(fd, dev);
		}
		(void)unlinkat(dir, e->d_name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
	}
}

static int switch_root(const char **ret_step)
{
	struct stat st;
	int fd;

	(void)umount2("/dev", MNT_DETACH);
	(void)umount2("/sys", MNT_DETACH);
	(void)umount2("/proc", MNT_DETACH);
	fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0)
		empty(fd, st.st_dev);
	if (chdir(NEW) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	    chdir("/") < 0)
		return step_failed(ret_step, "switching to", "the root file system", errno);
	return 0;
}

/* Ahead of user code on the processor, and spared by the OOM killer. */
static void privilege(void)
{
	const struct sched_param p = {.sched_priority = 1};
	const int r = proc_write("/proc/self/oom_score_adj", "-1000");

	if (r < 0)
		log_line("oom_score_adj: %s", strerror(-r));
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &p) < 0)
		log_line("real-time priority: %s", strerror(errno));
}

int init_guest(struct guest_env *ret_env, const char **ret_step)
{
	int port, random_fd, kmsg_fd;
	struct swap swap;
	int r;

	umask(0);
	setenv("PATH", AGENT_PATH, 1);
	r = mount_early(ret_step);
	if (r == 0)
		r = load_modules(ret_step);
	if (r == 0)
		r = load_card(ret_step);
	if (r == 0)
		r = mount_root(ret_step);
	if (r < 0)
		return r;
	port = open_port(ret_step);
	if (port < 0)
		return port;
	random_fd = open("/dev/random", O_RDWR | O_CLOEXEC);
	kmsg_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	harden_sysctls();
	harden_memory();
	idle_sysctls();
	privilege();
	swap_on(&swap);
	net_up();
	r = mount_new(ret_step);
	if (r == 0) {
		r = net_resolver(NEW);
		if (r < 0)
			r = step_failed(ret_step, "writing", "/etc/resolv.conf", -r);
	}
	if (r == 0)
		r = mount_packages(ret_step);
	if (r == 0)
		r = switch_root(ret_step);
	if (r < 0)
		return r;
	*ret_env = (struct guest_env){.work = "/home/user",
				      .home = "/home/user",
				      .lib = "/usr/lib/xsbx",
				      .packages = has_packages() ? GUEST_ENV_PACKAGES : NULL,
				      .guest = true,
				      .root = has_root(),
				      .drop = true,
				      .uid = USER_ID,
				      .gid = USER_ID,
				      .random_fd = random_fd,
				      .kmsg_fd = kmsg_fd,
				      .swap = swap};
	return port;
}

void init_reboot(void)
{
	(void)reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}
