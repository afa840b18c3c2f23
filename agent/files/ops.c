/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the requests of the file server. */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

struct files_fd_name files_fd_name(int fd)
{
	struct files_fd_name n;

	snprintf(n.text, sizeof(n.text), "%d", fd);
	return n;
}

int files_reopen(const struct files *f, const struct node *n, int flags)
{
	int fd;

	if (n->is.type == S_IFLNK)
		return -ELOOP;
	if (n->is.type != S_IFREG && n->is.type != S_IFDIR)
		return -ENXIO;
	fd = openat(f->proc_fd, files_fd_name(n->fd).text, flags | FILES_OPEN_ADD);
	return fd < 0 ? -errno : fd;
}

int files_attr(const struct files *f, int fd, struct proto_attr *ret_a)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_a = (struct proto_attr){.ino = number_of(&f->numbers, st.st_ino),
				     .mode = st.st_mode & (S_IFMT | FILES_MODE_MASK),
				     .nlink = (uint32_t)st.st_nlink,
				     .size = (uint64_t)st.st_size,
				     .blocks = (uint64_t)st.st_blocks,
				     .atime = st.st_atim.tv_sec,
				     .mtime = st.st_mtim.tv_sec,
				     .ctime = st.st_ctim.tv_sec,
				     .atime_ns = (uint32_t)st.st_atim.tv_nsec,
				     .mtime_ns = (uint32_t)st.st_mtim.tv_nsec,
				     .ctime_ns = (uint32_t)st.st_ctim.tv_nsec};
	return 0;
}

int files_malformed(struct proto_in *in)
{
	in->bad = true;
	return -EPROTO;
}
