/* SPDX-License-Identifier: Apache-2.0 */
/* What the host is shown of a sandbox's symbolic links. */
#ifndef XSBX_FS_FILES_FILELINK_H
#define XSBX_FS_FILES_FILELINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * What READLINK says is what the kernel follows, so a target is shown as it is only if it stays below
 * `files/` wherever else the guest has put links: it climbs no higher than the root from where the link
 * is (filenode.h), and it climbs before it names anything, because ".." behind a name counts from
 * wherever that name leads. Each link on a path is judged like that at its own place, so the kernel is
 * below the root after each of them, whichever way it came. An absolute target below the
 * guest's working directory is made relative.
 *
 * Every other target is shown behind the name FILELINK_OUTSIDE, which nothing has, without a climb in
 * it: such a link leads nowhere, here and in a copy of the tree, but can be read, copied and packed,
 * and a copy that comes back is what it was:
 *
 *	/usr/bin/python3	.outside-files/usr/bin/python3
 *	../../x			.outside-files/%2E/%2E%2E/%2E%2E/x
 *
 * Should the guest make such a directory, the link leads into that, which is still below the link.
 */
#define FILELINK_OUTSIDE ".outside-files"

/**
 * filelink_show() - The target to show for a link
 * @target: What the agent said, not terminated
 * @len: Bytes
 * @depth: Directories that it may climb
 * @exact: That is how many lie between the root and the link
 * @out: The target to show, terminated
 * @size: Bytes at @out
 * @ret_up: Directories that it does climb
 *
 * Return: 0; -ENAMETOOLONG if there is no room for it; -EIO if no link has such a target.
 */
int filelink_show(const char *target, size_t len, uint32_t depth, bool exact, char *out,
		  size_t size, uint32_t *ret_up);

/**
 * filelink_stored() - The target that a link of the host's is to have for the guest
 * @target: What the host said, terminated
 * @out: @target, or, if filelink_show() has made that, what it was
 * @size: Bytes at @out
 *
 * Return: 0 or -ENAMETOOLONG.
 */
int filelink_stored(const char *target, char *out, size_t size);

#endif
