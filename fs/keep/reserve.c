/* SPDX-License-Identifier: Apache-2.0 */
/* Room for records. See reserve.h. */
#include "reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm/base/log.h"
#include "vm/base/util.h"

#define NAME "reserve"
#define STEP (64u << 10)

bool reserve_is_for(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

/* Return: 0 or -errno: it is not as large as it should be. */
static int fill(struct reserve *r, int dir)
{
	_cleanup_close_ int fd =
		openat(dir, NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat st;
	uint64_t had;
	int e = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	had = MIN((uint64_t)st.st_size, (uint64_t)RESERVE_BYTES);
	r->held = had;
	/* Also what it has already: a copy of it may have nothing but its length. */
	for (uint64_t n = RESERVE_BYTES; n >= MAX(had, (uint64_t)STEP); n -= STEP) {
		const int err = -posix_fallocate(fd, 0, (off_t)n);

		if (err == 0) {
			r->held = n;
			break;
		}
		e = err;
		/* Some of it may be there. */
		if (!reserve_is_for(err) || ftruncate(fd, (off_t)had) < 0)
			break;
	}
	return e;
}

void reserve_fill(struct reserve *r, int dir)
{
	int e;

	if (r->none || (r->known && !r->lacks))
		return;
	e = fill(r, dir);
	r->known = true;
	r->lacks = reserve_is_for(e);
	r->none = e < 0 && !r->lacks;
	if (e == 0 || r->none)
		r->err = 0;
	if (r->none)
		log_debug("there is no reserve in state_dir: %s", strerror(-e));
}

bool reserve_release(struct reserve *r, int dir, int err)
{
	if (!r->held)
		return false;
	r->held = 0;
	r->lacks = true;
	r->err = err;
	if (unlinkat(dir, NAME, 0) < 0)
		return false;
	(void)fsync(dir); /* some disks give room back behind that alone */
	return true;
}
