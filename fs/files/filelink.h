/* SPDX-License-Identifier: Apache-2.0 */
/* How a sandbox's symbolic links are shown to the host. */
#ifndef XSBX_FS_FILES_FILELINK_H
#define XSBX_FS_FILES_FILELINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * The kernel follows the target that READLINK returns, so it is shown unchanged only if it stays below
 * `files/` whatever other links the guest has made: it climbs no higher than the root from the place of
 * the link (filenode.h), and all its ".." come first, because ".." after a name is relative to
 * wherever that name leads. Each link on a path is checked like that at its own place, so the kernel is
 * below the root after each of them, whichever way it took. An absolute target below the
 * guest's working directory is made relative.
 *
 * Every other target is shown prefixed with FILELINK_OUTSIDE, a name that does not exist, and with its ".."
 * escaped: such a link dangles, here and in a copy of the tree, but can be read, copied and packed,
 * and is restored when it is copied back:
 *
 *	/usr/bin/python3	.outside-files/usr/bin/python3
 *	../../x			.outside-files/%2E/%2E%2E/%2E%2E/x
 *
 * If the guest creates such a directory, the link leads into it, which is still below the root.
 */
#define FILELINK_OUTSIDE ".outside-files"

/**
 * filelink_show() - Compute the target to show for a link
 * @target: Target from the agent, not terminated
 * @len: Its length
 * @depth: Number of directories that it may climb
 * @exact: @depth is the exact number of directories between the root and the link
 * @out: The target to show, terminated
 * @size: Size of @out
 * @ret_up: Number of directories that it climbs
 *
 * Return: 0; -ENAMETOOLONG if it does not fit; -EIO if it is not a valid target.
 */
int filelink_show(const char *target, size_t len, uint32_t depth, bool exact, char *out,
		  size_t size, uint32_t *ret_up);

/**
 * filelink_stored() - Compute the target to store for a link made by the host
 * @target: Target from the host, terminated
 * @out: @target, or the original target if it is a result of filelink_show()
 * @size: Size of @out
 *
 * Return: 0 or -ENAMETOOLONG.
 */
int filelink_stored(const char *target, char *out, size_t size);

#endif
