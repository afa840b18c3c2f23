/* SPDX-License-Identifier: Apache-2.0 */
/* Writes "newc" cpio archives. */
#include "cpio.h"

#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "vm/base/io.h"
#include "vm/base/util.h"

/* QEMU puts the initrd into memory in such a way that it ends in the last page but one if it is whole pages
 * long, else somewhere in the last one. There the firmware of QEMU 10 (SeaBIOS 1.16.3) has its ACPI tables, from
 * about 0xd00 on: an initrd that reaches them overwrites them, and the guest hangs in what it reads there. */
#define PAGE 4096

static int copy(int fd, int from, size_t size)
{
	while (size) {
		ssize_t n = sendfile(fd, from, NULL, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO; /* shorter than it was a moment ago */
		size -= (size_t)n;
	}
	return 0;
}

static int pad(int fd, size_t written)
{
	static const char zeroes[4];

	return fileio_write(fd, zeroes, -written & 3);
}

static int header(int fd, const char *name, uint32_t mode, size_t size)
{
	static const char *const no_value = "00000000";
	char text[512];
	int n, r;

	/* magic, inode, mode, uid, gid, links, mtime, size, four device numbers, name, checksum */
	n = snprintf(text, sizeof(text), "070701%08x%08x%s%s%08x%s%08zx%s%s%s%s%08zx%s%s", 0u, mode,
		     no_value, no_value, 1u, no_value, size, no_value, no_value, no_value, no_value,
		     strlen(name) + 1, no_value, name);
	if (n < 0 || (size_t)n >= sizeof(text) || size > UINT32_MAX)
		return -EINVAL;
	n++; /* the name's terminator */
	r = fileio_write(fd, text, (size_t)n);
	return r < 0 ? r : pad(fd, (size_t)n);
}

int cpio_file(int fd, const char *name, uint32_t mode, int from, size_t size)
{
	int r = header(fd, name, S_IFREG | mode, size);

	if (r == 0)
		r = copy(fd, from, size);
	return r < 0 ? r : pad(fd, size);
}

int cpio_archive(int fd, int from, size_t size)
{
	int r = copy(fd, from, size);

	return r < 0 ? r : pad(fd, size);
}

int cpio_end(int fd)
{
	int r = header(fd, "TRAILER!!!", 0, 0);
	off_t end = r < 0 ? 0 : lseek(fd, 0, SEEK_CUR);

	if (r < 0)
		return r;
	/* The kernel skips zeroes behind an archive. */
	if (end < 0 || ftruncate(fd, (end + PAGE - 1) / PAGE * PAGE) < 0 ||
	    lseek(fd, 0, SEEK_END) < 0)
		return -errno;
	return 0;
}
