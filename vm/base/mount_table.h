/* SPDX-License-Identifier: Apache-2.0 */
/* The mount table of a mount namespace: proc_pid_mountinfo(5). To look at it asks no file system
 * anything. */
#ifndef XSBX_VM_BASE_MOUNT_TABLE_H
#define XSBX_VM_BASE_MOUNT_TABLE_H

#include <stdbool.h>

#define MOUNT_TABLE	 "/proc/self/mountinfo"
#define MOUNT_DEVICE_MAX 32u /* bytes of "major:minor", with its end */

/* Reads it from the start of a descriptor of MOUNT_TABLE, which makes ready for the next news.
 * Return: text to be freed, or NULL. */
char *mount_table_read(int fd);

/* Finds the device that is mounted at @path, absolute and without links; of several the topmost one. Return: false, with
 * @ret_device as it was, if there is none. */
bool mount_table_at(const char *table, const char *path, char ret_device[MOUNT_DEVICE_MAX]);

/* Is that device mounted anywhere? */
bool mount_table_has(const char *table, const char *device);

/* Has it a file system of this type? Device numbers are reused. */
bool mount_table_has_type(const char *table, const char *device, const char *type);

#endif
