/* SPDX-License-Identifier: Apache-2.0 */
/* CA certificates that a guest gets from its host. */
#include "ca.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
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

/* Programs that read it at this moment see one or the other. Return: 0 or -errno. */
static int replace(const char *file, const char *next, const void *data, size_t len)
{
	int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644), r;

	if (fd < 0)
		return -errno;
	r = fileio_write(fd, data, len);
	close_fd(&fd);
	if (r == 0 && rename(next, file) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(next);
	return r;
}

/* A clone has the file already. A jail has no list of Debian's that could be covered, but /etc/wgetrc leads to what is said here. */
int ca_write(const void *data, size_t len, bool guest)
{
	static const char wgetrc[] = "ca_certificate = " DIR_ "/ca.pem\n";
	int r;

	if (guest && mkdir(DIR_, 0755) < 0 && errno != EEXIST)
		return -errno;
	r = guest ? replace(DIR_ "/ca.pem", DIR_ "/.ca.pem", data, len)
		  : replace(JAIL "/ca.pem", JAIL "/.ca.pem", data, len);
	if (r == -ENOENT && !guest)
		return 0;
	if (r == 0 && guest)
		r = cover_bundle(DIR_ "/ca.pem");
	else if (r == 0)
		r = replace(JAIL "/wgetrc", JAIL "/.wgetrc", wgetrc, strlen(wgetrc));
	return r;
}
