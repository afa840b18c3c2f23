/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the mount can still be seen where it was made. */
#ifndef XSBX_FS_FUSE_MOUNTWATCH_H
#define XSBX_FS_FUSE_MOUNTWATCH_H

#include <stdbool.h>
#include <uv.h>

/*
 * Theory of operation
 * -------------------
 * An unmount ends the connection to the kernel only when no copy of the mount is left in any mount
 * namespace: a container that was started meanwhile has one, which no command on this side removes. So the
 * daemon looks at its own namespace, whose table of mounts can be polled (proc_pid_mountinfo(5)): if its
 * file system is in it no more, under whatever path, it was unmounted. An unmount that is lazy
 * (fusermount3 -uz) looks the same, and is to wait for those who have files open; that is the caller's to
 * decide, so while it says `busy` it is asked again from time to time.
 *
 * The file is opened at the start, because the daemon gives up most files afterwards.
 */
struct mountwatch {
	uv_poll_t poll;
	uv_timer_t again;
	int fd; /* of the table, or -1: nothing is watched */
	const char *path;
	char device[32]; /* "major:minor" of the file system */
	bool gone;
	bool (*busy)(void *data);
	void (*ended)(void *data); /* called once at most, from the loop */
	void *data;
};

/**
 * mountwatch_start() - Watch a mount that has just been made
 * @w: Its callbacks and `data` are set
 * @loop: Loop
 * @path: Mount point, absolute and without links; the caller keeps it
 *
 * Return: 0, or -errno: nothing is watched then, and an unmount is noticed as the kernel tells it.
 */
int mountwatch_start(struct mountwatch *w, uv_loop_t *loop, const char *path);

/* Is the mount at its place now, and on top there? A device's number is given out again, but nothing else there is
 * of our type: another xsbxfs would wait for us to end. Where nothing is watched: no. */
bool mountwatch_sees(const struct mountwatch *w);

/* Stops watching. Nothing happens if nothing was watched. */
void mountwatch_close(struct mountwatch *w);

#endif
