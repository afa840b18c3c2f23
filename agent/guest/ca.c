/* SPDX-License-Identifier: Apache-2.0 */
/* CA certificates that a guest gets from its host. */
#include "ca.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/util.h"
#include "vm/base/io.h"

#define DIR_   "/run/xsbx"
#define JAIL   DIR_ "/ca" /* which a jail has, if it may be written to */
#define BUNDLE "/etc/ssl/certs/ca-certificates.crt"

/* Programs that know of no variable read this one. A mount is of the file that was there: it is made anew. Return: 0 or -errno. */
static int cover_bundle(const char *file)
{
	if (access(BUNDLE, F_OK) < 0)
		return 0;
	(void)umount2(BUNDLE, MNT_DETACH);
	return mount(file, BUNDLE, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

/* A clone has the file already; programs that read it at this moment see one or the other. */
int ca_write(const void *data, size_t len, bool guest)
{
	const char *const file = guest ? DIR_ "/ca.pem" : JAIL "/ca.pem",
			  *const next = guest ? DIR_ "/.ca.pem" : JAIL "/.ca.pem";
	int fd, r;

	if (guest && mkdir(DIR_, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 && errno == ENOENT && !guest)
		return 0;
	if (fd < 0)
		return -errno;
	r = fileio_write(fd, data, len);
	close_fd(&fd);
	if (r == 0 && rename(next, file) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(next);
	else if (guest)
		r = cover_bundle(file);
	return r;
}
