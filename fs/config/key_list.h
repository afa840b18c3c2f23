/* SPDX-License-Identifier: Apache-2.0 */
/* All keys as text, for programs: what completes command lines, editors, and who writes configurations. */
#ifndef XSBX_FS_CONFIG_KEY_LIST_H
#define XSBX_FS_CONFIG_KEY_LIST_H

struct buf;

/**
 * key_list() - Append a line for each key: section, key, values, default, comment
 * @out: Text
 *
 * They are separated by tabs, and "" where there is nothing. Sections are those of xsbxfs.conf(5) without brackets, "option" for
 * what -o takes alone, and "config" for the settings of a session, which a template has as well. Values are words
 * separated by "|", or one of number, size, path, text. A line may get more fields at its end.
 *
 * Return: as buf_append().
 */
int key_list(struct buf *out);

#endif
