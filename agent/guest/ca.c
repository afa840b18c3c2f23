/* SPDX-License-Identifier: Apache-2.0 */
/* CA certificates that a guest gets from its host. */
#include "ca.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/util.h"
#include "vm/base/io.h"

#define DIR_  "/run/xsbx"
#define FILE_ DIR_ "/ca.pem"
#define NEW   DIR_ "/.ca.pem"

/* A clone has the file already; programs that read it at this moment see one or the other. */
int ca_write(const void *data, size_t len)
{
	int fd, r;

	if (mkdir(DIR_, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = open(NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	r = fileio_write(fd, data, len);
	close_fd(&fd);
	if (r == 0 && rename(NEW, FILE_) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(NEW);
	return r;
}
