/* SPDX-License-Identifier: Apache-2.0 */
/* Points on disk. */
#ifndef XSBX_VM_CHECKPOINT_POINT_DISK_H
#define XSBX_VM_CHECKPOINT_POINT_DISK_H

#include "point.h"

/*
 * Of a point there are three files in a directory, which its owner makes and renames: point.json, and, compressed, its base
 * and its stream. Bases are as large as snapshots, and many points have the same: each is kept under the name of its
 * checksum in a directory of bases as well, and points have links to it.
 */

/* What is not the point's own, and has to be the same when it is loaded. */
struct point_needs {
	const char *machine; /* in words: see backend_ops.describe */
	int disk;	     /* root file system of the image, of which @machine has the checksum */
	struct layer *layer; /* or NULL; likewise */
};

/* These block for a second: call them in worker threads. */

/**
 * point_store() - Write a point
 * @dir: Directory, without such files
 * @bases: Directory of bases, on the same file system
 * @p: Point
 * @machine: As in struct point_needs
 *
 * All is on the disk then, but for the name of @dir. Return: 0 or -errno.
 */
int point_store(int dir, int bases, const struct point *p, const char *machine);

/**
 * point_load() - Read a point, and check it
 * @dir: Its directory
 * @needs: The disk is duplicated, the layer gets a reference
 * @like: A point whose base is taken if it is the same; or NULL
 * @ret_point: Result, with a reference
 *
 * Return: 0; -ENOENT; -EBADMSG if it is damaged; -ESTALE if it needs another machine; or -errno.
 */
int point_load(int dir, const struct point_needs *needs, const struct point *like,
	       struct point **ret_point);

/* Removes bases that no point has any more. */
void point_clean(int bases);

#endif
