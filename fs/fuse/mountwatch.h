/* SPDX-License-Identifier: Apache-2.0 */
/* Watches whether the mount is still visible in the daemon's mount namespace. */
#ifndef XSBX_FS_FUSE_MOUNTWATCH_H
#define XSBX_FS_FUSE_MOUNTWATCH_H

#include <stdbool.h>
#include <uv.h>

#include "vm/base/mount_table.h"

/*
 * Theory of operation
 * -------------------
 * An unmount ends the connection to the kernel only when no copy of the mount is left in any mount
 * namespace: a container started in the meantime has one, which no command outside removes. So the
 * daemon watches the mount table of its own namespace, which can be polled (proc_pid_mountinfo(5)):
 * when its file system is no longer listed, under any path, it was unmounted. A lazy unmount
 * (fusermount3 -uz) looks the same, but has to wait for open files; the caller
 * decides that, so while it reports `busy` it is asked again from time to time.
 *
 * The file is opened at the start, because the daemon loses access to most files afterwards.
 */
struct mountwatch {
	uv_poll_t poll;
	uv_timer_t again;
	int fd; /* of the table, or -1 if nothing is watched */
	const char *path;
	/* "major:minor" of the file system; "": not known, so it is not missed. */
	char device[MOUNT_DEVICE_MAX];
	bool gone;
	bool (*busy)(void *data);
	void (*ended)(void *data); /* called at most once, from the loop */
	void *data;
};

/**
 * mountwatch_start() - Watch a mount that has just been made, or that mountwatch_is() will tell of
 * @w: Its callbacks and `data` are set
 * @loop: Loop
 * @path: Mount point, absolute and without links; the caller keeps it
 *
 * Return: 0, or -errno: nothing is watched then, and an unmount is noticed only through the kernel.
 */
int mountwatch_start(struct mountwatch *w, uv_loop_t *loop, const char *path);

/* In an heir: this is the device of the mount, whatever there may be at its path by now. */
void mountwatch_is(struct mountwatch *w, const char *device);

/* Is the mount visible at its mount point, and topmost there? Device numbers are reused, but
 * nothing else there has our type: another xsbxfs would wait for us to end. False if nothing is
 * watched. */
bool mountwatch_sees(const struct mountwatch *w);

/* Is the mount there, with another one on top, which is in the way of an unmount? */
bool mountwatch_is_covered(const struct mountwatch *w);

/* Stops watching. Nothing happens if nothing was watched. */
void mountwatch_close(struct mountwatch *w);

#endif
