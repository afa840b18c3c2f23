/* SPDX-License-Identifier: Apache-2.0 */
#include "secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "util.h"

int secret_file_open(const char *path, uid_t owner, bool root, char ret_why[static SECRET_FILE_WHY])
{
	_cleanup_close_ int fd =
		open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		if (r == -ELOOP)
			snprintf(ret_why, SECRET_FILE_WHY, "%s is a link: name the file itself",
				 path);
		else
			snprintf(ret_why, SECRET_FILE_WHY, "%s: %s", path, strerror(-r));
	} else if (!S_ISREG(st.st_mode)) {
		r = -EINVAL;
		snprintf(ret_why, SECRET_FILE_WHY, "%s is no regular file", path);
	} else if (st.st_uid != owner && !(root && st.st_uid == 0)) {
		r = -EPERM;
		snprintf(ret_why, SECRET_FILE_WHY, "%s belongs to somebody else (uid %u)", path,
			 st.st_uid);
	} else if (st.st_mode & 077) {
		r = -EPERM;
		snprintf(ret_why, SECRET_FILE_WHY,
			 "%s can be used by others: its mode is %o; chmod 600 it", path,
			 st.st_mode & 07777);
	}
	return r < 0 ? r : steal_fd(&fd);
}
