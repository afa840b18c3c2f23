/* SPDX-License-Identifier: Apache-2.0 */
/* A device that a jail may open, whoever owns it on the host. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "internal.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * As root, a jail has an id on the host that owns nothing, so it may open a device only if everybody may, or
 * by a group that it would have to be given. /dev/kvm is 0660 with the group kvm at one host, 0600 at the
 * next. So the spawner makes a node of its own for the same device, on a memory file system that nobody else
 * sees, and the node belongs to the jail's id. The memory file system has to be made by the spawner: of one
 * that belongs to the jail's user namespace, the kernel opens no devices.
 *
 * Where that can't be done (a container whose root may make no nodes, a daemon without root), the host's node
 * is shown as it is, and what rights there are decide.
 */

static int given = -1;

/* Return: a mount with the device @name as a node of @owner's, or -errno. */
static int make_node(const char *name, uid_t owner)
{
	_cleanup_close_ int fs = fsopen("tmpfs", FSOPEN_CLOEXEC), mount = -1;
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", name);
	if (fs < 0 || stat(path, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.st_mode))
		return -ENODEV;
	if (fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "2", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", "755", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	mount = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (mount < 0 || mknodat(mount, JAIL_DEVICE_NODE, S_IFCHR | 0600, st.st_rdev) < 0 ||
	    fchownat(mount, JAIL_DEVICE_NODE, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(mount, JAIL_DEVICE_NODE, 0600, 0) < 0)
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

int jail_device_take(void)
{
	return steal_fd(&given);
}

void jail_device_close(void)
{
	if (given >= 0)
		close(jail_device_take());
}
