/* SPDX-License-Identifier: Apache-2.0 */
/* The mount table of a mount namespace. See mount_table.h. */
#include "mount_table.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "util.h"

#define TABLE_MAX (8u << 20)

/* Writes a path as the table has it: blanks and backslashes in octal. */
static void escape(const char *path, char *out, size_t size)
{
	size_t n = 0;

	for (; *path && n + 5 < size; path++) {
		if (strchr(" \t\n\\", *path))
			n += (size_t)snprintf(out + n, size - n, "\\%03o", (unsigned char)*path);
		else
			out[n++] = *path;
	}
	out[n] = '\0';
}

bool mount_table_at(const char *table, const char *path, char ret_device[MOUNT_DEVICE_MAX])
{
	char want[4096 * 4 + 1], device[MOUNT_DEVICE_MAX];
	bool found = false;

	escape(path, want, sizeof(want));
	for (const char *line = table; line && *line; line = strchr(line, '\n')) {
		int path_at = 0, path_end = 0;

		line += *line == '\n';
		/* Number, parent, device, root, mount point. */
		if (sscanf(line, "%*u %*u %31s %*s %n%*s%n", device, &path_at, &path_end) < 1 ||
		    !path_end || (size_t)(path_end - path_at) != strlen(want) ||
		    strncmp(line + path_at, want, strlen(want)) != 0)
			continue;
		snprintf(ret_device, MOUNT_DEVICE_MAX, "%s", device);
		found = true; /* what was mounted later lies on top */
	}
	return found;
}

bool mount_table_has(const char *table, const char *device)
{
	char line_device[MOUNT_DEVICE_MAX];

	for (const char *line = table; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%*u %*u %31s", line_device) == 1 &&
		    strcmp(line_device, device) == 0)
			return true;
	}
	return false;
}

char *mount_table_read(int fd)
{
	struct buf b = {.limit = TABLE_MAX};
	char part[16384];
	ssize_t n = -1;

	if (lseek(fd, 0, SEEK_SET) == 0) {
		while ((n = read(fd, part, sizeof(part))) > 0) {
			if (buf_append(&b, part, (size_t)n) < 0) {
				n = -1;
				break;
			}
		}
	}
	if (n < 0 || buf_append(&b, "", 1) < 0) {
		buf_clear(&b);
		return NULL;
	}
	return b.data;
}

bool mount_table_has_type(const char *table, const char *device, const char *type)
{
	char field[40], words[64];

	snprintf(field, sizeof(field), " %s ", device);
	snprintf(words, sizeof(words), " - %s ", type);
	for (const char *at = strstr(table, field); at; at = strstr(at + 1, field)) {
		const char *end = strchrnul(at, '\n'), *found = strstr(at, words);

		if (found && found < end)
			return true;
	}
	return false;
}
